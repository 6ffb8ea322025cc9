package seccomp

import (
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// notifying are policies of every kind, on both architectures, under each action.
func notifying(t *testing.T, each func(t *testing.T, f *Filter)) {
	t.Helper()
	rules := extending("default", ruleFor("modes", "chmod", Outcome{Errno, eperm}), ruleFor("read-only", "fchmod", Outcome{Errno, 30}), ruleFor("sync", "sync", Outcome{Do: Kill}))
	bare := withAdditions(t, "default", SharedPIDs, NoNetwork, KeepCPUs)
	for _, p := range []*Policy{Builtin("default"), Builtin("strict"), rules, allowing(), bare} {
		for _, tab := range tables {
			for _, a := range actions {
				f := compiled(t, p, a, tab.arch)
				t.Run(p.Version+" "+tab.arch+" "+string(a), func(t *testing.T) { each(t, f) })
			}
		}
	}
}

// What is denied is told, and everything else is as it was, but for listeners of
// the target's own; and what is answered then is what the program would have done.
func TestNotifyingHandsOnDenialsAndChangesNothingElse(t *testing.T) {
	notifying(t, func(t *testing.T, f *Filter) {
		plain, m := load(t, f.Program), load(t, f.Notifying())
		call, _ := f.table.Number("seccomp")
		exit, _ := f.table.Number("exit_group")
		abort, _ := f.table.Number("tgkill")
		told, kept, ended := 0, 0, 0
		f.policy.everyCall(f.table, func(audit, nr uint32, args [6]uint64) {
			before, after := plain.run(t, audit, nr, args), m.run(t, audit, nr, args)
			var want uint32
			switch {
			case audit == f.table.audit && nr == uint32(call) && args[1]&flagNewListener != 0:
				want = retErrno | ebusy
			case audit == f.table.audit && nr == uint32(exit) && args[0]&0xff != 0 && f.policy.Lets("exit_group"):
				want = retUserNotif
				ended++
				if r := f.Refusal(audit, nr, args, nil); r.Rule != Exits || !r.Supervised || r.Kill {
					t.Fatalf("call %d %#x: the answer is %+v", nr, args, r)
				}
			case audit == f.table.audit && nr == uint32(abort) && uint32(args[2]) == 6 && f.policy.Lets("tgkill"):
				want = retUserNotif
				if r := f.Refusal(audit, nr, args, nil); r.Rule != Aborts || !r.Supervised || r.Kill {
					t.Fatalf("call %d %#x: the answer is %+v", nr, args, r)
				}
			case before == retKillProcess, before == retErrno|eperm, before == retErrno|eacces:
				want = retUserNotif
				told++
				r := f.Refusal(audit, nr, args, nil)
				if answer := retErrno | uint32(r.Errno); r.Kill != (before == retKillProcess) || !r.Kill && answer != before {
					t.Fatalf("arch %#x, call %d %#x: the answer is %+v, the program says %#x", audit, nr, args, r, before)
				}
				if r.What == "" || r.Rule == "" || f.Hint(audit, nr, args) == "" {
					t.Fatalf("arch %#x, call %d %#x: nothing to say: %+v", audit, nr, args, r)
				}
			default:
				want = before
				kept++
			}
			if after != want {
				t.Fatalf("arch %#x, call %d %#x: %#x, and told %#x, want %#x", audit, nr, args, before, after, want)
			}
		})
		if told == 0 || kept == 0 || ended == 0 {
			t.Fatalf("%d told, %d kept, %d ended", told, kept, ended)
		}
		for sig, asked := range map[uint64]bool{6: true, 1<<32 | 6: true, 0: false, 9: false, 23: false} {
			args := [6]uint64{2, 2, sig}
			if got := m.run(t, f.table.audit, uint32(abort), args); (got == retUserNotif) != (asked && f.policy.Lets("tgkill") || denial(plain.run(t, f.table.audit, uint32(abort), args))) {
				t.Errorf("tgkill with %#x: %#x", sig, got)
			}
			if r := f.Refusal(f.table.audit, uint32(abort), args, nil); (r.Rule == Aborts) != (asked && f.policy.Lets("tgkill")) {
				t.Errorf("tgkill with %#x: %+v", sig, r)
			}
		}
	})
}

// A process that ends well is held by nobody.
func TestNotifyingHandsOnFailuresOnly(t *testing.T) {
	notifying(t, func(t *testing.T, f *Filter) {
		m := load(t, f.Notifying())
		nr, _ := f.table.Number("exit_group")
		for status, want := range map[uint64]uint32{0: retAllow, 256: retAllow, 1: retUserNotif, 127: retUserNotif, 0xffffffffffffffff: retUserNotif} {
			if got := m.run(t, f.table.audit, uint32(nr), [6]uint64{status}); got != want {
				t.Errorf("exit_group(%#x): %#x, want %#x", status, got, want)
			}
		}
	})
}

// A listener of the target's own would be asked instead of ours.
func TestNotifyingAllowsNoOtherListener(t *testing.T) {
	notifying(t, func(t *testing.T, f *Filter) {
		m := load(t, f.Notifying())
		nr, _ := f.table.Number("seccomp")
		for _, flags := range []uint64{8, 8 | 1<<5, 0xffffffff, 8 | 1<<40} {
			if got := m.run(t, f.table.audit, uint32(nr), [6]uint64{1, flags}); got != retErrno|ebusy {
				t.Errorf("seccomp with flags %#x: %#x", flags, got)
			}
		}
	})
}

// Between the filter and execve nobody waits for a listener.
func TestNoNotificationWhereExecveOrExitWouldWait(t *testing.T) {
	kills := extending("", ruleFor("start", "execve", Outcome{Do: Allow}))
	kills.Default = Outcome{Do: Kill}
	for _, p := range []*Policy{
		kills, extending("default", ruleFor("no-environment", "execve", Outcome{}, Cond{Index: 2, Width: 64, Values: []uint64{0}})), extending("default", ruleFor("no-end", "exit_group", Outcome{})),
	} {
		f := compiled(t, p, ActionErrno, "amd64")
		if f.Notifying() != nil {
			t.Errorf("under\n%sthe start waits for an answer", p.TOML())
		}
	}
}

func TestRefusalOfAnAllowedCallIsEPERM(t *testing.T) {
	f := compileBuiltin(t, "default", ActionErrno, "amd64")
	if r := f.Refusal(amd64.audit, 0, [6]uint64{}, nil); r.Kill || r.Errno != eperm {
		t.Errorf("%+v", r)
	}
}

func TestWords(t *testing.T) {
	memory := map[uint64]string{1: "tmpfs", 2: "/mnt/a b\x1b[2J", 3: "/bin/x"}
	text := func(addr uint64) string { return memory[addr] }
	for _, c := range []struct {
		call string
		args [6]uint64
		want string
	}{
		{"socket", [6]uint64{17, 3 | 0o2000000, 768}, "socket(AF_PACKET, SOCK_RAW, 768)"},
		{"socket", [6]uint64{1<<32 | 38, 5}, "socket(AF_ALG, SOCK_SEQPACKET, 0)"},
		{"socket", [6]uint64{99, 12}, "socket(99, 12, 0)"},
		{"mount", [6]uint64{1, 2, 1}, `mount("tmpfs", "/mnt/a b\x1b[2J", "tmpfs", …)`},
		{"mount", [6]uint64{7, 2}, `mount(…, "/mnt/a b\x1b[2J", …)`},
		{"ptrace", [6]uint64{16, 1234}, "ptrace(PTRACE_ATTACH, …)"},
		{"ptrace", [6]uint64{1<<32 - 1}, "ptrace(-1, …)"},
		{"unshare", [6]uint64{0x10020000}, "unshare(CLONE_NEWNS|CLONE_NEWUSER)"},
		{"clone", [6]uint64{0x10000000 | 0x100 | 17}, "clone(CLONE_NEWUSER|…, …)"},
		{"ioctl", [6]uint64{0, 1<<32 | 0x5412}, "ioctl(…, TIOCSTI, …)"},
		{"ioctl", [6]uint64{0, 0xdead}, "ioctl(…, 0xdead, …)"},
		{"personality", [6]uint64{0x440000}, "personality(0x440000)"},
		{"fchmodat", [6]uint64{5, 3, 0o4755}, `fchmodat(…, "/bin/x", 04755)`},
		{"open", [6]uint64{3, 0x41, 0o4755}, `open("/bin/x", …, 04755)`},
		{"prctl", [6]uint64{22, 2}, "prctl(PR_SET_SECCOMP, …)"},
		{"bpf", [6]uint64{5}, "bpf(BPF_PROG_LOAD, …)"},
		{"perf_event_open", [6]uint64{1, 2, 3}, "perf_event_open"},
	} {
		nr, found := amd64.Number(c.call)
		if !found {
			t.Fatalf("no number for %s", c.call)
		}
		if got := amd64.words(amd64.audit, uint32(nr), c.args, text); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	for _, c := range []struct {
		audit, nr uint32
		want      string
	}{
		{0x40000003, 20, "i386 call 20"}, {amd64.audit, x32Bit | 39, "x32 call 39"},
		{amd64.audit, 9999, "call 9999"}, {0xc00000f3, 1, "foreign call 1"},
	} {
		if got := amd64.words(c.audit, c.nr, [6]uint64{}, nil); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Every call of the table of words is one, and takes that many arguments.
func TestArgumentTableNamesCalls(t *testing.T) {
	for _, a := range arguments {
		if !Known(a.call) || len(a.kinds) > a.total || a.total > 6 {
			t.Errorf("%+v", a)
		}
	}
}

func TestHint(t *testing.T) {
	rules := extending("default", ruleFor("my-modes", "chmod", Outcome{}))
	short := extending("", ruleFor("start", "execve", Outcome{Do: Allow}))
	short.Version = "short.toml"
	bare := withAdditions(t, "default", SharedPIDs, NoNetwork, KeepCPUs)
	for _, c := range []struct {
		policy *Policy
		call   string
		args   [6]uint64
		want   string
	}{
		{Builtin("strict"), "ptrace", [6]uint64{16}, "--seccomp default lets it through"},
		{Builtin("strict"), "add_key", [6]uint64{}, `they are the caller's; a policy file lets it through: extends = "strict"`},
		{Builtin("default"), "add_key", [6]uint64{}, `names = ["add_key"], action = "allow"; --seccomp FILE names it`},
		{Builtin("default"), "mount", [6]uint64{}, "no option allows it"},
		{Builtin("default"), "unshare", [6]uint64{1 << 28}, "no option allows it"},
		{rules, "chmod", [6]uint64{}, `rule "my-modes" of own.toml says so`},
		{short, "read", [6]uint64{}, "no rule of short.toml names it"},
		{bare, "socket", [6]uint64{2, 1}, "--allow-network all lets it through"},
		{bare, "ptrace", [6]uint64{16}, "no pid namespace"},
		{bare, "sched_setaffinity", [6]uint64{}, "--cpus none lets it through"},
	} {
		f, err := c.policy.Compile(ActionErrno, "amd64")
		must.Do(t, err)
		nr, _ := amd64.Number(c.call)
		if got := f.Hint(amd64.audit, uint32(nr), c.args); !strings.Contains(got, c.want) {
			t.Errorf("%s under %s: %q, want %q", c.call, c.policy.Version, got, c.want)
		}
	}
	f := compiled(t, rules, ActionErrno, "amd64")
	if got := f.Hint(0x40000003, 5, [6]uint64{}); !strings.Contains(got, "--seccomp off") {
		t.Errorf("a foreign call: %q", got)
	}
}
