package tree

// process is one entry of the table. The table is sorted by pid.
type process struct {
	stat
	memory int64 // bytes; PSS where measured
	shmem  int64 // the part of it that may be mapped files of a tmpfs, memfds too; only where PSS is
	// What it had when PSS was last measured; nothing, if it is younger.
	rssThen, faultsThen   int64
	rssAsked, faultsAsked int64 // when it was last asked for, beside

	tid int32 // the thread to ask for memory, when the leader is gone; else 0

	// base is reaped() when the sample first read it: before it read any of its
	// children that the next sample will compare with.
	base int64
	// early: it was read before its parent, so that it can't be told whether
	// the parent's base already holds it.
	early bool

	root bool // PID 1 of the run

	owed  int64 // time of children that disappeared since the last sample
	asked bool  // its stat was read again after they were found gone
	above bool  // some process that disappeared together with its parent was below
}

func (p *process) same(q *process) bool {
	return p.pid == q.pid && p.start == q.start && p.own() >= q.own()
}

// thread is the number under which what belongs to its threads is found.
func (p *process) thread() int32 {
	if p.tid != 0 {
		return p.tid
	}
	return p.pid
}

func find(table []process, pid int32) *process {
	low, high := 0, len(table)
	for low < high {
		if mid := int(uint(low+high) >> 1); table[mid].pid < pid {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < len(table) && table[low].pid == pid {
		return &table[low]
	}
	return nil
}

// A process that disappears has, when somebody waited for it, left its time in
// the cutime of its parent, or of an ancestor when the parent went too. What
// isn't found there was dropped by the kernel: the parent ignores SIGCHLD.
//
// Every error is on the side of counting too little. A parent's growth is
// taken from before the child was last seen alive until after it was found
// gone; growth by other children hides a loss; whatever went together with
// its parent is held against everything that all ancestors gained.

// charge notes what each process in gone should have left, and where, and
// returns what may have gone to any ancestor.
func charge(prev, cur []process, gone []int32) (anywhere int64) {
	for _, pid := range gone {
		p := find(prev, pid)
		if p == nil || !ordered(prev, p) {
			continue
		}
		left := p.own() + p.reaped()
		if parent := survivor(prev, cur, p.ppid); parent != nil {
			parent.owed += left
			continue
		}
		someone := false
		for up := find(prev, p.ppid); up != nil; up = find(prev, up.ppid) {
			if a := survivor(prev, cur, up.pid); a != nil {
				a.above, someone = true, true
			}
		}
		if someone { // else nobody is left to ask what arrived
			anywhere += left
		}
	}
	return anywhere
}

// ordered: the process was read after all of its ancestors, up to PID 1, so
// that none of their bases can hold its time. Were one missing or younger,
// nothing could be told.
func ordered(prev []process, p *process) bool {
	// The bound is against loops, which reused pids can make.
	for n := 0; n < len(prev); n++ {
		if p.early {
			return false
		}
		if p.root {
			return true
		}
		if p = find(prev, p.ppid); p == nil {
			return false
		}
	}
	return false
}

// survivor is the process with that pid, when it is the same one as before.
func survivor(prev, cur []process, pid int32) *process {
	was, is := find(prev, pid), find(cur, pid)
	if was == nil || is == nil || !is.same(was) {
		return nil
	}
	return is
}

// missing says how much of what was charged has not arrived. Entries that were
// charged have been read again by now; those that could not be are not asked.
func missing(prev, cur []process, anywhere int64) (lost int64) {
	var spare int64
	unknown := false
	for i := range cur {
		p := &cur[i]
		if p.owed == 0 && !p.above {
			continue
		}
		was := find(prev, p.pid)
		if !p.asked || was == nil {
			unknown = unknown || p.above
			continue
		}
		gained := max(p.reaped()-was.base, 0)
		if p.owed > gained {
			lost += p.owed - gained
		} else if p.above {
			spare += gained - p.owed
		}
	}
	if !unknown {
		lost += max(anywhere-spare, 0)
	}
	return lost
}
