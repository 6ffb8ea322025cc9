package seccomp

import (
	"runtime"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

func TestWatchedCallsAreHandedOnAndKeepWhatThePolicySays(t *testing.T) {
	p, err := allowing(
		ruleFor("watched-files", "mkdirat", Outcome{Errno, eperm}), // the user's own rule of that name
		ruleFor("absent", "openat2", Outcome{Errno, enosys}),
		ruleFor("some", "fchmodat", Outcome{Do: Kill}, Cond{Index: 2, Width: 32, Values: []uint64{1}}),
		ruleFor("loud", "unlinkat", Outcome{}),
	).With(WatchedFiles)
	must.Do(t, err)
	for _, action := range []Action{ActionErrno, ActionLog} {
		f := compiled(t, p, action, runtime.GOARCH)
		if len(f.Notifying()) == 0 {
			t.Fatal("nothing is handed on")
		}
		_, free := f.Free()
		for _, c := range []struct {
			name   string
			args   []uint64
			want   Refusal
			isFree bool
		}{
			{"openat", nil, Refusal{Rule: Watched, Errno: eacces, Supervised: true}, true},
			{"execve", []uint64{1}, Refusal{Rule: Watched, Errno: eacces, Supervised: true}, true},
			{"mkdirat", nil, Refusal{Rule: Watched, Errno: eperm}, false},
			{"openat2", nil, Refusal{Rule: "absent", Errno: enosys, Untold: true}, false},
			{"fchmodat", []uint64{0, 0, 1}, Refusal{Rule: "some", Kill: true}, false},
			{"fchmodat", []uint64{0, 0, 2}, Refusal{Rule: Watched, Errno: eacces, Supervised: true}, false},
			{"unlinkat", nil, map[Action]Refusal{
				ActionErrno: {Rule: "loud", Errno: eperm},
				ActionLog:   {Rule: Watched, Errno: eacces, Supervised: true}, // it goes through without us, too
			}[action], false},
		} {
			got := supervisedCall(t, f, c.name, c.args...)
			got.What = ""
			nr, _ := f.table.Number(c.name)
			if got != c.want || free[uint32(nr)] != c.isFree {
				t.Errorf("%s %s%v: %+v, free %v", action, c.name, c.args, got, free[uint32(nr)])
			}
		}
	}
	if _, err := Builtin("default").With(WatchedFiles, KeepCPUs); err == nil {
		t.Error("something was laid over what is watched")
	}
	f := compileBuiltin(t, "default", ActionErrno, runtime.GOARCH, SharedPIDs, SupervisedNetwork, WatchedFiles, WatchedLooks)
	if r := supervisedCall(t, f, "connect"); !r.Supervised || r.Rule != supervised {
		t.Errorf("connect: %+v", r)
	}
	if r := supervisedCall(t, f, "mount"); r.Supervised || r.Untold {
		t.Errorf("mount: %+v", r)
	}
}
