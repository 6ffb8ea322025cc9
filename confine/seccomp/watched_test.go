package seccomp

import (
	"runtime"
	"testing"
)

func TestWatchedCallsAreHandedOnAndKeepWhatThePolicySays(t *testing.T) {
	p, err := Parse([]byte(`default_action = "allow"
[[rules]]
rule = "watched-files"
names = ["mkdirat"]
action = "errno"
errno = "EPERM"
reason = "the user's own rule of that name"
[[rules]]
rule = "absent"
names = ["openat2"]
action = "errno"
errno = "ENOSYS"
reason = "x"
[[rules]]
rule = "some"
names = ["fchmodat"]
args = [{ index = 2, op = "eq", value = 1, width = 32 }]
action = "kill"
reason = "x"
[[rules]]
rule = "loud"
names = ["unlinkat"]
action = "deny"
reason = "x"
`), "p.toml")
	if err != nil {
		t.Fatal(err)
	}
	q := *p
	q.Rules = append(append([]Rule{}, additionWatchedFiles.Rules...), p.Rules...)
	q.watching = len(additionWatchedFiles.Rules)
	for _, action := range []Action{ActionErrno, ActionLog} {
		f, err := q.Compile(action, runtime.GOARCH)
		if err != nil {
			t.Fatal(err)
		}
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
			nr, _ := f.table.lookup(c.name)
			if got != c.want || free[uint32(nr)] != c.isFree {
				t.Errorf("%s %s%v: %+v, free %v", action, c.name, c.args, got, free[uint32(nr)])
			}
		}
	}
	if _, err := Load("default", WatchedFiles, KeepCPUs); err == nil {
		t.Error("something was laid over what is watched")
	}
	f, err := Build("default", ActionErrno, runtime.GOARCH, SharedPIDs, SupervisedNetwork, WatchedFiles, WatchedLooks)
	if err != nil {
		t.Fatal(err)
	}
	if r := supervisedCall(t, f, "connect"); !r.Supervised || r.Rule != supervised {
		t.Errorf("connect: %+v", r)
	}
	if r := supervisedCall(t, f, "mount"); r.Supervised || r.Untold {
		t.Errorf("mount: %+v", r)
	}
}
