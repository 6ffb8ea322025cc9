package process

import (
	"context"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
)

// startupSignals listens to the caller's signals while an image is unpacked and a plan is made, when
// there is no command yet to pass them on to. One that asks for an end stops it; all others,
// and those that come after it, are for the run. None is lost in between.
type startupSignals struct {
	ctx   context.Context
	later chan os.Signal // those for the run

	mu      sync.Mutex
	stop    context.CancelCauseFunc
	done    bool
	release chan struct{}
	listen  func() // begins to; again it does nothing
}

// stoppedBy is the signal that ended it.
type stoppedBy struct{ sig unix.Signal }

func (e stoppedBy) Error() string { return unix.SignalName(e.sig) }

// newStartupSignals is for signals, once notify, if it isn't nil, has them sent. listen has to follow.
func newStartupSignals(ctx context.Context, signals <-chan os.Signal, notify func()) *startupSignals {
	u := &startupSignals{later: make(chan os.Signal, max(8, cap(signals))), release: make(chan struct{})}
	u.ctx, u.stop = context.WithCancelCause(ctx)
	u.listen = sync.OnceFunc(func() {
		go func() {
			if notify != nil {
				notify()
			}
			u.take(signals)
		}()
	})
	return u
}

// take handles what comes until the end.
func (u *startupSignals) take(signals <-chan os.Signal) {
	for {
		select {
		case s, open := <-signals:
			if !open {
				return
			}
			u.handle(s)
		case <-u.release:
			return
		}
	}
}

func (u *startupSignals) handle(s os.Signal) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n, ok := s.(unix.Signal); ok && !u.done && supervisor.AsksForEnd(s) {
		u.stop(stoppedBy{n}) // the first counts
		return
	}
	select {
	case u.later <- s:
	default: // as package signal does
	}
}

// finish is called when it is planned, or that failed. The error is what ended it early; nothing may be started
// then, also if it came too late for the plan.
func (u *startupSignals) finish() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done = true
	return context.Cause(u.ctx)
}

// rearm is for the next plan, for another tier. What came since the last one was finished, and
// was not heard by a run, counts as if it came now.
func (u *startupSignals) rearm() {
	u.mu.Lock()
	u.done = false
	var late []os.Signal
	for range len(u.later) {
		late = append(late, <-u.later)
	}
	u.mu.Unlock()
	for _, s := range late {
		u.handle(s)
	}
}

// end ends the listening, with the run.
func (u *startupSignals) end() {
	close(u.release)
	u.stop(nil)
}

// stopped is the report of a run that was ended before it began.
func stopped(cause error, doing string, policy *config.Policy, command *Command) *status.Report {
	sig, r := unix.SIGKILL, &status.Report{Status: status.KilledKill, Cause: status.CauseContext, Backend: Name}
	r.Reason = "cancelled by the caller"
	if by := (stoppedBy{}); errors.As(cause, &by) {
		sig, r.Status, r.Cause = by.sig, status.KilledSignal, status.CauseCaller
		if sig == unix.SIGTERM {
			r.Status = status.KilledTerm
		}
		r.Reason, r.Ending.Early = "stopped by "+unix.SignalName(sig), true
	}
	r.Reason += " while " + doing + ": nothing was started"
	r.Signal = unix.SignalName(sig)
	r.RC = r.Status.RC(status.Normalized, 0, int(sig))
	return backend.Complete(r, specOf(policy, command))
}
