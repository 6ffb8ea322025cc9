package loop

import (
	"iter"
	"time"
)

// Task is something that the loop does in between other tasks.
type Task struct {
	l      *Loop
	next   func() (struct{}, bool)
	yield  func(struct{}) bool
	queued bool
}

// Start starts a task. Anybody may.
func (l *Loop) Start(f func()) bool { return l.Post(func() { l.Go(f) }) }

// Go starts a task; only tasks and what is posted may.
func (l *Loop) Go(f func()) {
	t := &Task{l: l}
	t.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		f()
	})
	t.Wake()
}

// Current is the task that runs.
func (l *Loop) Current() *Task { return l.current }

// Wake has a task resumed that waits for something to be so; it looks whether it is.
func (t *Task) Wake() {
	if !t.queued {
		t.queued = true
		t.l.ready = append(t.l.ready, t)
	}
}

func (t *Task) resume() {
	t.queued = false
	t.l.current, t.l.steps = t, 0
	_, _ = t.next()
	t.l.current = nil
}

// park waits until somebody wakes the running task.
func (l *Loop) park() {
	t := l.current
	t.yield(struct{}{})
}

// Yield lets others have their turn: of who has much to do, for whom nobody looks twice.
func (l *Loop) Yield() {
	l.credit = 0
	l.current.Wake()
	l.park()
}

// mostSteps is how often a task may find that it needn't wait before others have their
// turn: a program inside can see to it that one never has to.
const mostSteps = 16

// step is called whenever a task may go on without waiting.
func (l *Loop) step() {
	if l.steps++; l.steps > mostSteps {
		l.Yield()
	}
}

// Until waits until ok says so. Whoever makes it so has to wake the task.
func (l *Loop) Until(ok func() bool) {
	for !ok() {
		l.park()
	}
}

// Do does something that takes time, beside the loop, and waits for it.
func (l *Loop) Do(f func()) {
	t, done := l.current, false
	go func() {
		f()
		l.Post(func() {
			done = true
			t.Wake()
		})
	}()
	l.Until(func() bool { return done })
}

// timer wakes a task at a time.
type timer struct {
	t     *time.Timer
	fired bool
}

// after arms one for the running task.
func (l *Loop) after(d time.Duration) *timer {
	r, t := &timer{}, l.current
	r.t = time.AfterFunc(d, func() {
		l.Post(func() {
			r.fired = true
			t.Wake()
		})
	})
	return r
}

func (r *timer) stop() { r.t.Stop() }

// Sleep waits for some time.
func (l *Loop) Sleep(d time.Duration) {
	r := l.after(d)
	l.Until(func() bool { return r.fired })
}
