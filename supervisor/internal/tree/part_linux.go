package tree

import (
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Part is what a process of the last sample and all below it have: those who have lost their parent are below PID 1.
type Part struct {
	CPU    time.Duration // theirs, and that of everybody they waited for
	Memory int64         // PSS where that was measured; files that nobody has mapped are nobody's
	Tasks  int64         // zombies left out
}

// PartOf adds up a process and all below it, of a tree's last sample. It is false when the process isn't there.
func PartOf(t *Tree, pid int) (part Part, ok bool) {
	if pid <= 0 || pid > math.MaxInt32 || find(t.cur, int32(pid)) == nil {
		return part, false
	}
	in := make([]bool, len(t.cur))
	for more := true; more; { // mostly once: children have higher numbers than their parents, until numbers begin anew
		more = false
		for i := range t.cur {
			p := &t.cur[i]
			if in[i] || p.root || p.pid != int32(pid) && !marked(t.cur, in, p.ppid) {
				continue
			}
			in[i], more = true, true
		}
	}
	var used int64
	for i := range t.cur {
		if p := &t.cur[i]; in[i] {
			used += p.own() + p.reaped()
			part.Memory += p.memory
			if !p.dead() {
				part.Tasks += max(p.threads, 1)
			}
		}
	}
	part.CPU = ticks(used)
	return part, true
}

// marked says whether a process of the table is marked.
func marked(table []process, in []bool, pid int32) bool {
	at, ok := slices.BinarySearchFunc(table, pid, func(p process, pid int32) int { return int(p.pid - pid) })
	return ok && in[at]
}

// maxAbove bounds how many parents are asked for: numbers that are used again could make a loop.
const maxAbove = 1 << 10

// Above is the nearest of some processes that another one is, or is below of, by a proc; 0 is none.
func Above(proc, pid int, is func(pid int) bool) int {
	r := reader{dir: proc}
	for range maxAbove {
		if is(pid) {
			return pid
		}
		var s stat
		if pid <= 1 || pid > math.MaxInt32 || r.stat(int32(pid), &s) != nil {
			return 0
		}
		pid = int(s.ppid)
	}
	return 0
}

// Orphaned says whether somebody of a tree's last sample who was born then or later (by [Clock]) is a child of PID 1, and none of those who
// are known.
func Orphaned(t *Tree, born int64, known func(pid int) bool) bool {
	for i := range t.cur {
		if p := &t.cur[i]; !p.root && p.ppid == t.root && p.start >= born && !p.dead() && !known(int(p.pid)) {
			return true
		}
	}
	return false
}

// Clock is the time in clock ticks since boot.
func Clock() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return now.Nano() / int64(ClockTick)
}
