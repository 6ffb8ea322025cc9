package process

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func planned(t *testing.T, change func(*config.Policy)) *Plan {
	t.Helper()
	policy := config.Default()
	change(&policy)
	p, err := NewPlan(&policy, &Command{Argv: []string{"true"}, Dir: t.TempDir(), Environ: []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent"}})
	must.Do(t, err)
	return p
}

func TestEveryCapabilityAskedForHasAMechanism(t *testing.T) {
	p := planned(t, func(*config.Policy) {})
	for c, e := range p.Ledger {
		if e.Applied {
			t.Errorf("%s: a plan can't confirm anything", c)
		}
		if e.Enabled != (e.Mechanism != "none") {
			t.Errorf("%s: %+v", c, e)
		}
	}
	for _, c := range []status.Capability{status.Containment, status.WallTime, status.CPUTime, status.Memory, status.Tasks,
		status.FileDescriptors, status.Disk, status.Output, status.Filesystem, status.Network, status.Syscalls, status.Privileges} {
		if !p.Ledger[c].Enabled {
			t.Errorf("the default profile asks for %s, and the ledger doesn't know", c)
		}
	}
}

// What was looked at when it was trusted is what counts, whatever its file says by now.
func TestTrustedPolicyOfSystemCallsIsReadOnce(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	path, policy := filepath.Join(home, "confine.toml"), filepath.Join(home, "pol.toml")
	write := func(path, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write(path, "[sandbox]\nseccomp = './pol.toml'\n")
	write(policy, "extends = 'strict'\n")
	src := config.Sources{Dir: home, Home: home, UID: os.Getuid(), SystemFile: filepath.Join(home, "none")}
	if _, _, err := config.Trust(src, path); err != nil {
		t.Fatal(err)
	}
	r, err := config.Resolve(src)
	must.Do(t, err)
	plan := func() []uint64 {
		p, err := NewPlan(&r.Policy, &Command{Argv: []string{"true"}, Dir: t.TempDir(), Environ: []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent"}})
		must.Do(t, err)
		return p.Exec.Seccomp
	}
	before := plan()
	write(policy, "default_action = 'allow'\n[[rules]]\nnames = ['reboot']\naction = 'deny'\nreason = 'x'\n")
	if after := plan(); !slices.Equal(before, after) {
		t.Errorf("%d instructions, then %d", len(before), len(after))
	}
}

func TestNetworkNamespace(t *testing.T) {
	if p := planned(t, func(*config.Policy) {}); p.Namespaces&unix.CLONE_NEWNET == 0 {
		t.Error("no network, but the caller's namespace")
	}
	if p := planned(t, func(q *config.Policy) { q.Network.All = true }); p.Namespaces&unix.CLONE_NEWNET != 0 {
		t.Error("the caller's network, but an own namespace")
	}
}

// Where a port of the caller's own leaves no room for the gateway's, less is told than otherwise,
// and the ledger claims no more than there is.
func TestAloneWithTheResolversPort(t *testing.T) {
	for allow, want := range map[string]string{"localhost:53": "network_namespace", "localhost:54": "network_redirect"} {
		p := planned(t, func(q *config.Policy) { q.Network.Allow = []string{allow} })
		e := p.Ledger[status.Network]
		if e.Mechanism != want || !e.Effective || strings.Contains(e.Details, "nftables") != (want == "network_redirect") {
			t.Errorf("%s: %+v", allow, e)
		}
		if (len(p.Box.Network.Requests) == 0) != (want == "network_namespace") {
			t.Errorf("%s: %d requests", allow, len(p.Box.Network.Requests))
		}
	}
}

func TestNamedHostsAreReachedThroughSockets(t *testing.T) {
	p := planned(t, func(q *config.Policy) { q.Network.Allow = []string{"a.example:443", "localhost:5432"} })
	if p.Namespaces&unix.CLONE_NEWNET == 0 {
		t.Error("named hosts, and the caller's namespace")
	}
	e := p.Ledger[status.Network]
	if e.Mechanism != "network_redirect" || !e.Effective || e.Requested != "a.example:443,localhost:5432" {
		t.Errorf("ledger: %+v", e)
	}
	uses := map[handoff.Use]int{}
	for _, s := range p.Box.Network.Sockets {
		uses[s.Use]++
		if s.Use == handoff.UseLocalhost && s.Port != 5432 {
			t.Errorf("a socket for localhost:%d", s.Port)
		}
	}
	// Of each family: a listener and a socket for datagrams, for the resolver and for
	// localhost; for all others these, one for answers, and two for the named port.
	if uses[handoff.UseObserve] != 4 || uses[handoff.UseResolve] != 4 || uses[handoff.UseLocalhost] != 4 || uses[handoff.UseConnect] != 10 {
		t.Errorf("sockets: %v", uses)
	}
	if q := planned(t, func(*config.Policy) {}); len(q.Box.Network.Sockets)+len(q.Box.Network.Requests) != 0 || q.Box.Network.Dials {
		t.Error("no network, and sockets that lead out of it")
	}
}

func withoutNS(t *testing.T, change func(*config.Policy)) *Plan {
	t.Helper()
	policy := config.Default()
	policy.Network.Allow = []string{"a.example:443"}
	policy.AllowPartial = []string{"all"}
	change(&policy)
	command := &Command{Argv: []string{"true"}, Dir: t.TempDir(), Environ: []string{}}
	p, err := newPlan(&policy, command, func(*Plan) groups { return groups{} }, tierNoNS, downgrade{reason: status.UsernsDenied})
	must.Do(t, err)
	return p
}

func TestNamedHostsWithoutNamespacesAreSupervised(t *testing.T) {
	p := withoutNS(t, func(*config.Policy) {})
	if why := host.Current().CantSupervise(false); why != "" {
		t.Skip(why)
	}
	e := p.Ledger[status.Network]
	if e.Mechanism != "seccomp_connect" || e.Effective != (landlockABI() > 0) || e.FallbackReason != status.UsernsDenied || len(p.Box.Network.Sockets) != 0 {
		t.Errorf("%+v, %d sockets", e, len(p.Box.Network.Sockets))
	}
	if !p.Network.Supervised || len(p.Exec.SeccompNotify) == 0 {
		t.Error("nobody hands the calls on")
	}
	none := withoutNS(t, func(q *config.Policy) { q.Network.Allow = nil })
	if !slices.Equal(p.Exec.Seccomp, none.Exec.Seccomp) {
		t.Error("without a listener there is more than no network")
	}
	if none.Network.Supervised {
		t.Error("no network, and supervised")
	}
	if p.Box.Refuse.NoListener {
		t.Error("whoever accepts less doesn't get it")
	}
	if p := withoutNS(t, func(q *config.Policy) {
		q.AllowPartial = []string{"disk", "files", "containment", "tasks", "privileges", "filesystem"}
	}); !p.Box.Refuse.NoListener {
		t.Error("without a listener it goes on")
	}
}

func TestNamedHostsThatNobodyCanSuperviseAreNothing(t *testing.T) {
	for name, change := range map[string]func(*config.Policy){
		"no filter":         func(q *config.Policy) { q.Seccomp = "off" },
		"not to be told":    func(q *config.Policy) { q.Require = []string{"syscalls=seccomp_bpf"} },
		"only what is open": func(q *config.Policy) { q.Network.Allow, q.Network.Publish = nil, []string{"8080:80"} },
	} {
		p := withoutNS(t, change)
		if e := p.Ledger[status.Network]; p.Network.Supervised || e.Mechanism == "seccomp_connect" || e.Effective {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestWhatIsNotInThisBuildIsRefused(t *testing.T) {
	for name, change := range map[status.Capability]func(*config.Policy){
		status.Cgroup:    func(q *config.Policy) { q.CgroupParent = "/x" },
		status.Isolation: func(q *config.Policy) { q.Isolation = "vm" },
		status.Network:   func(q *config.Policy) { q.Network.All, q.Network.Log = true, true },
	} {
		policy := config.Default()
		change(&policy)
		_, err := NewPlan(&policy, &Command{Argv: []string{"true"}, Dir: t.TempDir(), Environ: []string{}})
		if cant, ok := errors.AsType[*config.Unenforceable](err); !ok || cant.Capability != name {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

func TestLimitsBecomeRlimits(t *testing.T) {
	p := planned(t, func(q *config.Policy) {
		q.FileDescriptors, q.MaxFileSize, q.CPUTime, q.MemoryLimit = 33, 4096, 1500*time.Millisecond, 1<<20
	})
	got := map[uint32][2]uint64{}
	for _, l := range p.Exec.Rlimits {
		got[l.Resource] = [2]uint64{l.Soft, l.Hard}
	}
	for resource, want := range map[uint32][2]uint64{
		unix.RLIMIT_NOFILE: {33, 33},
		unix.RLIMIT_FSIZE:  {4096, 4096},
		unix.RLIMIT_CPU:    {3, 4}, // behind the watchdog's 1.5 s
		unix.RLIMIT_CORE:   {1, 1},
		unix.RLIMIT_RTPRIO: {0, 0},
		unix.RLIMIT_NICE:   {0, 0},
	} {
		if l, there := got[resource]; !there || l != want {
			t.Errorf("rlimit %d: %v, want %v", resource, got[resource], want)
		}
	}
	for _, resource := range []uint32{unix.RLIMIT_DATA, unix.RLIMIT_AS} {
		if _, there := got[resource]; there {
			t.Errorf("rlimit %d bounds what is mapped, whether it is touched or not", resource)
		}
	}
}

func TestTasksAreHeldByTheKernelWhereItCan(t *testing.T) {
	p := planned(t, func(q *config.Policy) { q.Processes = 9 })
	e := p.Ledger[status.Tasks]
	switch {
	case os.Geteuid() != 0 && e.Mechanism != "rlimit_nproc":
		t.Errorf("an ordinary user: %+v", e)
	case os.Geteuid() == 0 && (e.Mechanism == "pid_max") != (p.Bounds.PIDMax == 9):
		t.Errorf("root: %+v, pid_max %d", e, p.Bounds.PIDMax)
	case (e.Mechanism == "tree_watchdog") != p.Watch.KillTasks:
		t.Errorf("%+v, watched %v", e, p.Watch.KillTasks)
	}
}

func TestOnlyRootRunsAsAnother(t *testing.T) {
	policy := config.Default()
	policy.User = &config.User{UID: 12345, GID: 12345}
	p, err := NewPlan(&policy, &Command{Argv: []string{"true"}, Dir: "/", Environ: []string{"PATH=/usr/bin"}})
	if os.Geteuid() != 0 {
		if _, ok := errors.AsType[*config.UsageError](err); !ok {
			t.Errorf("%v, want a usage error", err)
		}
		return
	}
	if err != nil || p.UIDMap.Outside != 12345 || p.Box.UID != 12345 || !p.Box.DropGroups {
		t.Errorf("%v %+v", err, p)
	}
}

func TestNoCommand(t *testing.T) {
	policy := config.Default()
	var usage *config.UsageError
	if _, err := NewPlan(&policy, &Command{}); !errors.As(err, &usage) {
		t.Errorf("%v, want a usage error", err)
	}
}

// What a policy asks for and no part of the plan writes about would be told as not in this build.
func TestEveryPartOfThePlanWritesItsLines(t *testing.T) {
	asksForAll := func(q *config.Policy) {
		q.TimeLimit, q.CPUTime, q.CPULimit, q.CPUs, q.MemoryLimit, q.Processes = time.Minute, time.Minute, 50, 1, 1<<30, 9
		q.FileDescriptors, q.MaxFileSize, q.DiskLimit, q.MaxFiles, q.OutputLimit = 99, 1<<20, 1<<20, 99, 1<<20
		q.Network.Allow, q.Network.Publish = []string{"a.example"}, []string{"8080:80"}
		q.Filesystem.Rootfs, q.Filesystem.Mounts = "/usr", []config.Mount{{Src: "tmpfs", Dst: "/x", Size: 1 << 20}}
		q.CgroupParent = "/x"
	}
	for _, on := range []tier{tierUserNS, tierRoot, tierNoNS} {
		for name, change := range map[string]func(*config.Policy){
			"all":                   asksForAll,
			"all, without a filter": func(q *config.Policy) { asksForAll(q); q.Seccomp = "off" },
			"overlay":               func(q *config.Policy) { q.Filesystem.Workdir = "overlay" },
			"the caller's network":  func(q *config.Policy) { q.Network.All, q.Network.Publish = true, []string{"8080:80"} },
		} {
			policy := config.Default()
			change(&policy)
			policy.AllowPartial = []string{"all"}
			command := &Command{Argv: []string{"true"}, Dir: t.TempDir(), Environ: []string{"HOME=/nonexistent"}}
			have := func(*Plan) groups { return groups{err: errors.New("none")} }
			p, err := newPlan(&policy, command, have, on, downgrade{reason: status.UsernsDenied})
			if err != nil {
				t.Fatalf("tier %d, %s: %v", on, name, err)
			}
			for c, e := range p.Ledger {
				if e.FallbackReason == status.NotInBuild || e.Enabled && e.Requested == "" {
					t.Errorf("tier %d, %s, %s: %+v", on, name, c, e)
				}
			}
		}
	}
}
