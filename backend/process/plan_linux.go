package process

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
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
	"github.com/confine-run/confine/internal/view"
	"github.com/confine-run/confine/internal/wasm"
	"github.com/confine-run/confine/status"
)

// Plan is what will be done for one run on this host.
type Plan struct {
	plan.Plan
	Rules   []view.Rule // what of the file system appears how, and why
	Seccomp *seccomp.Filter
	policy  *config.Policy
	command *Command
	engine  *engine         // nil: the command is a program
	planned time.Time       // of a box
	watched *seccomp.Filter // Seccomp with files watched; nil is without
	// What questions are answered from.
	table   *rootfs.Table
	ruleset *landlock.Ruleset
	rules   *network.Rules
	tier    tier
	why     downgrade // why it is no higher tier
	viewer  explain.Viewer
	seen    sync.Mutex
	view    *explain.Checker // made when it is asked for; guarded by seen
}

// planner is what every part of a plan is made from, and the plan that is being made. Each part is a compiler of its own,
// which fills in its fields of the plan and writes the lines of the ledger about them; no other part changes those.
type planner struct {
	policy   *config.Policy
	command  *Command
	host     *host.Facts
	tier     tier
	why      downgrade // why it is not a higher one
	landlock int       // the ABI that the kernel has; 0 is none
	uid      uint32    // inside and outside: it is mapped to itself
	gid      uint32
	plan     *Plan
}

// NewPlan decides what will be done. It changes nothing, and needs no privilege.
// A policy that this host or this build can't enforce, and doesn't allow to be
// enforced in part, is an *Unenforceable, and the plan comes with it.
func NewPlan(policy *config.Policy, command *Command) (*Plan, error) {
	t, why := probeTier(host.Current())
	have := noGroupWithoutNS(policy)
	if t != tierNoNS {
		have = lookForGroup(policy)
	}
	return newPlan(policy, command, func(*Plan) groups { return have }, t, why)
}

// newPlan asks late what cgroups give. have is called when nothing else is missing of the box.
func newPlan(policy *config.Policy, command *Command, have func(*Plan) groups, t tier, why downgrade) (*Plan, error) {
	if err := command.fill(); err != nil {
		return nil, err
	}
	return newPlanner(policy, command, t, why).make(have)
}

func newPlanner(policy *config.Policy, command *Command, t tier, why downgrade) *planner {
	policy, command, engine := withEngine(policy, command)
	p := &Plan{policy: policy, command: command, engine: engine, tier: t, why: why}
	p.Ledger = backend.Asked(policy)
	p.Box.Refuse = insists(policy)
	return &planner{policy: policy, command: command, host: host.Current(), tier: t, why: why, landlock: landlockABI(), plan: p}
}

// make has each part compiled, in an order in which each finds what it needs.
func (p *planner) make(have func(*Plan) groups) (*Plan, error) {
	files := fileCompiler{p}
	network := networkCompiler{planner: p}
	limits := limitCompiler{planner: p}
	filter := filterCompiler{planner: p, network: &network}
	for _, part := range []func() error{
		p.identity,
		files.compile,
		network.compile,
		limits.beforehand,
		filter.compile,
		func() error { limits.groups = have(p.plan); return nil }, // the box may be built from here on
		limits.compile,
		p.containment,
		p.asEngine,
		p.standOn,
	} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	err := config.Accept(p.policy, p.plan.Ledger)
	if err == nil {
		err = files.nested()
	}
	var cant *config.Unenforceable
	if errors.As(err, &cant) && cant.Reason == status.HomeUnusable {
		cant.Hint = "set HOME to your home directory; or " + cant.Hint
	}
	if errors.As(err, &cant) && cant.Capability == status.Isolation && p.policy.Isolation == isolationWASM {
		cant.Hint = wasm.Install + "; or " + cant.Hint
	}
	if errors.As(err, &cant) && p.why.hint != "" && cant.Reason == p.why.reason {
		cant.Hint = p.why.hint + "; or " + cant.Hint
	}
	return p.plan, err
}

// insists says which fallbacks a policy doesn't take, of what the kernel may refuse only when it is tried.
func insists(q *config.Policy) handoff.Fallbacks {
	files, overlay := config.Requires(q, status.Filesystem), config.Requires(q, status.Overlay)
	return handoff.Fallbacks{
		ProcOfCaller: files, OverlayReadOnly: files || overlay, OverlayKeepDirs: overlay,
		RootReadOnly: config.Requires(q, status.Rootfs),
		NoPIDMax:     config.Requires(q, status.Tasks),
		NestedUserns: config.Requires(q, status.Privileges),
		NoListener:   slices.Contains(q.Require, string(status.Syscalls)+"="+notifying),
	}
}

// identity: the own ids, or as root those of --user, and the namespaces that they are in.
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

	p.plan.Namespaces = p.tier.namespaces(p.policy)
	c.Namespaces = uint64(p.plan.Namespaces)
	c.Hostname = cmp.Or(p.command.Shape.Hostname, netns.Hostname)
	if p.tier != tierNoNS {
		// The target's own affair: what it shows begins with the cgroup that it is in.
		c.Namespaces |= unix.CLONE_NEWCGROUP
	}
	return nil
}

// containment says what keeps the target's processes together, and from privileges: namespaces, and where those are
// missing, the rules of Landlock and the filter, which have been compiled.
func (p *planner) containment() error {
	l, filter, rules := p.plan.Ledger, p.plan.Seccomp, p.plan.ruleset
	const held = "no capability in any set, no_new_privs, securebits locked"
	if p.tier != tierNoNS {
		l.Enforced(status.Containment, "pid_namespace", "the namespace's init ends, and the kernel everything in it")
	}
	switch {
	case p.tier == tierUserNS:
		l.Enforced(status.Privileges, "user_namespace", held)
		return nil
	case p.tier == tierRoot && filter != nil && filter.Kind != "file":
		l.Fallback(status.Privileges, "capabilities_dropped", p.why.reason, held+"; uid 0 is the host's")
		return nil
	case p.tier == tierRoot:
		l.Partial(status.Privileges, "capabilities_dropped", p.why.reason,
			"no capability in any set, but no filter of ours that keeps it from a user namespace with all of them")
		return nil
	}
	if rules.Scoped&landlock.ScopeSignals != 0 && filter != nil {
		l.Fallback(status.Containment, "subreaper", p.why.reason, "a guard ends what is left; Landlock keeps signals inside")
	} else {
		l.Partial(status.Containment, "subreaper", p.why.reason,
			"a guard ends what is left; a target that kills its guard gets away from it, and signals reach the caller's other processes")
	}
	switch {
	case p.uid == 0 && rules.Held():
		l.Partial(status.Privileges, "no_new_privs", p.why.reason, "no capability, and Landlock, but uid 0 may change mode and owner of what belongs to it")
	case p.uid == 0:
		l.Partial(status.Privileges, "no_new_privs", p.why.reason, "no capability, but uid 0 may write what belongs to it, in /proc/sys too")
	default:
		l.Fallback(status.Privileges, "no_new_privs", p.why.reason, "no capability but in the bounding set, out of which nothing comes back")
	}
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

// denied says whether --deny meets what isn't the caller's.
func (p *planner) denied(name string) bool {
	return slices.ContainsFunc(p.policy.Filesystem.Deny, func(pattern string) bool {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(p.command.Dir, pattern)
		}
		pattern = path.Clean(pattern)
		matched, err := doublestar.Match(pattern, name)
		return err != nil || matched || strings.HasPrefix(name, pattern+"/")
	})
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
