package watch

import (
	"sync"
	"time"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/tree"
)

// looks are for limits that the kernel holds and counts no hits of: of descriptors, and of
// tasks without a cgroup. What has reached one is seen by looking: while a process is held
// that is about to end with a status that isn't 0 or by abort(3), and when something was written to standard
// error, as most programs do that give up. The former still has all that it had when it
// failed, unless it gave that back itself; the latter goes on meanwhile.
type looks struct {
	mu    sync.Mutex
	ended bool      // guarded by mu
	next  time.Time // none before for anybody but the target; guarded by mu
	tasks int64     // the most that were seen, zombies too; guarded by mu
}

// lookShare is the part of a core that looks may take: a look is followed by so many times
// its own cost without one.
const lookShare = 50

// pair is what pipe and socketpair need, so that of the last descriptor most programs have no use.
const pair = 2

// End waits for a look that goes on. There is none afterwards.
func (l *looks) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// Look looks at everybody. It is left out soon after another, but for the target's end.
func (w *Watch) Look(target bool) {
	if w == nil {
		return
	}
	tasks := w.plan.Tasks > 0 && !w.plan.KillTasks
	if !tasks && w.plan.Descriptors == 0 {
		return
	}
	l := &w.looks
	l.mu.Lock()
	defer l.mu.Unlock()
	begun := time.Now()
	if l.ended || !target && begun.Before(l.next) {
		return
	}
	t, err := w.root()
	if err != nil {
		return
	}
	defer t.Close()
	s, err := t.Sample(tree.Need{PSSAbove: tree.NoPSS})
	if err != nil {
		return
	}
	if tasks {
		l.tasks = max(l.tasks, s.Tasks)
		if s.Tasks >= w.plan.Tasks {
			w.note(status.Tasks)
		}
	}
	if n := w.plan.Descriptors; n > 0 && t.Descriptors()+pair > n {
		w.note(status.FileDescriptors)
	}
	now := time.Now()
	l.next = now.Add(lookShare * now.Sub(begun))
}

// TasksSeen is the most that a look has found.
func (w *Watch) TasksSeen() int64 {
	if w == nil {
		return 0
	}
	w.looks.mu.Lock()
	defer w.looks.mu.Unlock()
	return w.looks.tasks
}
