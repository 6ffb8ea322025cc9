package tree

import (
	"testing"
	"time"
)

// family is a sample: PID 1, a target 5 with a child 7 and a grandchild 3 (numbers begin anew), its neighbour 6 with a child 8, and 9, whom somebody left.
func family() *Tree {
	t := &Tree{root: 1}
	add := func(pid, ppid int32, used, reaped, memory int64) {
		p := process{stat: stat{pid: pid, ppid: ppid, state: 'S', threads: 1, utime: used, cutime: reaped, start: int64(pid)}, memory: memory, root: pid == 1}
		t.cur = append(t.cur, p)
	}
	add(1, 0, 1000, 5000, 1<<30)
	add(3, 7, 3, 0, 30)
	add(5, 1, 50, 100, 500)
	add(6, 1, 7000, 0, 7000)
	add(7, 5, 20, 0, 200)
	add(8, 6, 7000, 0, 7000)
	add(9, 1, 9000, 0, 9000)
	return t
}

func TestAPartIsAProcessAndThoseBelow(t *testing.T) {
	f := family()
	f.cur[4].threads = 4
	want := Part{CPU: 1730 * time.Millisecond, Memory: 730, Tasks: 6}
	if got, ok := PartOf(f, 5); !ok || got != want {
		t.Errorf("%+v, %v; want %+v", got, ok, want)
	}
	f.cur[1].state = 'Z' // a zombie has used what it has, and is no task
	want.Tasks = 5
	if got, _ := PartOf(f, 5); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	for _, pid := range []int{0, -1, 4, 1 << 40} {
		if got, ok := PartOf(f, pid); ok {
			t.Errorf("%d: %+v", pid, got)
		}
	}
	// Numbers that are used again could make a loop.
	f.cur[2].ppid = 3
	if got, ok := PartOf(f, 5); !ok || got.Memory != 730 {
		t.Errorf("of a loop: %+v, %v", got, ok)
	}
}

func TestOrphansAreThoseBornSinceWhomNobodyKnows(t *testing.T) {
	f := family()
	targets := func(pid int) bool { return pid == 5 || pid == 6 }
	if !Orphaned(f, 9, targets) || Orphaned(f, 10, targets) {
		t.Error("9 was born when it was, and has lost its parent")
	}
	if Orphaned(f, 0, func(pid int) bool { return targets(pid) || pid == 9 }) {
		t.Error("those who have a parent are no orphans")
	}
	f.cur[6].state = 'Z'
	if Orphaned(f, 0, targets) {
		t.Error("a zombie uses nothing any more")
	}
}
