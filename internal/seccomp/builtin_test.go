package seccomp

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

var (
	actions       = []Action{ActionErrno, ActionKill, ActionLog}
	tables        = []*Table{&amd64, &arm64}
	allAdditions  = []Addition{Network, SharedPIDs, SharedIPC, NoNetwork, KeepCPUs, SupervisedNetwork, WatchedFiles, WatchedLooks}
	builtPolicies = []*Policy{Builtin("default"), Builtin("strict")}
)

// withAdditions is a policy that ships, with additions.
func withAdditions(t *testing.T, name string, with ...Addition) *Policy {
	t.Helper()
	p, err := Builtin(name).With(with...)
	must.Do(t, err)
	return p
}

func compiled(t *testing.T, p *Policy, a Action, arch string) *Filter {
	t.Helper()
	f, err := p.Compile(a, arch)
	must.Do(t, err)
	return f
}

func compileBuiltin(t *testing.T, name string, a Action, arch string, with ...Addition) *Filter {
	t.Helper()
	return compiled(t, withAdditions(t, name, with...), a, arch)
}

// extending is a file's policy: rules, and then those of one that ships, if one is named.
func extending(base string, rules ...Rule) *Policy {
	p := &Policy{Kind: "file", Version: "own.toml", Rules: rules}
	if b := Builtin(base); b != nil {
		p.Default, p.Rules = b.Default, append(rules, b.Rules...)
	}
	return p
}

// ruleFor is a rule about one call, on conditions if there are any.
func ruleFor(name, call string, o Outcome, args ...Cond) Rule {
	return Rule{Name: name, Calls: []string{call}, Outcome: o, Args: args}
}

// allowing allows what no rule names.
func allowing(rules ...Rule) *Policy {
	return &Policy{Kind: "file", Version: "open.toml", Default: Outcome{Do: Allow}, Rules: rules}
}

// golden are the digests of everything that has been released. A policy that
// changes gets a new version and a new line here; no line is ever changed.
var golden = map[string]string{
	"default/1":            "sha256:28fc6841cf7f219fcf4b9c25cea46ffbf4b7ab48d3687ec2072b3b03a6c4a88a",
	"strict/1":             "sha256:1d932197b2169c4e2185e51fd694261de6525865c4a20c266933f2f7c9f9f1b4",
	"default/2":            "sha256:8b7287743e62e289b640dee720c37ae69ad95662b586048e8032d2572318fe6a",
	"default/3":            "sha256:e91ac1e9ab3f5e30fcfa52038992ec49cea0a43386a1d71448225bdb1a1fa27c",
	"strict/2":             "sha256:b65f5b16403632358da5646ce4265a0ebad44e7db945eae1e03b46204c7626a5",
	"shared-pids/2":        "sha256:a22e1bd965ef2e9dac78c05ef92ee44b07118eaec19a37acd258577216051c38",
	"shared-pids/1":        "sha256:f87bf6b06473ddb0058b8766009d1fd5d727485c5900b36c93c417fabe9aa261",
	"shared-ipc/1":         "sha256:ab4539d7dde69653f2eddafe2f0cc991058e0886d11ce61f09da14024d37d8f7",
	"no-network/1":         "sha256:99ad60b413d2ac4f73060b6b5a46b3c104421eaa48c04dd390e6939448372c62",
	"supervised-network/1": "sha256:88f4881fe7b20ac7631239891efc8724dba82de9188254f77038cae886ae7d8f",
	"supervised-network/2": "sha256:ac7da9571efe692d1740c9830942401a4c8ce924a83c39c40d13e4a93b50c2cb",
	"keep-cpus/1":          "sha256:ea692386fe55d6bbb618dd40c1a436caf147cc98ef3de840c5422c5eb3f62d69",
	"watched-files/1":      "sha256:26720a93eaf1b0e807b194a76aaa3d8f27cdd36ce0f4e052f41e445aa59b83bf",
	"watched-looks/1":      "sha256:a8feed472f2250169d4802b1e16c833cf5eaf291884c9c986d1d542511ddc1de",
	"network/1":            "sha256:1dc097281fb7f4249ad68a62a03883ccb93eb6acb28fb1e576f91eb21b6dfff4",
}

func TestReleasedPoliciesAreUnchanged(t *testing.T) {
	all := slices.Clone(builtPolicies)
	for i := range additions {
		all = append(all, &additions[i])
	}
	for _, p := range all {
		if got := p.Digest(); got != golden[p.Version] {
			t.Errorf("%s has the digest %s, it was released with %s: a change is a new version", p.Version, got, golden[p.Version])
		}
	}
	if len(additions) != len(allAdditions) {
		t.Errorf("%d additions", len(additions))
	}
}

func TestGeneratedProgramsAreUpToDate(t *testing.T) {
	for i, b := range builtins {
		// b is a copy, which is really compiled.
		keeps, err := b.policy.With(KeepCPUs)
		must.Do(t, err)
		kept, err := builtins[i].policy.With(KeepCPUs)
		if again, _ := builtins[i].policy.With(KeepCPUs); err != nil || again != kept || kept.Digest() != keeps.Digest() {
			t.Errorf("%s with %s: %p and %p, %s and %s, %v", b.policy.Version, KeepCPUs, kept, again, kept.Digest(), keeps.Digest(), err)
		}
		for _, c := range []struct {
			made             made
			policy, compiled *Policy
		}{{b.made, &b.policy, &builtins[i].policy}, {b.keepsCPUs, keeps, kept}} {
			if c.made.digest != c.policy.Digest() || len(c.made.programs) != len(tables) {
				t.Errorf("%s: generated digest is %s, of %d programs", c.policy.Version, c.made.digest, len(c.made.programs))
			}
			for _, g := range c.made.programs {
				for _, p := range []*Policy{c.policy, c.compiled} {
					if f := compiled(t, p, b.action, g.arch); !slices.Equal(f.Program, g.program) || f.Digest != c.made.digest || f.Version != c.policy.Version {
						t.Errorf("%s %s %s: the generated program is not what the policy compiles to", p.Version, g.arch, b.action)
					}
				}
			}
		}
	}
}

func TestProgramsDoWhatPoliciesDecide(t *testing.T) {
	for _, p := range builtPolicies {
		for _, tab := range tables {
			for _, a := range actions {
				f := compiled(t, p, a, tab.arch)
				agree(t, p, tab, a, f.Program)
				if len(f.Program) > 190 || f.Digest != p.Digest() {
					t.Errorf("%s %s %s has %d instructions and the digest %s", p.Version, tab.arch, a, len(f.Program), f.Digest)
				}
			}
		}
	}
}

func TestAdditionsAreLaidOver(t *testing.T) {
	for _, spec := range []string{"default", "strict"} {
		for _, with := range [][]Addition{{SharedPIDs}, {SharedIPC}, {NoNetwork}, {KeepCPUs}, {Network}, {SupervisedNetwork}, {WatchedFiles}, {WatchedFiles, WatchedLooks}, allAdditions} {
			p := withAdditions(t, spec, with...)
			for _, tab := range tables {
				f := compileBuiltin(t, spec, ActionErrno, tab.arch, with...)
				if f.Digest != p.Digest() || f.Digest == Builtin(spec).Digest() || f.Version != p.Version {
					t.Errorf("%s: digest %s", f.Version, f.Digest)
				}
				agree(t, p, tab, ActionErrno, f.Program)
			}
		}
	}
	p := withAdditions(t, "default", allAdditions...)
	if p.Version != "default/3+network/1+shared-pids/2+shared-ipc/1+no-network/1+keep-cpus/1+supervised-network/2+watched-files/1+watched-looks/1" {
		t.Errorf("version %q", p.Version)
	}
	for _, call := range []string{"ptrace", "pidfd_getfd", "sched_setaffinity"} {
		if v := p.Decide(call, [6]uint64{}); v.Under(ActionLog) == "allow" {
			t.Errorf("%s is allowed under %s", call, p.Version)
		}
	}
	if v := p.Decide("socket", [6]uint64{2, 1, 0}); v.String() != "errno EACCES" {
		t.Errorf("socket(AF_INET) under %s: %s", p.Version, v)
	}
	if len(Builtin("default").Rules) == len(p.Rules) || Builtin("default").Rules[0].Name != "io_uring" {
		t.Error("an addition changed the policy that it was laid over")
	}
	if _, err := Builtin("default").With("nonsense"); err == nil {
		t.Error("an addition that there is none of was taken")
	}
}

// TestStrictWithANetwork has the sockets of what goes to hosts, and nothing else more.
func TestStrictWithANetwork(t *testing.T) {
	p := withAdditions(t, "strict", Network)
	hi := uint64(0xdeadbeef) << 32
	for _, c := range []struct {
		args    [6]uint64
		allowed bool
	}{
		{[6]uint64{2, 1, 0}, true}, {[6]uint64{10, 1, 6}, true}, {[6]uint64{2, 0x80802, 17}, true}, {[6]uint64{2, 2, 1}, true},
		{[6]uint64{10, 2, 58}, true}, {[6]uint64{hi | 2, hi | 1, hi}, true},
		{[6]uint64{2, 3, 1}, false}, {[6]uint64{2, 10, 0}, false}, {[6]uint64{2, 1, 262}, false}, {[6]uint64{2, 5, 132}, false},
		{[6]uint64{16, 3, 0}, false}, {[6]uint64{17, 2, 0}, false}, {[6]uint64{40, 1, 0}, false}, {[6]uint64{2, 3, 255}, false},
	} {
		if got := p.Decide("socket", c.args).Under(ActionErrno) == "allow"; got != c.allowed {
			t.Errorf("socket(%#x): %v", c.args, got)
		}
		if alone := Builtin("strict").Decide("socket", c.args); alone.Under(ActionErrno) == "allow" {
			t.Errorf("socket(%#x) needs no addition", c.args)
		}
	}
}

// TestNeverAllowed is the list of what no policy that ships lets through, under
// any action.
func TestNeverAllowed(t *testing.T) {
	hi := uint64(0xdeadbeef) << 32
	for _, c := range []struct {
		call string
		args [6]uint64
	}{
		{"io_uring_setup", [6]uint64{}}, {"io_uring_enter", [6]uint64{}}, {"io_uring_register", [6]uint64{}},
		{"bpf", [6]uint64{}}, {"perf_event_open", [6]uint64{}}, {"userfaultfd", [6]uint64{}},
		{"add_key", [6]uint64{}}, {"request_key", [6]uint64{}}, {"keyctl", [6]uint64{}},
		{"ioctl", [6]uint64{0, 0x5412}}, {"ioctl", [6]uint64{0, hi | 0x5412}},
		{"ioctl", [6]uint64{0, 0x541c}}, {"ioctl", [6]uint64{0, hi | 0x541c}}, {"ioctl", [6]uint64{0, hi | 0x5423}},
		{"socket", [6]uint64{40}}, {"socket", [6]uint64{38}}, {"socket", [6]uint64{17}}, {"socket", [6]uint64{hi | 38}},
		{"socket", [6]uint64{2, 10}}, {"socket", [6]uint64{2, hi | 10 | 0x80800}}, {"socket", [6]uint64{2, 1, 262}},
		{"socket", [6]uint64{16, 3, 12}}, {"socket", [6]uint64{30}}, {"socketpair", [6]uint64{30}},
		{"clone", [6]uint64{0x10000000}}, {"clone", [6]uint64{hi | 0x20000 | 17}}, {"clone", [6]uint64{0x7e020000}},
		{"clone3", [6]uint64{}}, {"unshare", [6]uint64{0x80}}, {"unshare", [6]uint64{hi | 0x10000000}},
		{"setns", [6]uint64{}}, {"mount", [6]uint64{}}, {"umount2", [6]uint64{}}, {"pivot_root", [6]uint64{}},
		{"chroot", [6]uint64{}}, {"open_tree", [6]uint64{}}, {"open_tree_attr", [6]uint64{}}, {"move_mount", [6]uint64{}},
		{"fsopen", [6]uint64{}}, {"fsconfig", [6]uint64{}}, {"fsmount", [6]uint64{}}, {"fspick", [6]uint64{}},
		{"mount_setattr", [6]uint64{}}, {"open_by_handle_at", [6]uint64{}}, {"name_to_handle_at", [6]uint64{}},
		{"init_module", [6]uint64{}}, {"finit_module", [6]uint64{}}, {"delete_module", [6]uint64{}},
		{"kexec_load", [6]uint64{}}, {"kexec_file_load", [6]uint64{}}, {"reboot", [6]uint64{}},
		{"swapon", [6]uint64{}}, {"swapoff", [6]uint64{}}, {"acct", [6]uint64{}}, {"quotactl", [6]uint64{}},
		{"quotactl_fd", [6]uint64{}}, {"syslog", [6]uint64{}}, {"settimeofday", [6]uint64{}},
		{"clock_settime", [6]uint64{}}, {"iopl", [6]uint64{}}, {"ioperm", [6]uint64{}},
		{"io_setup", [6]uint64{}}, {"fcntl", [6]uint64{3, 1024}}, {"fcntl", [6]uint64{3, hi | 1024}},
	} {
		for _, p := range builtPolicies {
			for _, a := range actions {
				v := p.Decide(c.call, c.args)
				if u := v.Under(a); u == "allow" || u == "log" {
					t.Errorf("%s %s: %s %#x is %s by rule %s", p.Version, a, c.call, c.args, u, v.Rule)
				}
			}
		}
	}
}

func TestOrdinaryCallsAreAllowed(t *testing.T) {
	for _, c := range []struct {
		call   string
		args   [6]uint64
		strict bool
	}{
		{"read", [6]uint64{}, true}, {"execve", [6]uint64{}, true}, {"exit_group", [6]uint64{}, true},
		{"ioctl", [6]uint64{0, 0x5401}, true}, {"clone", [6]uint64{0x3d0f00}, true}, {"clone", [6]uint64{0x1200011}, true},
		{"socket", [6]uint64{1, 0x80801}, true}, {"socketpair", [6]uint64{1, 1}, true}, {"personality", [6]uint64{0xffffffff}, true}, {"fcntl", [6]uint64{3, 1025}, true}, {"fcntl", [6]uint64{3, 4}, true},
		{"socket", [6]uint64{2, 0x80801, 6}, false}, {"socket", [6]uint64{10, 2}, false}, {"socket", [6]uint64{16, 0x80003}, false},
		{"unshare", [6]uint64{0x400}, false}, {"ptrace", [6]uint64{}, false}, {"inotify_init1", [6]uint64{}, false},
		{"personality", [6]uint64{}, false}, {"shmget", [6]uint64{}, false}, {"seccomp", [6]uint64{}, false},
	} {
		if v := Builtin("default").Decide(c.call, c.args); v.Do != Allow {
			t.Errorf("default/3: %s %#x is %s by rule %s", c.call, c.args, v, v.Rule)
		}
		if v := Builtin("strict").Decide(c.call, c.args); (v.Do == Allow) != c.strict {
			t.Errorf("strict/2: %s %#x is %s by rule %s", c.call, c.args, v, v.Rule)
		}
	}
}

func TestStrictAllowsNothingThatDefaultDoesNot(t *testing.T) {
	both := Policy{Rules: slices.Concat(Builtin("default").Rules, Builtin("strict").Rules)}
	for _, name := range AllCalls() {
		for _, args := range both.classes(name) {
			s, d := Builtin("strict").Decide(name, args), Builtin("default").Decide(name, args)
			if s.Do == Allow && d.Do != Allow {
				t.Fatalf("strict/2 allows %s %#x by rule %s, default/3 says %s by rule %s", name, args, s.Rule, d, d.Rule)
			}
		}
	}
}

func TestEveryCallHasARule(t *testing.T) {
	for _, b := range builtins {
		for _, name := range AllCalls() {
			if name == "" {
				continue
			}
			if v := b.policy.Decide(name, [6]uint64{}); v.Rule == "default" && name != "personality" {
				t.Errorf("%s: no rule says why %s is refused", b.policy.Version, name)
			}
		}
		for _, r := range b.policy.Rules {
			if r.Reason == "" || strings.HasPrefix(r.Name, "rule ") {
				t.Errorf("%s: rule %q has no name or no reason", b.policy.Version, r.Name)
			}
		}
	}
}

func TestUnknownArchitectureAndAction(t *testing.T) {
	var ae *ArchError
	if _, err := Builtin("default").Compile(ActionErrno, "riscv64"); !errors.As(err, &ae) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("riscv64: %v", err)
	}
	if _, err := Builtin("default").Compile("trap", "amd64"); err == nil {
		t.Error("an action that there is none of was taken")
	}
}

func TestFiltersCanNotBeChangedThroughTheirCopies(t *testing.T) {
	f := compileBuiltin(t, "default", ActionErrno, "amd64")
	f.Program[0] = 0
	if g := compileBuiltin(t, "default", ActionErrno, "amd64"); g.Program[0] == 0 {
		t.Error("a caller changed the program that ships")
	}
}

// TestWithoutAPIDNamespaceOnlyTheOwnThreadIsRescheduled: the caller's processes have the same uid there.
func TestWithoutAPIDNamespaceOnlyTheOwnThreadIsRescheduled(t *testing.T) {
	p := withAdditions(t, "default", SharedPIDs)
	for _, c := range []struct {
		call string
		args [6]uint64
		want bool
	}{
		{"sched_setaffinity", [6]uint64{}, true}, {"sched_setaffinity", [6]uint64{7}, false},
		{"sched_setscheduler", [6]uint64{0, 3}, true}, {"sched_setscheduler", [6]uint64{7, 3}, false},
		{"sched_setattr", [6]uint64{7}, false}, {"sched_setparam", [6]uint64{7}, false},
		{"setpriority", [6]uint64{0, 0, 5}, true}, {"setpriority", [6]uint64{0, 7, 5}, false}, {"setpriority", [6]uint64{2, 0, 5}, false},
		{"ioprio_set", [6]uint64{1, 0}, true}, {"ioprio_set", [6]uint64{1, 7}, false}, {"ioprio_set", [6]uint64{3, 0}, false},
		{"move_pages", [6]uint64{7}, false}, {"migrate_pages", [6]uint64{7}, false},
		{"sched_getaffinity", [6]uint64{7}, true}, {"getpriority", [6]uint64{0, 7}, true},
	} {
		if v := p.Decide(c.call, c.args); (v.Do == Allow) != c.want {
			t.Errorf("%s %#x is %s by rule %s", c.call, c.args, v, v.Rule)
		}
	}
}

// Whatever a policy says: foreign and x32 calls are refused.
func TestNoPolicyAllowsForeignCalls(t *testing.T) {
	for _, do := range []Do{Allow, Log} {
		p := &Policy{Default: Outcome{Do: do}}
		for _, tab := range tables {
			for _, a := range actions {
				f := compiled(t, p, a, tab.arch)
				agree(t, p, tab, a, f.Program)
				m := load(t, f.Program)
				refused := (Outcome{Do: Refuse}).ret(a)
				for _, audit := range []uint32{0x40000003, 0x40000028, 0, ^uint32(0)} {
					if got := m.run(t, audit, 39, [6]uint64{}); got != refused {
						t.Errorf("%s %s: arch %#x gets %#x", tab.arch, a, audit, got)
					}
				}
				if tab.x32 {
					if got := m.run(t, tab.audit, x32Bit|39, [6]uint64{}); got != refused {
						t.Errorf("%s: x32 gets %#x", a, got)
					}
				}
				if got := m.run(t, tab.audit, 39, [6]uint64{}); got != p.Default.ret(a) {
					t.Errorf("control: a native call gets %#x", got)
				}
			}
		}
	}
}
