package seccomp

import (
	"runtime"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// supervisedCall asks about a native call.
func supervisedCall(t *testing.T, f *Filter, name string, args ...uint64) Refusal {
	t.Helper()
	nr, ok := f.table.Number(name)
	if !ok {
		t.Fatal(name)
	}
	var all [6]uint64
	copy(all[:], args)
	return f.Refusal(f.table.audit, uint32(nr), all, nil)
}

func TestSupervisedCallsAreHandedOn(t *testing.T) {
	f := compileBuiltin(t, "default", ActionErrno, runtime.GOARCH, SharedPIDs, SupervisedNetwork)
	if f.Notifying() == nil {
		t.Fatal("nothing is handed on")
	}
	for _, name := range []string{"connect", "listen", "bind", "sendmsg", "sendmmsg", "recvmsg", "recvmmsg"} {
		if r := supervisedCall(t, f, name); !r.Supervised || r.Errno != eacces || r.Kill {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := supervisedCall(t, f, "sendto", 3, 0, 0, 0, 1<<32); !r.Supervised {
		t.Errorf("sendto: %+v", r)
	}
	for _, args := range [][]uint64{{2, 2, 0}, {2, 2, 17}, {10, 2 | 0x800, 0}, {1<<32 | 10, 1<<32 | 2 | 0x80000, 17}} {
		if r := supervisedCall(t, f, "socket", args...); !r.Supervised || r.Errno != eacces {
			t.Errorf("socket%v: %+v", args, r)
		}
	}
	for _, args := range [][]uint64{{2, 2, 1}, {2, 3, 17}, {16, 2, 0}, {40, 2, 0}} {
		if r := supervisedCall(t, f, "socket", args...); r.Supervised {
			t.Errorf("socket%v: %+v", args, r)
		}
	}
	if r := supervisedCall(t, f, "recvfrom", 3, 1, 1, 1<<32|0x2040); !r.Supervised {
		t.Errorf("recvfrom of errors: %+v", r)
	}
	if r := f.Refusal(f.table.audit^1, 0, [6]uint64{}, nil); r.Supervised {
		t.Errorf("of another machine: %+v", r)
	}
	if r := supervisedCall(t, f, "ptrace"); r.Supervised {
		t.Errorf("ptrace: %+v", r)
	}
	for _, c := range []struct {
		name string
		args [6]uint64
		want bool
	}{
		{"sendto", [6]uint64{3, 1, 1, 0, 0, 16}, true}, // to whom it is connected to
		{"recvfrom", [6]uint64{3, 1, 1, 0x40}, true},
		{"socket", [6]uint64{2, 1 | 0x80000, 6}, true},
		{"socket", [6]uint64{1, 2, 0}, true},
		{"socket", [6]uint64{1, 5, 0}, true},
		{"socket", [6]uint64{2, 1, 262}, false}, // MPTCP
		{"socket", [6]uint64{2, 2, 1}, false},   // ping
		{"socket", [6]uint64{2, 3, 17}, false},
		{"socket", [6]uint64{16, 3, 0}, false},
		{"socket", [6]uint64{40, 1, 0}, false},
		{"socket", [6]uint64{1<<32 | 40, 1, 0}, false},
		{"setsockopt", [6]uint64{3, 6, 1}, true},   // TCP_NODELAY
		{"setsockopt", [6]uint64{3, 6, 30}, false}, // TCP_FASTOPEN_CONNECT
		{"setsockopt", [6]uint64{3, 6, 31}, false}, // TCP_ULP
		{"setsockopt", [6]uint64{3, 1, 2}, true},   // SO_REUSEADDR
		{"setsockopt", [6]uint64{3, 1, 25}, false}, // SO_BINDTODEVICE
		{"setsockopt", [6]uint64{3, 1, 26}, false}, // SO_ATTACH_FILTER
		{"setsockopt", [6]uint64{3, 1, 27}, false}, // SO_DETACH_FILTER, SO_DETACH_BPF
		{"setsockopt", [6]uint64{3, 1, 44}, false}, // SO_LOCK_FILTER
		{"setsockopt", [6]uint64{3, 1, 50}, false}, // SO_ATTACH_BPF
		{"setsockopt", [6]uint64{3, 1, 51}, false}, // SO_ATTACH_REUSEPORT_CBPF
		{"setsockopt", [6]uint64{3, 1, 52}, false}, // SO_ATTACH_REUSEPORT_EBPF
		{"setsockopt", [6]uint64{3, 1<<32 | 1, 1<<32 | 27}, false},
		{"setsockopt", [6]uint64{3, 0, 4}, false},   // IP_OPTIONS
		{"setsockopt", [6]uint64{3, 0, 35}, false},  // IP_ADD_MEMBERSHIP
		{"setsockopt", [6]uint64{3, 41, 26}, true},  // IPV6_V6ONLY
		{"setsockopt", [6]uint64{3, 41, 57}, false}, // IPV6_RTHDR
		{"setsockopt", [6]uint64{3, 41, 6}, false},  // IPV6_2292PKTOPTIONS
		{"setsockopt", [6]uint64{3, 1<<32 | 41, 1<<32 | 57}, false},
		{"setsockopt", [6]uint64{3, 17, 100}, false}, // UDP_ENCAP
		{"setsockopt", [6]uint64{3, 284, 1}, false},
	} {
		if got := f.policy.Decide(c.name, c.args).LetsThrough(); got != c.want {
			t.Errorf("%s%v: %v", c.name, c.args, got)
		}
	}
}

func TestSupervisedCallsKeepWhatThePolicySays(t *testing.T) {
	p, err := allowing(ruleFor("mine", "sendmsg", Outcome{Do: Kill})).With(SupervisedNetwork)
	must.Do(t, err)
	f := compiled(t, p, ActionErrno, runtime.GOARCH)
	if r := supervisedCall(t, f, "sendmsg"); r.Supervised || !r.Kill || r.Rule != "mine" {
		t.Errorf("sendmsg: %+v", r)
	}
	if r := supervisedCall(t, f, "connect"); !r.Supervised {
		t.Errorf("connect: %+v", r)
	}
}
