package tree

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// Sample looks at every process once. It is os.ErrProcessDone when PID 1 is no
// more; the CPU times are then those that were last known. After any other error
// nothing is known, and whoever holds a run to a limit must end it.
func (t *Tree) Sample(need Need) (Sample, error) {
	s := Sample{At: time.Now(), Scratch: need.Scratch}
	before := len(t.stopped)
	t.stopAbove = need.StopAbove
	err := t.refresh()
	t.stopAbove = 0
	if err != nil && err != os.ErrProcessDone {
		return s, err
	}
	s.Stopped = len(t.stopped) > before
	var failed error
	if s.Earlier, failed = t.Measured(false); failed != nil {
		return s, failed
	}
	user, system := t.unreapedUser, t.unreaped-t.unreapedUser
	var grown, faults int64
	for i := range t.cur {
		p := &t.cur[i]
		user += p.cutime
		system += p.cstime
		if p.root {
			continue
		}
		user += p.utime
		system += p.stime
		s.Processes++
		s.Tasks += max(p.threads, 1)
		if p.dead() {
			s.Zombies++
		}
		s.RSS += p.memory
		grown += max(p.rss-p.rssThen, 0)
		faults += max(p.faults-p.faultsThen, 0)
	}
	if ticks(user+system) > t.user+t.system {
		t.user, t.system = ticks(user), ticks(system)
	}
	s.User, s.System, s.CPU = t.user, t.system, t.user+t.system
	s.Unreaped = ticks(t.unreaped)
	if err != nil {
		return s, err
	}
	if need.Memfds != NoWalk {
		if err := t.walkMemfds(&s, need.Memfds == WholeWalk); err != nil {
			return s, err
		}
	}
	s.Memfds = t.memfds.bytes()
	s.Bound = t.bound(&s, grown, faults)
	switch wanted := need.wantsPSS(&s); {
	case wanted && need.Beside:
		t.measureBeside(&s)
	case wanted:
		return s, t.measure(&s)
	}
	return s, nil
}

// bound is what memory can have become since PSS was last measured. RSS grows by
// what a process touches first. A page that was shared and is copied changes no
// RSS, but each such copy is one fault, and there are no more of them than
// RSS was above PSS.
func (t *Tree) bound(s *Sample, grown, faults int64) int64 {
	if !t.lastPSS.HasPSS {
		return s.ceiling()
	}
	w := &t.lastPSS
	copied := min(faults*t.page, max(w.RSS-w.PSS, 0))
	return min(s.ceiling(), w.Memory()+grown*t.page+copied+max(s.files()-w.files(), 0))
}

func ticks(n int64) time.Duration { return time.Duration(n) * ClockTick }

// refresh makes a new table, and brings the ledger up to it.
func (t *Tree) refresh() error {
	err := t.collect()
	if err == nil {
		err = t.findLost()
	}
	if err != nil {
		t.cur = t.cur[:0] // nobody may seem to have disappeared
		return err
	}
	if len(t.stoppedFast) > 0 {
		t.rememberStopped()
	}
	if find(t.cur, t.root) == nil {
		return os.ErrProcessDone
	}
	return nil
}

// collect lists and reads everybody into t.cur, and keeps the last table in t.prev.
func (t *Tree) collect() error {
	if err := t.list(); err != nil {
		return err
	}
	if t.stopAbove > 0 && len(t.pids) > t.stopAbove {
		if err := t.stopFast(true); err != nil {
			return err
		}
	}
	t.prev, t.cur = t.cur, t.prev[:0]
	for _, pid := range t.pids {
		var p process
		if err := t.read(pid, &p); gone(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("read stat in proc: %w", err)
		}
		p.early = !p.root && find(t.cur, p.ppid) == nil
		t.cur = append(t.cur, p)
	}
	return nil
}

// read makes the entry of one process.
func (t *Tree) read(pid int32, p *process) error {
	if err := t.stat(pid, &p.stat); err != nil {
		return err
	}
	p.base = p.reaped()
	p.root = pid == t.root
	if p.headless() && !p.root {
		t.useLivingThread(p)
	}
	p.memory = p.rss * t.page
	if was := find(t.prev, pid); was != nil && was.start == p.start {
		// What it gave back and takes again is growth: the others may have got its share.
		p.rssThen, p.faultsThen = min(was.rssThen, p.rss), was.faultsThen
		p.rssAsked, p.faultsAsked = min(was.rssAsked, p.rss), was.faultsAsked
	}
	return nil
}

// useLivingThread looks for the state and the memory of a process whose leader is gone
// at its other threads.
func (t *Tree) useLivingThread(p *process) {
	var err error
	if t.tids, err = t.threads(p.pid, t.tids[:0]); err != nil {
		return
	}
	for _, tid := range t.tids {
		var s stat
		if tid == p.pid || t.stat(tid, &s) != nil || s.state == 'Z' || s.state == 'X' {
			continue
		}
		p.state, p.rss, p.tid = s.state, s.rss, tid
		return
	}
}

// findLost finds who disappeared since the last table, and enters into the
// ledger what nobody waited for.
func (t *Tree) findLost() error {
	t.lost, t.late = t.lost[:0], t.late[:0]
	if find(t.cur, t.root) == nil {
		return nil // the namespace ended, and PID 1 has its own account of it
	}
	for i := range t.prev {
		was := &t.prev[i]
		is := find(t.cur, was.pid)
		if is != nil && is.same(was) {
			continue
		}
		if is == nil {
			// A listing can pass over a process that is changing its parent
			// or its leader. Only who can't be read is gone.
			var p process
			if err := t.read(was.pid, &p); err == nil && p.same(was) {
				p.early = true
				t.late = append(t.late, p)
				continue
			} else if err != nil && !gone(err) {
				return err
			}
		}
		if !was.root {
			t.lost = append(t.lost, was.pid)
		}
	}
	for _, p := range t.late {
		at, found := slices.BinarySearchFunc(t.cur, p.pid, func(q process, pid int32) int { return int(q.pid - pid) })
		if !found {
			t.cur = slices.Insert(t.cur, at, p)
		}
	}
	if len(t.lost) == 0 {
		return nil
	}
	anywhere := charge(t.prev, t.cur, t.lost)
	for i := range t.cur {
		p := &t.cur[i]
		if p.owed == 0 && !p.above {
			continue
		}
		var now stat
		if err := t.stat(p.pid, &now); err != nil || now.start != p.start {
			continue
		}
		p.utime, p.stime, p.cutime, p.cstime = now.utime, now.stime, now.cutime, now.cstime
		p.asked = true
	}
	t.enter(missing(t.prev, t.cur, anywhere))
	return nil
}

// enter adds to the ledger. Which part of a loss was user time can't be told
// process by process; the proportion of all that disappeared is taken.
func (t *Tree) enter(lost int64) {
	if lost <= 0 {
		return
	}
	var user, all int64
	for _, pid := range t.lost {
		if p := find(t.prev, pid); p != nil {
			user += p.utime + p.cutime
			all += p.own() + p.reaped()
		}
	}
	t.unreaped += lost
	if all > 0 {
		t.unreapedUser += lost * user / all
	}
}

// Biggest is the process with the most memory at the last sample. A memfd is
// on the account of the first process that has a descriptor of it.
func (t *Tree) Biggest() Process {
	var big *process
	var most int64
	for i := range t.cur {
		p := &t.cur[i]
		if p.root {
			continue
		}
		n := p.memory + max(t.memfds.of(p)-p.shmem, 0)
		if big == nil || n > most {
			big, most = p, n
		}
	}
	if big == nil {
		return Process{}
	}
	return big.describe(most)
}
