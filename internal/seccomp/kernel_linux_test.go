//go:build amd64 || arm64

package seccomp

import (
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

const (
	denied  = "errno 1"
	missing = "errno 38"
	killed  = "SIGSYS"
	through = "through" // as without a filter
)

type attempt struct {
	name             string
	call             string
	args             [6]uint64
	errno, kill, log string
	unprivileged     bool // without a filter, too, EPERM is what an ordinary user gets
}

// attempts has one victim for each class of rules, with how default/3 treats it
// under errno, kill and log. Without a filter the kernel must answer otherwise:
// many are made with arguments that are wrong in a way of their own.
var attempts = []attempt{
	{"set-uid by fchmod", "fchmod", [6]uint64{1 << 20, 0o4755}, denied, killed, denied, false},
	{"set-uid by fchmodat", "fchmodat", [6]uint64{1 << 20, 0, 0o4755}, denied, killed, denied, false},
	{"set-uid by openat", "openat", [6]uint64{1 << 20, 0, 0o101, 0o4755}, denied, killed, denied, false},
	{"TIOCSTI", "ioctl", [6]uint64{1 << 20, 0x5412}, denied, killed, denied, false},
	{"TIOCSTI with upper bits", "ioctl", [6]uint64{1 << 20, 0xdeadbeef00005412}, denied, killed, denied, false},
	{"TIOCLINUX with upper bits", "ioctl", [6]uint64{1 << 20, 1<<63 | 0x541c}, denied, killed, denied, false},
	{"TIOCSETD", "ioctl", [6]uint64{1 << 20, 0x5423}, denied, killed, denied, false},
	{"socket AF_ALG", "socket", [6]uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, denied, killed, denied, false},
	{"socket AF_ALG with upper bits", "socket", [6]uint64{1<<32 | unix.AF_ALG, unix.SOCK_SEQPACKET}, denied, killed, denied, false},
	{"socket AF_VSOCK", "socket", [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, denied, killed, denied, false},
	{"socket AF_PACKET", "socket", [6]uint64{unix.AF_PACKET, unix.SOCK_RAW}, denied, killed, denied, true},
	{"socket AF_INET SOCK_PACKET", "socket", [6]uint64{unix.AF_INET, 10}, denied, killed, denied, true},
	{"socket of no family", "socket", [6]uint64{99, 1}, denied, killed, denied, false},
	{"socket netlink audit", "socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, 15}, "errno 93", "errno 93", "errno 93", false},
	{"socket SCTP", "socket", [6]uint64{unix.AF_INET, 99, 132}, "errno 93", "errno 93", "errno 93", false},
	{"socketpair AF_TIPC", "socketpair", [6]uint64{unix.AF_TIPC, 99}, denied, killed, denied, false},
	{"io_uring_setup", "io_uring_setup", [6]uint64{1}, missing, missing, missing, true},
	{"clone CLONE_NEWUSER", "clone", [6]uint64{unix.CLONE_NEWUSER | 17}, denied, killed, denied, true},
	{"clone CLONE_NEWNET with upper bits", "clone", [6]uint64{1<<40 | unix.CLONE_NEWNET | unix.CLONE_NEWUSER | 17}, denied, killed, denied, true},
	{"clone3", "clone3", [6]uint64{0, 1}, missing, missing, missing, false},
	{"unshare CLONE_NEWUSER", "unshare", [6]uint64{unix.CLONE_NEWUSER}, denied, killed, denied, true},
	{"setns", "setns", [6]uint64{1 << 20}, denied, killed, denied, false},
	{"keyctl", "keyctl", [6]uint64{9999}, denied, killed, denied, false},
	{"add_key", "add_key", [6]uint64{}, denied, killed, denied, false},
	{"bpf", "bpf", [6]uint64{9999}, denied, killed, denied, true},
	{"perf_event_open", "perf_event_open", [6]uint64{}, denied, killed, denied, true},
	{"userfaultfd", "userfaultfd", [6]uint64{0xffff}, denied, killed, denied, true},
	{"mount", "mount", [6]uint64{1, 1, 1}, denied, killed, denied, true},
	{"pivot_root", "pivot_root", [6]uint64{}, denied, killed, denied, true},
	{"chroot", "chroot", [6]uint64{}, denied, killed, denied, true},
	{"open_tree", "open_tree", [6]uint64{1 << 20, 0, 0xffffffff}, denied, killed, denied, false},
	{"open_by_handle_at", "open_by_handle_at", [6]uint64{1 << 20}, denied, killed, denied, true},
	{"name_to_handle_at", "name_to_handle_at", [6]uint64{1 << 20}, "errno 95", "errno 95", "errno 95", false},
	{"quotactl", "quotactl", [6]uint64{0xffffffff}, denied, killed, denied, false},
	{"syslog", "syslog", [6]uint64{9999}, denied, killed, denied, true},
	{"init_module", "init_module", [6]uint64{}, denied, killed, denied, true},
	{"kcmp", "kcmp", [6]uint64{1 << 30, 1 << 30}, denied, killed, through, false},
	{"fanotify_mark", "fanotify_mark", [6]uint64{1 << 20, 1 << 31}, denied, killed, through, false},
	{"get_mempolicy", "get_mempolicy", [6]uint64{0, 0, 0, 0, 99}, missing, missing, missing, false},
	{"personality with ADDR_NO_RANDOMIZE", "personality", [6]uint64{0x40000}, through, through, through, false},
	{"personality with READ_IMPLIES_EXEC", "personality", [6]uint64{0x400000}, denied, killed, through, false},
	{"personality with both", "personality", [6]uint64{0x440000}, denied, killed, through, false},
	{"personality, asked with upper bits", "personality", [6]uint64{0xffffffffffffffff}, through, through, through, false},
	{"unshare CLONE_FILES", "unshare", [6]uint64{unix.CLONE_FILES}, through, through, through, false},
	{"socket AF_UNIX", "socket", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, through, through, through, false},
	{"TCGETS", "ioctl", [6]uint64{1 << 20, 0x5401}, through, through, through, false},
}

// strictAttempts is the same for what only strict/2 refuses.
var strictAttempts = []attempt{
	{"ptrace", "ptrace", [6]uint64{9999}, denied, killed, denied, false},
	{"process_vm_readv", "process_vm_readv", [6]uint64{1 << 30, 0, 99}, denied, killed, denied, false},
	{"unshare CLONE_FILES", "unshare", [6]uint64{unix.CLONE_FILES}, denied, killed, denied, false},
	{"socket AF_INET", "socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM}, "errno 97", "errno 97", "errno 97", false},
	{"socket AF_INET6 with upper bits", "socket", [6]uint64{1<<32 | unix.AF_INET6, unix.SOCK_STREAM}, "errno 97", "errno 97", "errno 97", false},
	{"socket AF_NETLINK", "socket", [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW}, "errno 97", "errno 97", "errno 97", false},
	{"socket AF_PACKET", "socket", [6]uint64{unix.AF_PACKET, unix.SOCK_RAW}, denied, killed, denied, true},
	{"sched_setaffinity", "sched_setaffinity", [6]uint64{}, denied, denied, denied, false},
	{"memfd_create", "memfd_create", [6]uint64{}, missing, missing, missing, false},
	{"shmget", "shmget", [6]uint64{0, 4096, 01600}, missing, missing, missing, false},
	{"inotify_init1", "inotify_init1", [6]uint64{0xffffff}, missing, missing, missing, false},
	{"io_setup", "io_setup", [6]uint64{}, missing, missing, missing, false},
	{"sync", "sync", [6]uint64{}, missing, missing, missing, false},
	{"seccomp", "seccomp", [6]uint64{9999}, missing, missing, missing, false},
	{"prctl PR_SET_SECCOMP", "prctl", [6]uint64{1<<33 | unix.PR_SET_SECCOMP, 2}, "errno 22", "errno 22", "errno 22", false},
	{"personality PER_LINUX", "personality", [6]uint64{0}, denied, killed, through, false},
	{"personality with ADDR_NO_RANDOMIZE", "personality", [6]uint64{0x40000}, denied, killed, through, false},
	{"adjtimex", "adjtimex", [6]uint64{}, denied, killed, denied, false},
	{"socketpair AF_UNIX", "socketpair", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0, 1}, through, through, through, false},
	{"prctl PR_GET_DUMPABLE", "prctl", [6]uint64{unix.PR_GET_DUMPABLE}, through, through, through, false},
}

// unfiltered runs the attempt with no filter: the positive control.
func unfiltered(t *testing.T, v victim) string {
	t.Helper()
	v.Program = nil
	got, _ := v.run(t)
	return got
}

func expectAnswer(t *testing.T, spec string, a Action, v victim, want string) {
	t.Helper()
	f := compileBuiltin(t, spec, a, runtime.GOARCH)
	v.Program = f.Program
	if got, out := v.run(t); got != want {
		t.Errorf("%s %s: %q, want %q\n%s", spec, a, got, want, out)
	}
}

func TestTheKernelRefusesUnderDefault(t *testing.T) { tryAll(t, "default", attempts) }
func TestTheKernelRefusesUnderStrict(t *testing.T)  { tryAll(t, "strict", strictAttempts) }

func tryAll(t *testing.T, spec string, all []attempt) {
	tab := own(t)
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			nr, found := tab.Number(c.call)
			if !found {
				t.Fatalf("no number for %s", c.call)
			}
			v := victim{NR: uintptr(nr), Args: c.args}
			control := unfiltered(t, v)
			if control == c.errno {
				switch {
				case control == denied && c.unprivileged && unix.Geteuid() != 0:
					t.Log("an ordinary user gets EPERM without a filter, too; only kill tells here")
				case control == missing:
					t.Skip("this kernel does not have the call")
				default:
					t.Fatalf("control: without a filter the answer is %q, too", control)
				}
			}
			for a, want := range map[Action]string{ActionErrno: c.errno, ActionKill: c.kill, ActionLog: c.log} {
				if want == through {
					want = control
				}
				expectAnswer(t, spec, a, v, want)
			}
		})
	}
}

func TestTheKernelRefusesNumbersOutsideTheTable(t *testing.T) {
	for _, spec := range []string{"default", "strict"} {
		for _, a := range actions {
			expectAnswer(t, spec, a, victim{NR: 999}, missing)
			expectAnswer(t, spec, a, victim{NR: 1 << 20}, missing)
		}
	}
	// The kernel says ENOSYS by itself; a call that it has and the table doesn't shows the filter.
	p := &Policy{Kind: "file", Version: "old", Default: Outcome{Do: Deny}, Rules: Builtin("strict").Rules}
	full := own(t)
	old := *full
	old.names = old.names[:439] // before faccessat2
	old.sorted = nil
	for _, nr := range full.sorted {
		if int(nr) < len(old.names) {
			old.sorted = append(old.sorted, nr)
		}
	}
	program, err := p.assemble(&old, ActionKill)
	must.Do(t, err)
	v := victim{NR: unix.SYS_FACCESSAT2, Args: [6]uint64{1 << 20, 0, 0xffff}}
	if got := unfiltered(t, v); got == missing {
		t.Skip("this kernel has no faccessat2")
	}
	v.Program = program
	if got, _ := v.run(t); got != missing {
		t.Errorf("a call newer than the table: %q", got)
	}
}

func TestTheKernelRefusesForeignCalls(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("only an amd64 process can make such calls")
	}
	for _, c := range []struct {
		name string
		v    victim
	}{
		{"i386 getpid by int 0x80", victim{I386: true}},
		{"x32 getpid", victim{NR: x32Bit | 39}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.v.I386 && !hasI386 {
				t.Skip("no stub")
			}
			control := unfiltered(t, c.v)
			t.Logf("without a filter: %s", control)
			if control == "SIGSEGV" {
				t.Skip("this kernel has no 32-bit calls")
			}
			if control == denied || control == killed {
				t.Fatalf("control: without a filter the answer is %q, too", control)
			}
			for a, want := range map[Action]string{ActionErrno: denied, ActionKill: killed, ActionLog: denied} {
				expectAnswer(t, "default", a, c.v, want)
				expectAnswer(t, "strict", a, c.v, want)
				f := compiled(t, allowing(), a, runtime.GOARCH)
				v := c.v
				v.Program = f.Program
				if got, _ := v.run(t); got != want {
					t.Errorf("open.toml %s: %q, want %q", a, got, want)
				}
			}
		})
	}
}

// A program with jumps over more than 255 instructions must be one that the
// kernel takes and runs right.
func TestTheKernelTakesLongPrograms(t *testing.T) {
	p := &Policy{Default: Outcome{Do: Allow}}
	for i, name := range own(t).Calls() {
		p.Rules = append(p.Rules, Rule{Outcome: Outcome{Errno, uint16(2 + i%30)}, Calls: []string{name},
			Args: []Cond{{Index: 5, Width: 64, Op: Eq, Values: []uint64{0xabcdef0123456789 + uint64(i)}}}})
	}
	f := compiled(t, p, ActionErrno, runtime.GOARCH)
	if len(f.Program) < 1000 {
		t.Fatalf("%d instructions", len(f.Program))
	}
	for i, r := range p.Rules {
		if i%97 != 0 {
			continue
		}
		nr, _ := own(t).Number(r.Calls[0])
		v := victim{Program: f.Program, NR: uintptr(nr), Args: [6]uint64{5: r.Args[0].Values[0]}}
		if got, _ := v.run(t); got != fmt.Sprintf("errno %d", r.Outcome.Errno) {
			t.Errorf("%s: %q, want %s", r.Calls[0], got, r.Outcome)
		}
	}
}

func own(t *testing.T) *Table {
	t.Helper()
	tab, err := TableOf(runtime.GOARCH)
	must.Do(t, err)
	return tab
}
