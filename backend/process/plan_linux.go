package process

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/explain"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/landlock"
	"github.com/confine-run/confine/internal/netns"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/internal/rootfs"
	"github.com/confine-run/confine/internal/seccomp"
	"github.com/confine-run/confine/internal/seccomp/policyfile"
	"github.com/confine-run/confine/internal/view"
	"github.com/confine-run/confine/status"
)

// Plan is what will be done for one run on this host.
type Plan struct {
	plan.Plan
	Rules   []view.Rule // what of the file system appears how, and why
	Seccomp *seccomp.Filter
	policy  *config.Policy
	command *Command
	watched *seccomp.Filter // Seccomp with files watched; nil is without
	// What questions are answered from.
	table   *rootfs.Table
	ruleset *landlock.Ruleset
	rules   *network.Rules
	ground  ground
	viewer  explain.Viewer
	seen    sync.Mutex
	view    *explain.Checker // made when it is asked for; guarded by seen
}

// planner holds what the parts of a plan are made from.
type planner struct {
	policy  *config.Policy
	command *Command
	host    *host.Facts
	plan    *Plan
	groups  groups
	ground  ground
	lowered denial // why it is not a higher one
	abi     int    // Landlock's; 0 is none
	ruleset *landlock.Ruleset
	uid     uint32 // inside and outside: it is mapped to itself
	gid     uint32
	// denyAtStart: a pattern of --deny meets a writable tree.
	denyAtStart bool
	// unsupervised is why on bare ground nothing of the network is reached.
	unsupervised string
	// unwatched is why nobody sees which files are used, although that was asked for.
	unwatched string
	// socketsLater: a tree is shown in which sockets may come to be.
	socketsLater bool
	// socketsMissed is why one that is there already may not be hidden.
	socketsMissed string
}

// NewPlan decides what will be done. It changes nothing, and needs no privilege.
// A policy that this host or this build can't enforce, and doesn't allow to be
// enforced in part, is an *Unenforceable, and the plan comes with it.
func NewPlan(policy *config.Policy, command *Command) (*Plan, error) {
	g, why := standing(host.Current())
	have := noGroupOnBare(policy)
	if g != bare {
		have = lookForGroup(policy)
	}
	return newPlan(policy, command, func() groups { return have }, g, why)
}

// newPlan asks late what cgroups give: they are being made meanwhile.
func newPlan(policy *config.Policy, command *Command, have func() groups, g ground, lowered denial) (*Plan, error) {
	if err := command.fill(); err != nil {
		return nil, err
	}
	p := &planner{policy: policy, command: command, host: host.Current(), ground: g, lowered: lowered, abi: landlockABI()}
	return p.make(have)
}

func (p *planner) make(have func() groups) (*Plan, error) {
	policy, command, lowered := p.policy, p.command, p.lowered
	p.plan = &Plan{policy: policy, command: command}
	for _, part := range []func() error{
		p.identity,
		p.namespaces,
		p.filesystem,
		p.gateway,
		func() error { p.groups = have(); return nil },
		p.showGroup,
		p.limits,
		p.filter,
		p.ledger,
	} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	err := config.Accept(policy, p.plan.Ledger)
	if err == nil {
		err = p.nested()
	}
	var cant *config.Unenforceable
	if errors.As(err, &cant) && cant.Reason == status.HomeUnusable {
		cant.Hint = "set HOME to your home directory; or " + cant.Hint
	}
	if errors.As(err, &cant) && lowered.hint != "" && cant.Reason == lowered.reason {
		cant.Hint = lowered.hint + "; or " + cant.Hint
	}
	return p.plan, err
}

// Policy is what the plan was made from.
func (p *Plan) Policy() *config.Policy { return p.policy }

// identity: the own ids, or as root those of --user.
func (p *planner) identity() error {
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	if u := p.policy.User; u != nil {
		if uid != 0 && (u.UID != uid || u.GID != gid) {
			return &config.UsageError{Msg: "--user: only root can run as another", Hint: "leave it away, or run confine as root"}
		}
		uid, gid = u.UID, u.GID
	}
	p.uid, p.gid = uid, gid
	c := &p.plan.Box
	c.UID, c.GID = uid, gid
	c.OtherIDs = int(uid) != os.Geteuid() || int(gid) != os.Getegid() || os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid()
	p.plan.UIDMap = plan.IDMap{Inside: uid, Outside: uid}
	p.plan.GIDMap = plan.IDMap{Inside: gid, Outside: gid}
	// Only root may, where it still has the capability and its user namespace lets it.
	c.DropGroups = p.host.UID() == 0 && p.host.Capable(unix.CAP_SETGID) && setgroupsAllowed()
	return nil
}

// stranger is the last id that there is in this user namespace, of users as of groups: no
// file of a system's belongs to it. 0 is none but root's.
func stranger() uint32 {
	uids, gids := lastID("/proc/self/uid_map"), lastID("/proc/self/gid_map")
	if uids != gids {
		return 0
	}
	return uids
}

// lastID is the highest id that a map has; see uid_map(5).
func lastID(name string) (last uint32) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return 0
		}
		first, err1 := strconv.ParseUint(fields[0], 10, 32)
		n, err2 := strconv.ParseUint(fields[2], 10, 32)
		if err1 != nil || err2 != nil || n == 0 {
			return 0
		}
		last = max(last, uint32(first+n-1))
	}
	return last
}

// setgroupsAllowed: root of a user namespace that an ordinary user made may not.
func setgroupsAllowed() bool {
	text, err := os.ReadFile("/proc/self/setgroups")
	return err != nil || strings.TrimSpace(string(text)) == "allow"
}

func (p *planner) namespaces() error {
	c := &p.plan.Box
	p.plan.Namespaces = p.ground.namespaces(p.policy)
	c.Namespaces = uint64(p.plan.Namespaces)
	c.Hostname = netns.Hostname
	if p.ground != bare {
		// The target's own affair: what it shows begins with the cgroup that it is in.
		c.Namespaces |= unix.CLONE_NEWCGROUP
	}
	return nil
}

func (p *planner) filesystem() error {
	in := view.Input{
		Filesystem: p.policy.Filesystem,
		Caller: view.Caller{
			Dir: p.command.Dir, HomeDir: p.command.env("HOME"), UserName: p.command.env("USER"),
			UID: p.uid, GID: p.gid, AccessUID: p.uid, AccessGID: p.gid,
			Env: p.command.env, Command: p.command.Argv[0], ConfigFiles: p.command.ConfigFiles,
		},
		Hostname: netns.Hostname, NetworkAll: p.policy.Network.All, Resolver: p.resolver(), Bare: p.ground == bare, OwnUserns: p.ground == inUserns,
		SocketsHeld: landlock.Version(p.abi).FS&landlock.ResolveUnix != 0,
	}
	if in.Etc && p.uid == 0 && p.ground != bare && p.plan.Box.DropGroups && p.host.Capable(unix.CAP_SETUID) {
		in.Stranger = stranger()
	}
	if err := p.root(&in); err != nil {
		return err
	}
	table, err := rootfs.Compile(in)
	if err != nil {
		return usage(p.startHint(err))
	}
	c, e := &p.plan.Box, &p.plan.Exec
	c.Root, c.Mounts, e.Dir, c.Stranger = table.Root, table.Mounts, table.Dir, in.Stranger
	if p.ground == bare {
		if err := p.inTheOpen(table); err != nil {
			return err
		}
	}
	if err := p.landlock(table); err != nil {
		return err
	}
	c.Scratch = handoff.Scratch{Size: p.policy.ScratchLimit(), Inodes: p.policy.MaxFiles}
	// What the kernel may refuse only when it is tried has a planned fallback,
	// which a policy that insists doesn't take.
	fs := config.Requires(p.policy, status.Filesystem)
	c.Refuse = handoff.Fallbacks{
		ProcOfCaller: fs, OverlayReadOnly: fs || config.Requires(p.policy, status.Overlay),
		NoPIDMax:     config.Requires(p.policy, status.Tasks),
		RootReadOnly: config.Requires(p.policy, status.Rootfs), OverlayKeepDirs: config.Requires(p.policy, status.Overlay),
		NestedUserns: config.Requires(p.policy, status.Privileges),
		NoListener:   slices.Contains(p.policy.Require, string(status.Syscalls)+"="+notifying),
	}
	p.plan.table, p.plan.ruleset, p.plan.ground = table, p.ruleset, p.ground
	p.plan.viewer = explain.Viewer{UID: p.uid, GID: p.gid, OneID: p.ground == inUserns, Bare: p.ground == bare}
	p.denyAtStart, p.socketsLater, p.socketsMissed = table.DenyAtStart, table.SocketsLater, table.SocketsMissed
	p.plan.Guarded = table.Guarded
	p.plan.Notices = hint.Notices(table.Notices)
	p.imageDir(in.Image.Dir)
	p.plan.Rules = p.rulesHere(table.Rules)
	if p.ground != bare {
		p.overlays(table)
	} else {
		p.shut()
	}
	table.Env["PWD"] = table.Dir
	e.Argv = p.command.Argv
	e.Env = withEnv(config.Environment(&p.policy.Env, p.passable(), table.Env), p.command.Env)
	e.TTY, e.Rows, e.Cols = p.command.TTY, p.command.Rows, p.command.Cols
	if p.policy.Env.KeepAll {
		p.notice("the whole environment is passed on, secrets too (--keep-env)")
	}
	return nil
}

// overlays says what becomes of what is written to them.
func (p *planner) overlays(table *rootfs.Table) {
	p.plan.Overlays = table.Overlays
	if len(table.Overlays) == 0 || !p.policy.Filesystem.Keep {
		return
	}
	dir, err := changes.StoreDir(p.command.env)
	if err == nil {
		err = p.command.reaches(p.policy, "kept runs", dir)
	}
	if err != nil {
		dir = ""
		why, remedy := hint.Split(err)
		p.notice("what is written to overlays can't be kept: " + strings.TrimSuffix(why+"; "+remedy, "; "))
	}
	p.plan.Keep = dir
	p.plan.Protect = slices.Clone(p.policy.Filesystem.Protect)
	for _, name := range p.command.ConfigFiles {
		if abs, err := filepath.Abs(name); err == nil {
			p.plan.Protect = append(p.plan.Protect, abs)
		}
		if real, err := filepath.EvalSymlinks(name); err == nil {
			p.plan.Protect = append(p.plan.Protect, real)
		}
	}
}

// places of the caller's, by variables that profiles pass on: in another tree
// there is something else, or nothing. One that is set (--env K=V) is set.
var places = [...]string{"PYTHONPATH", "VIRTUAL_ENV", "COVERAGE_PROCESS_START", "COVERAGE_FILE", "PYENV_*", "CONDA_*", "NODE_PATH", "NVM_*",
	"JAVA_HOME", "SDKMAN_DIR", "GOROOT", "GOPATH", "GOTOOLCHAIN", "CARGO_HOME", "RUSTUP_*", "PERL5LIB", "RUBYLIB", "GEM_*", "ASDF_*", "MISE_*"}

// passable is what of the caller's environment can be passed on.
func (p *planner) passable() []string {
	if p.policy.Filesystem.Rootfs == "" {
		return p.command.Environ
	}
	return slices.DeleteFunc(slices.Clone(p.command.Environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return config.Passes(places[:], name)
	})
}

// inTheOpen is for a target that sees the caller's files. What it would have had
// of its own is one directory.
func (p *planner) inTheOpen(table *rootfs.Table) error {
	c, e := &p.plan.Box, &p.plan.Exec
	if err := p.command.reaches(p.policy, "TMPDIR", os.TempDir()); err != nil {
		return err
	}
	c.TempDir = filepath.Join(os.TempDir(), "confine-"+rand.Text())
	c.Root, c.Mounts, e.Dir = handoff.Mount{}, nil, p.command.Dir
	if dir := p.policy.Filesystem.Chdir; dir != "" {
		e.Dir = filepath.Join(e.Dir, dir)
		if filepath.IsAbs(dir) {
			e.Dir = dir
		}
	} else if p.policy.Filesystem.Workdir == "none" {
		e.Dir = c.TempDir
	}
	table.Env["HOME"], table.Env["TMPDIR"], table.Dir = c.TempDir, c.TempDir, e.Dir
	delete(table.Env, "PATH") // as it is
	for _, name := range table.Caches {
		table.Env[name] = filepath.Join(c.TempDir, strings.ToLower(name))
	}
	return nil
}

// withEnv is an environment with further variables, of which the last of a name counts.
func withEnv(env, further []string) []string {
	if len(further) == 0 {
		return env
	}
	env = slices.Clone(env)
	for _, v := range further {
		name, _, _ := strings.Cut(v, "=")
		env = append(slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }), v)
	}
	return env
}

// usage makes what is wrong with the policy's paths, and with a policy file that
// it names, an error of usage.
func usage(err error) error {
	var path *view.Error
	var file *seccomp.PolicyError
	if !errors.As(err, &path) && !errors.As(err, &file) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return usageOf(err)
}

// usageOf takes over what an error says, and its remedy.
func usageOf(err error) error {
	msg, remedy := hint.Split(err)
	return &config.UsageError{Msg: msg, Hint: remedy, Err: err}
}

// notice tells the user, who needn't do anything about it.
func (p *planner) notice(text string) {
	p.plan.Notices = append(p.plan.Notices, hint.Notice{Text: text})
}

// The mechanisms of the system call policy: with its denials told, or not.
const notifying, silent = "seccomp_notify", "seccomp_bpf"

// filter compiles the system call policy.
func (p *planner) filter() error {
	if p.policy.Seccomp == "off" || p.policy.Seccomp == "" {
		p.unwatched = "there is no system call filter, and it is what sees them"
		p.plan.Box.Refuse.NestedUserns = true // and what would stand against them where the kernel's own limit doesn't
		return nil
	}
	var with []seccomp.Addition
	if p.command.WatchCalls {
		with = append(with, seccomp.BeyondStrict)
		p.plan.Box.Refuse.NoListener = true // nobody would let them through
	}
	// Who watches is told of these calls, too: whether the next run has them is known afterwards.
	if p.policy.Seccomp == "strict" && !p.command.WatchCalls && p.networked() {
		with = append(with, seccomp.Network)
	}
	if len(p.plan.Exec.CPUs) > 0 {
		with = append(with, seccomp.KeepCPUs)
	}
	if p.ground == bare {
		with = append(with, seccomp.SharedPIDs, seccomp.SharedIPC)
		if !p.policy.Network.All {
			with = append(with, seccomp.NoNetwork)
		}
	}
	on := policyfile.Target{Arch: runtime.GOARCH}
	if policyfile.IsFile(p.policy.Seccomp) { // a file may ask for the kernel; what ships doesn't
		if err := p.command.reaches(p.policy, "--seccomp", p.policy.Seccomp); err != nil {
			return err
		}
		on.Kernel = policyfile.Kernel(p.host.Kernel())
	}
	var base *seccomp.Policy
	var err error
	if text, ok := p.policy.TrustedSeccomp(); ok {
		base, err = policyfile.Parse(text, p.policy.Seccomp, on)
	} else {
		base, err = policyfile.Load(p.policy.Seccomp, on)
	}
	if err != nil {
		return usage(err)
	}
	build := func(watch ...seccomp.Addition) (*seccomp.Filter, error) {
		laid, err := base.With(slices.Concat(with, watch)...)
		if err != nil {
			return nil, err
		}
		return laid.Compile(seccomp.Action(p.policy.SeccompAction), on.Arch)
	}
	f, err := build()
	if err != nil {
		return usage(err)
	}
	if len(f.Program) == 0 {
		p.plan.Box.Refuse.NestedUserns = true // as above
	}
	if n := len(f.Notices); n > 0 {
		text := p.policy.Seccomp + ": " + f.Notices[0].String()
		if n > 1 {
			text += " (" + strconv.Itoa(n-1) + " more: confine seccomp check FILE)"
		}
		p.notice(text)
	}
	if p.plan.Network.Supervised {
		// Where nobody listens there is no network: the filter above.
		p.plan.Exec.Seccomp = f.Program
		with[len(with)-1] = seccomp.SupervisedNetwork
		return p.supervisedFilter(build)
	}
	p.plan.Seccomp = f
	p.plan.Exec.Seccomp = f.Program
	p.plan.SeccompKills = p.policy.SeccompAction == "kill"
	if slices.Contains(p.policy.Require, string(status.Syscalls)+"="+silent) {
		p.unwatched = "the policy wants its system call filter to be silent"
		return nil
	}
	p.plan.Exec.SeccompNotify = f.Notifying()
	return p.watch(build)
}

// supervisedFilter is the one that hands on the calls of the network. Without it there
// is none, which is only for those who accept that.
func (p *planner) supervisedFilter(build builder) error {
	f, err := build()
	if err != nil {
		return usage(err)
	}
	c, e := &p.plan.Box, &p.plan.Exec
	p.plan.Seccomp, e.SeccompNotify = f, f.Notifying()
	if len(e.SeccompNotify) == 0 {
		p.plan.Network = plan.Network{}
		p.unsupervised = "this policy of system calls can't be supervised"
	}
	c.Refuse.NoListener = c.Refuse.NoListener || !config.AllowsPartial(p.policy, status.Network)
	p.plan.SeccompKills = p.policy.SeccompAction == "kill"
	return p.watch(build)
}
