package darwin

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/internal/task"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/explain"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/internal/rootfs"
	"github.com/confine-run/confine/internal/seatbelt"
	"github.com/confine-run/confine/internal/view"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/proxy"
)

// Name is the backend's, as reports have it.
const Name = "darwin-seatbelt"

// facts are what a plan needs to know of the host.
type facts struct {
	UID, GID uint32
	Groups   []uint32
	Temp     string // where directories of runs are made, canonical
	Self     string // this program, canonical
	Nested   bool   // this process is in a sandbox
	Files    hostfs.Inspector
}

// limits are what everybody in a sandbox is held to; 0: none.
type limits struct {
	Memory      int64 // bytes of physical footprint
	CPU         time.Duration
	Tasks       int64
	Disk, Files int64
	// Of each process.
	Descriptors, FileSize int64
}

// Plan is what will be done for one sandbox.
type Plan struct {
	Limits limits
	task.Plan
	Env map[string]string // what the view makes of it; values that begin with place are below the run's directory
	// Gateway: a proxy leads to what Reach allows.
	Gateway bool
	Reach   plan.Network `json:"-"`
	Trees   []string     // that can be written to

	guarded plan.Guarded
	input   seatbelt.Input // but for the place, the port and the mark
	profile *seatbelt.Profile
	view    *view.View
	have    facts
}

// place stands for the run's own directory until there is one.
const place = "$PLACE"

// newPlan decides what will be done. It changes nothing and asks nobody but the facts.
func newPlan(s *backend.Spec, have facts) (*Plan, error) {
	p := &Plan{Plan: task.NewPlan(Name, "macOS", s), have: have}
	for _, part := range []func() error{p.Refuse, p.limits, p.held, p.reach, p.files} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	if have.Nested {
		const why = "confine is in a sandbox of macOS itself, and there is none in another"
		p.Lines.Missing(status.Filesystem, status.NestedSandbox, why)
		return p, &config.Unenforceable{Capability: status.Filesystem, Requested: p.Lines[status.Filesystem].Requested, Reason: status.NestedSandbox, Details: why,
			Hint: "let what has put it there run confine outside; an agent mostly has a setting for that", Ledger: status.Ledger(p.Lines)}
	}
	return p, config.Accept(s.Policy, p.Lines)
}

// limits are rlimits, and what is watched.
func (p *Plan) limits() error {
	q, l := p.Spec.Policy, p.Lines
	p.Limits = limits{q.MemoryLimit, q.CPUTime, q.Processes, q.DiskLimit, q.MaxFiles, q.FileDescriptors, q.MaxFileSize}
	l.Enforced(status.WallTime, "timer", "")
	l.Enforced(status.Output, "relay", "")
	looked := "looked at every " + task.LookEvery.String()
	l.Fallback(status.CPUTime, "rusage_watchdog", status.PlatformUnsupported, "of all processes, "+looked+"; of one alone RLIMIT_CPU behind it")
	l.Fallback(status.Memory, "rusage_watchdog", status.PlatformUnsupported, "physical footprint of all processes, "+looked+": what is taken between two looks is taken")
	l.Fallback(status.Tasks, "tasks_watchdog", status.PlatformUnsupported, "processes and their threads, "+looked+"; the newest are killed until no more are left")
	const watched = "the run's directory, and what writable trees grow by, looked through every " // a quarter of a second, or longer
	l.Fallback(status.Disk, "disk_watchdog", status.PlatformUnsupported, watched+task.LookAtDiskEvery.String())
	l.Fallback(status.Files, "disk_watchdog", status.PlatformUnsupported, watched+task.LookAtDiskEvery.String())
	l.Enforced(status.FileDescriptors, "rlimit_nofile", "per process")
	l.Enforced(status.FileSize, "rlimit_fsize", "")
	l.Missing(status.CPURate, status.PlatformUnsupported, "macOS holds no program to a share of a CPU")
	l.Missing(status.CPUs, status.PlatformUnsupported, "macOS lets nobody choose CPUs")
	return nil
}

// held is what keeps the processes together and from privileges, and what nothing keeps them from.
func (p *Plan) held() error {
	l := p.Lines
	l.Enforced(status.Containment, "seatbelt", "who is in the run's sandbox is found among the user's processes, and killed; by a keeper where confine itself was killed")
	if p.have.UID == 0 {
		l.Partial(status.Privileges, "seatbelt", status.PlatformUnsupported, "the sandbox executes no setuid program, but the processes are root's")
	} else {
		l.Enforced(status.Privileges, "seatbelt", "the sandbox executes no setuid program")
	}
	p.Unfiltered("; its sandbox holds services, devices and settings")
	return nil
}

// reach is whom the processes may connect to.
func (p *Plan) reach() error {
	n, l := &p.Spec.Policy.Network, p.Lines
	l.Missing(status.Publish, status.PlatformUnsupported, "there is no network of the run's own whose ports could be published")
	const own = "; sockets in the run's directory are its own"
	switch {
	case n.All && n.Log:
		l.Missing(status.Network, status.PlatformUnsupported, "the caller's network as it is, and nothing sees what goes over it")
		fallthrough
	case n.All:
		p.input.Network = true
	case len(n.Allow) == 0:
		l.Enforced(status.Network, "seatbelt", "nobody can be connected to, and nothing listened on, loopback neither"+own)
	default:
		rules, err := n.Rules()
		if err != nil {
			return err
		}
		p.Gateway, p.Reach = true, plan.Network{Rules: *rules, Log: n.Log, MaxBytes: n.MaxBytes, MaxConnections: int(n.MaxConnections)}
		l.Fallback(status.Network, "proxy", status.PlatformUnsupported,
			"a gateway on loopback is all that can be connected to, by TCP: programs that ask the proxy of HTTP_PROXY and the like reach by it what the rules allow, others nothing"+own)
	}
	return nil
}

// files decide what is visible.
func (p *Plan) files() error {
	q, have := p.Spec.Policy, p.have
	env := func(name string) string { return config.LookupEnv(p.Spec.Environ, name) }
	in := view.Input{
		Filesystem: q.Filesystem,
		Caller: view.Caller{
			Dir: p.Spec.Dir, HomeDir: env("HOME"), UserName: env("USER"), UID: have.UID, GID: have.GID, AccessUID: have.UID, AccessGID: have.GID,
			Env: env, ConfigFiles: p.Spec.ConfigFiles,
		},
		NetworkAll: q.Network.All, Bare: true, MacOS: true, SocketsHeld: true, Host: have.Files,
	}
	if len(p.Spec.Argv) > 0 {
		in.Command = p.Spec.Argv[0]
	}
	in.Protect = append(slices.Clip(in.Protect), macProtected[:]...)
	table, err := p.look(in)
	if err != nil {
		return usage(err)
	}
	p.view, p.guarded, p.Shown = table.View, table.Guarded, table.Rules
	p.Told = append(p.Told, hint.Notices(table.Notices)...)
	p.input.View, p.input.Absent, p.input.Programs = table.View, table.KeepAbsent, []string{have.Self}
	p.compile("", 0)
	p.start(table)
	p.environment(table)
	l := p.Lines
	l.Enforced(status.Filesystem, "seatbelt", "by canonical paths; HOME and TMPDIR are a directory of the run's own, and nobody makes hard links or clones")
	if table.DenyAtStart {
		l.Note(status.Filesystem, "in writable trees --deny hides what is there at the start, not what is made later")
	}
	if table.ProtectsLess {
		l.Note(status.Filesystem, "not all that other programs obey is protected")
	}
	for i := range table.Grants {
		if g := &table.Grants[i]; g.Access == view.Write && g.Src.Mode.IsDir() {
			p.Trees = append(p.Trees, g.Dst)
		}
	}
	if len(p.Trees) > 0 {
		l.Note(status.Filesystem, "what comes to be at protected paths, by a name in another case or a directory that is moved there, is removed at the end")
	}
	if q.HasOverlay() {
		l.Ask(status.Overlay, "any")
		l.Missing(status.Overlay, status.PlatformUnsupported, "there are no overlays: the trees are read-only")
	}
	return nil
}

// macProtected are protected beside what a policy protects: launchd and the login run them.
var macProtected = [...]string{"~/Library/LaunchAgents", "~/Library/Scripts", "~/Library/Services", "~/Library/Python"}

// look decides what is visible, below a ceiling where there is one.
func (p *Plan) look(in view.Input) (*rootfs.Table, error) {
	if p.Spec.Ceiling == nil {
		return rootfs.Compile(in)
	}
	ceiling := &rootfs.Ceiling{Filesystem: p.Spec.Ceiling.Filesystem, Base: p.Spec.CeilingDir}
	t, err := ceiling.Compile(in)
	if wider, ok := errors.AsType[*rootfs.WiderError](err); ok {
		return nil, &config.CeilingError{Option: wider.Option, Path: wider.Path, Err: wider}
	}
	return t, err
}

// compile makes the profile, once the run's directory and the gateway's port are known.
func (p *Plan) compile(dir string, port uint16) {
	p.input.Place, p.input.Proxy = dir, port
	p.profile = seatbelt.Compile(p.input)
}

// start finds where processes start.
func (p *Plan) start(table *rootfs.Table) {
	p.Start = table.Dir
	if p.Spec.Policy.Filesystem.Chdir == "" && p.Start == names.TmpDir || !p.profile.Allows(p.Start, seatbelt.Stat) {
		p.Start = ""
	}
}

// environment is what the view makes of it.
func (p *Plan) environment(table *rootfs.Table) {
	p.Env = maps.Clone(table.Env)
	p.Env["HOME"], p.Env["TMPDIR"] = place+"/home", place+"/tmp/"
	for _, name := range table.Caches {
		p.Env[name] = place + "/" + strings.ToLower(name)
	}
	if p.Start != "" {
		p.Env["PWD"] = p.Start
	}
}

// environ is the environment of processes, once the run's directory and the gateway's port are known.
func (p *Plan) environ(dir string, port uint16) []string {
	env := maps.Clone(p.Env)
	for name, value := range env {
		if rest, ok := strings.CutPrefix(value, place); ok {
			env[name] = dir + rest
		}
	}
	if port != 0 {
		maps.Copy(env, proxy.Environ(port))
	}
	return config.Environment(&p.Spec.Policy.Env, p.Spec.Environ, env)
}

// usage is the mistake that an error is about a path, where it is one.
func usage(err error) error {
	if _, ok := errors.AsType[*view.Error](err); !ok && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	msg, remedy := hint.Split(err)
	return &config.UsageError{Msg: msg, Hint: remedy, Err: err}
}

func (p *Plan) Key() [32]byte {
	return backend.KeyOf(p, p.Spec.Policy.Digest(), p.profile.Rules)
}

// Ask answers by the rules that the gateway asks, and by the profile.
func (p *Plan) Ask(q config.Ask) (config.Answer, error) {
	a := config.Answer{Kind: q.Kind, Asked: q.Word, Access: q.Access}
	switch q.Kind {
	case config.AskHost:
		err := p.askHost(&a)
		return a, err
	case config.AskPath:
		err := p.askPath(&a)
		return a, err
	}
	return a, p.NoSyscalls()
}

func (p *Plan) askHost(a *config.Answer) error {
	n := &p.Spec.Policy.Network
	if n.All {
		a.Answer, a.Reason, a.Details = config.AnswerYes, "network_all", "the caller's network as it is"
		return nil
	}
	rules, err := n.Rules()
	if err != nil {
		return err
	}
	v, err := rules.Ask(a.Asked)
	if err != nil {
		return &config.UsageError{Msg: "--host: " + err.Error(), Err: err}
	}
	a.Where, a.Answer, a.Reason, a.Hint = v.Place, config.AnswerNo, string(v.Why), v.Hint
	if v.Allowed {
		a.Answer, a.Details = config.AnswerYes, "for programs that ask the proxy"
	}
	if word, denied := v.Word(); v.Rule != "" && denied {
		a.Rule = "--deny-network " + word
	} else if v.Rule != "" {
		a.Rule = "--allow-network " + word
	}
	return nil
}

// needs are what of the profile an operation takes.
var needs = map[explain.Op]seatbelt.Do{explain.Read: seatbelt.Read, explain.Write: seatbelt.Data, explain.Create: seatbelt.Write, explain.Exec: seatbelt.Exec}

// askPath asks what is there, as for the caller, and then the profile.
func (p *Plan) askPath(a *config.Answer) error {
	a.Access = cmp.Or(a.Access, string(explain.Read))
	op := explain.Op(a.Access)
	if needs[op] == 0 || a.Asked == "" || strings.ContainsRune(a.Asked, 0) {
		return &config.UsageError{Msg: "--path " + strconv.Quote(a.Asked) + " --access " + strconv.Quote(a.Access) + " asks nothing", Hint: "--access is one of " + strings.Join(config.Accesses(), ", ")}
	}
	name := a.Asked
	if !path.IsAbs(name) {
		name = p.Spec.Dir + "/" + name
	}
	s := explain.New(p.view, explain.Viewer{UID: p.have.UID, GID: p.have.GID, Groups: p.have.Groups, Bare: true, Host: p.have.Files}).Check(name, op)
	at, do := s.Path, needs[op]
	if op == explain.Write && s.IsDir {
		at, do = path.Join(at, "new"), seatbelt.Write
	}
	a.Answer, a.Reason, a.Details, a.Where = config.AnswerNo, string(s.Reason), s.Details, s.Meant
	switch rule := view.NearestRule(p.Shown, s.Path); {
	case !p.profile.Allows(at, do):
		if a.Reason = string(explain.ReadOnly); !p.profile.Allows(at, seatbelt.Read) {
			a.Reason = string(explain.Hidden)
		}
		a.Rule, a.Origin, a.Details = rule.Why, rule.Origin, fmt.Sprintf("seatbelt: %s", cmp.Or(rule.Access, "nothing shows it"))
	case s.Granted:
		a.Answer, a.Rule, a.Origin = config.AnswerYes, rule.Why, rule.Origin
	}
	return nil
}
