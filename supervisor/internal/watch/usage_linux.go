package watch

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/supervisor/internal/tree"
)

// Asks answers what is used. Samples are taken because somebody asks: nothing is, as long as nobody does.
type Asks struct {
	*Watch
	mu     sync.Mutex
	ended  bool // guarded by mu, as all of it
	tree   *tree.Tree
	sample tree.Sample
	err    error
	at     time.Time
}

// Asks are answered until the watch ends.
func (w *Watch) Asks() *Asks {
	if w == nil {
		return nil
	}
	return w.asks
}

// askedAgain is for how long a sample is new enough: however many ask, one is taken at a time, and no more than so often.
const askedAgain = 200 * time.Millisecond

// look takes a sample, unless there is one that is new enough. The lock is held.
func (a *Asks) look() (*tree.Sample, error) {
	if !a.at.IsZero() && time.Since(a.at) < askedAgain {
		return &a.sample, a.err
	}
	return a.lookAnew()
}

func (a *Asks) lookAnew() (*tree.Sample, error) {
	if a.tree == nil {
		if a.tree, a.err = a.root(); a.err != nil {
			a.tree = nil
			return nil, a.err
		}
	}
	need := tree.Need{PSSAbove: -1, Memfds: tree.PartWalk}
	bytes, inodes := a.scratchUsed()
	need.Scratch = bytes + inodes*inodeSize + a.ipc.used()
	a.sample, a.err = a.tree.Sample(need)
	a.at = time.Now()
	return &a.sample, a.err
}

// end closes what was needed for answers. There are none afterwards.
func (a *Asks) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.tree != nil {
		_ = a.tree.Close()
	}
}

// UsedNow is what everybody inside uses: as the cgroup counts where there is one, else by a sample.
func (a *Asks) UsedNow() (Now, error) {
	if a == nil {
		return Now{}, os.ErrProcessDone
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return Now{}, os.ErrProcessDone
	}
	now := Now{CPU: -1, Memory: -1, Tasks: -1, Scratch: -1}
	for _, fd := range a.private.fds {
		if fd >= 0 {
			now.Scratch, _ = a.scratchUsed()
			break
		}
	}
	if a.group != nil {
		s := a.group.Stat()
		if s.CPU.Known {
			now.CPU = s.CPU.D
		}
		if s.Memory.Known {
			now.Memory = s.Memory.N
		}
		if s.Tasks.Known {
			now.Tasks = s.Tasks.N
		}
	}
	if now.CPU >= 0 && now.Memory >= 0 && now.Tasks >= 0 {
		return now, nil
	}
	s, err := a.look()
	if err != nil {
		return Now{}, err
	}
	if now.CPU < 0 {
		now.CPU = max(s.CPU, a.Usage().CPU) // who looks more often has seen more of those whom nobody waited for
	}
	if now.Memory < 0 {
		now.Memory = s.Memory()
	}
	if now.Tasks < 0 {
		now.Tasks = s.Live()
	}
	return now, nil
}

// UsedBy is what a process and those below it use: inside is its number there, and pidfd stands for it. What lost its
// parent is below nobody but PID 1, and not in it.
func (a *Asks) UsedBy(inside, pidfd int) (Now, error) {
	if a == nil {
		return Now{}, os.ErrProcessDone
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return Now{}, os.ErrProcessDone
	}
	if a.proc < 0 { // it is found in the caller's proc
		inside = linux.PIDOf(pidfd)
	}
	if _, err := a.look(); err != nil {
		return Now{}, err
	}
	part, ok := tree.PartOf(a.tree, inside)
	if !ok { // it may have begun after the last sample
		if _, err := a.lookAnew(); err != nil {
			return Now{}, err
		}
		part, ok = tree.PartOf(a.tree, inside)
	}
	if !ok || ended(pidfd) { // the number may be somebody else's by now
		return Now{}, os.ErrProcessDone
	}
	return Now{CPU: part.CPU, Memory: part.Memory, Tasks: part.Tasks, Scratch: -1}, nil
}

// ended says whether a process has, or that can't be told.
func ended(pidfd int) bool {
	n, err := linux.Again(func() (int, error) { return unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0) })
	return n != 0 || err != nil
}

// Orphaned says whether somebody is there who was born then or later, has lost his parent, and is none of those who are known. born
// is by tree.Clock.
func (a *Asks) Orphaned(born int64, known func(pid int) bool) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	t, err := a.root()
	if err != nil {
		return false
	}
	defer t.Close()
	_, err = t.Sample(tree.Need{PSSAbove: tree.NoPSS})
	return err == nil && tree.Orphaned(t, born, known)
}

// Within says which of some processes another one is, or is below of; 0 is none. All are numbers inside.
func (a *Asks) Within(pid int, of func(pid int) bool) int {
	if a == nil || a.proc < 0 {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return 0
	}
	return tree.Above(a.proc, pid, of)
}
