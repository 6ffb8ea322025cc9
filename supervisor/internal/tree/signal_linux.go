package tree

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// identity names a process for good.
type identity struct {
	pid   int32
	start int64
}

// maxPasses bounds how often a signal is sent to those who appeared since. A
// tree that still makes processes after so many passes wins only time: what
// it made is found by the next call.
const maxPasses = 64

// Alone says whether there is nobody in a tree but PID 1.
func Alone(t *Tree) (bool, error) {
	err := t.list()
	return len(t.pids) == 1 && t.pids[0] == t.root, err
}

// Signal sends a signal to every process but PID 1, again and again until
// nobody is left who has not had it.
func (t *Tree) Signal(sig unix.Signal) error {
	clear(t.signalled)
	for range maxPasses {
		if err := t.list(); err != nil {
			return err
		}
		fresh := 0
		for _, pid := range t.pids {
			if pid == t.root {
				continue
			}
			err := t.with(pid, func(fd int, s *stat) error {
				id := identity{pid, s.start}
				if s.dead() || t.signalled[id] {
					return nil
				}
				fresh++
				t.signalled[id] = true
				return send(fd, sig)
			})
			if err != nil {
				return err
			}
		}
		if fresh == 0 {
			return nil
		}
	}
	return fmt.Errorf("%v: %w", sig, ErrUnsettled)
}

// with opens the directory of a process, reads its stat through it, and hands
// on both: they are one process, whatever becomes of the number. That it ended
// meanwhile is no error.
func (t *Tree) with(pid int32, do func(fd int, s *stat) error) error {
	fd, err := t.open(pid, "", flagsDir)
	if gone(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("openat %d in proc: %w", pid, err)
	}
	defer unix.Close(fd)
	var s stat
	if err := t.statAt(fd, &s); gone(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("openat %d/stat in proc: %w", pid, err)
	}
	return do(fd, &s)
}

// send signals the process whose directory was opened. The kernel takes that
// for a pidfd, if it is no O_PATH descriptor.
func send(fd int, sig unix.Signal) error {
	err := unix.PidfdSendSignal(fd, sig, nil, 0)
	if err == nil || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("pidfd_send_signal %v: %w", sig, err)
}

// Stop stops everybody but PID 1 and who was stopped already, and remembers
// whom. Called again before Continue, it stops who was woken or appeared since.
//
// First comes everybody there is without being looked at: the tree grows meanwhile.
// Parents come before children, so that a shell doesn't see its jobs stopped.
// A fork that was going on when its parent was signalled can still leave a
// child, so it is at rest when two passes, one after the other, found nobody running.
func (t *Tree) Stop() error {
	if err := t.stopFast(false); err != nil {
		return err
	}
	for pass, quiet := 0, 0; pass < maxPasses; pass++ {
		running, err := t.stopPass(pass == 0)
		if err != nil {
			return err
		}
		if running > 0 {
			quiet = 0
			// The signal is on its way. A timer of the runtime's would wait for a thread that may get no turn.
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 50_000}, nil)
		} else if quiet++; quiet == 2 {
			return nil
		}
	}
	return fmt.Errorf("SIGSTOP: %w", ErrUnsettled)
}

// stopPass signals everybody who isn't stopped, and says how many may still run.
func (t *Tree) stopPass(first bool) (running int, err error) {
	if err := t.refresh(); err != nil {
		return 0, err
	}
	t.byAge()
	for _, at := range t.order {
		p := &t.cur[at]
		if p.root || p.dead() || p.state == 'T' || p.state == 't' {
			continue
		}
		id := identity{p.pid, p.start}
		known := slices.Contains(t.stopped, id)
		// Who waits in the kernel without being interruptible (for the exec of a
		// vfork, for a disk) stops before it runs again.
		if known && p.state == 'D' && !first {
			continue
		}
		err := t.with(p.pid, func(fd int, s *stat) error {
			if s.start != p.start {
				return nil
			}
			running++
			if !known {
				t.stopped = append(t.stopped, id)
			}
			return send(fd, unix.SIGSTOP)
		})
		if err != nil {
			return 0, err
		}
	}
	return running, nil
}

// byAge fills t.order with the places in t.cur, oldest first.
func (t *Tree) byAge() {
	t.order = t.order[:0]
	for i := range t.cur {
		t.order = append(t.order, int32(i))
	}
	slices.SortFunc(t.order, func(a, b int32) int { return older(&t.cur[a], &t.cur[b]) })
}

func older(a, b *process) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid))
}

// Continue wakes whom Stop stopped, children before parents.
func (t *Tree) Continue() error {
	var first error
	for _, id := range slices.Backward(t.stopped) {
		err := t.with(id.pid, func(fd int, s *stat) error {
			if s.start != id.start {
				return nil
			}
			return send(fd, unix.SIGCONT)
		})
		if err != nil && first == nil {
			first = err // the others must wake nevertheless
		}
	}
	t.stopped = t.stopped[:0]
	return first
}

// stopFast stops everybody who wasn't stopped when last seen, with as little
// work for each as can be: against a fork bomb every microsecond counts, and the
// newest come first.
func (t *Tree) stopFast(newestFirst bool) error {
	for range maxPasses {
		if err := t.list(); err != nil {
			return err
		}
		fresh := 0
		if newestFirst {
			slices.Reverse(t.pids)
		}
		for _, pid := range t.pids {
			p := find(t.cur, pid)
			if pid == t.root || p != nil && (p.state == 'T' || p.state == 't') {
				continue
			}
			if _, known := slices.BinarySearch(t.stoppedFast, pid); known {
				continue
			}
			fd, err := t.open(pid, "", flagsDir)
			if gone(err) {
				continue
			} else if err != nil {
				return fmt.Errorf("openat %d in proc: %w", pid, err)
			}
			err = send(fd, unix.SIGSTOP)
			unix.Close(fd)
			if err != nil {
				return err
			}
			fresh++
		}
		slices.Sort(t.pids)
		t.stoppedFast = append(t.stoppedFast[:0], t.pids...)
		if fresh == 0 {
			return nil
		}
	}
	return nil
}

// rememberStopped remembers whom stopFast stopped; with the first table after it, because
// the one before tells who was stopped already.
func (t *Tree) rememberStopped() {
	for i := range t.cur {
		p := &t.cur[i]
		_, stoppedFast := slices.BinarySearch(t.stoppedFast, p.pid)
		was := find(t.prev, p.pid)
		own := was != nil && was.start == p.start && (was.state == 'T' || was.state == 't')
		if id := (identity{p.pid, p.start}); stoppedFast && !own && !p.root && !p.dead() && !slices.Contains(t.stopped, id) {
			t.stopped = append(t.stopped, id)
		}
	}
	t.stoppedFast = t.stoppedFast[:0]
}

// forgiven is how many zombies may be there that we made, by killing, and whose
// parent takes its time.
const forgiven = 1000

// Trim kills the newest processes until the living have no more than limit
// threads, and says which it killed. A process that has more than that by
// itself goes first, so that nobody else pays for it.
//
// Zombies can't be killed. When a parent hoards so many that they alone are more
// than the limit, it goes.
func (t *Tree) Trim(limit int64) (killed []int, err error) {
	if err := t.refresh(); err != nil {
		return nil, err
	}
	live, zombies := t.census()
	t.byAge()
	for _, alone := range [...]bool{true, false} {
		for _, at := range slices.Backward(t.order) {
			p := &t.cur[at]
			if live <= limit {
				break
			}
			if p.root || p.dead() || t.isDoomed(p) || alone != (p.threads > limit) {
				continue
			}
			if err := t.kill(p); err != nil {
				return killed, err
			}
			killed = append(killed, int(p.pid))
			live -= max(p.threads, 1)
		}
	}
	if killed != nil || zombies <= limit {
		return killed, nil
	}
	if hoarder := t.hoarder(); hoarder != nil {
		return []int{int(hoarder.pid)}, t.kill(hoarder)
	}
	return nil, nil
}

// census counts the threads of the living and the zombies, and forgets who
// was doomed and is gone. Who has been killed but has not died yet counts as
// neither: else somebody else would be killed in its place. Nor do a number of
// those that died of it: their parent could not know.
func (t *Tree) census() (live, zombies int64) {
	t.doomed = slices.DeleteFunc(t.doomed, func(id identity) bool {
		p := find(t.cur, id.pid)
		return p == nil || p.start != id.start
	})
	forgive := forgiven
	for i := range t.cur {
		switch p := &t.cur[i]; {
		case p.root:
		case p.dead() && forgive > 0 && t.isDoomed(p):
			forgive--
		case p.dead():
			zombies++
		case !t.isDoomed(p):
			live += max(p.threads, 1)
		}
	}
	return live, zombies
}

func (t *Tree) isDoomed(p *process) bool {
	return slices.Contains(t.doomed, identity{p.pid, p.start})
}

func (t *Tree) kill(p *process) error {
	t.doomed = append(t.doomed, identity{p.pid, p.start})
	return t.with(p.pid, func(fd int, s *stat) error {
		if s.start != p.start {
			return nil
		}
		return send(fd, unix.SIGKILL)
	})
}

// hoarder is the process with the most zombies for children.
func (t *Tree) hoarder() *process {
	for i := range t.cur {
		t.cur[i].owed = 0
	}
	var most *process
	for i := range t.cur {
		p := find(t.cur, t.cur[i].ppid)
		if p == nil || p.root || !t.cur[i].dead() || p.dead() || t.isDoomed(p) {
			continue
		}
		if p.owed++; most == nil || p.owed > most.owed {
			most = p
		}
	}
	return most
}
