package supervisor

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/status"
)

// stage is how far the stopping of a run has gone.
type stage int

const (
	running stage = iota
	asked         // SIGTERM was sent, or the caller's signal passed on
	killed        // SIGKILL was sent to the target
	shot          // the init was killed, or the guard told to end everything
)

// because records a cause; the first one wins. That the filter kills the target is
// recorded where it is done.
func (r *run) because(cause status.Cause, detail string) {
	if r.out.cause == "" && !r.out.waited && r.denials.Killed() == nil {
		r.out.cause, r.out.detail = cause, detail
		if c := capabilityOf(cause); c != "" && r.opts.LimitHit != nil {
			r.opts.LimitHit(c)
		}
	}
}

// stop asks the target to end, and gives it the grace period.
func (r *run) stop(cause status.Cause, detail string) {
	r.because(cause, detail)
	if r.stage >= asked {
		return
	}
	r.send(unix.SIGTERM)
	r.send(unix.SIGCONT) // a stopped one could not hear
	r.enter(asked, r.plan.Watch.Grace)
}

// kill ends it at once.
func (r *run) kill(cause status.Cause, detail string) {
	r.because(cause, detail)
	if !r.targetStarted {
		r.child.kill() // there is nothing yet whose usage could be told
		r.enter(shot, initPatience)
		return
	}
	if r.stage < killed {
		r.stage = asked
		r.advance()
	}
}

// enter begins a stage that ends by itself after d.
func (r *run) enter(s stage, d time.Duration) {
	r.stage = s
	r.deadline = time.After(d)
}

// advance goes one stage further.
func (r *run) advance() {
	switch r.stage {
	case asked:
		// The init kills everything else when the target is gone, and can tell what
		// all of it used.
		r.send(unix.SIGKILL)
		r.enter(killed, initPatience)
	case killed:
		r.child.kill()
		r.enter(shot, initPatience)
	case shot:
		r.child.shoot() // a guard that was stopped, or is too slow
		r.deadline = nil
	}
}

// send gives a signal to the target and to what is in its process group. What
// comes before there is a target is for it, too.
func (r *run) send(n unix.Signal) {
	if !r.targetStarted {
		r.early = append(r.early, n)
		return
	}
	signalGroup(r.target, n)
}

// passOn gives the caller's signal to the target. One that asks for an end
// starts the grace period; the second of these kills. Before there is a target it ends
// the run at once.
func (r *run) passOn(s os.Signal) {
	n, ok := s.(syscall.Signal)
	switch {
	case !ok:
	case AsksForEnd(n):
		if r.stage >= asked {
			r.kill(status.CauseCaller, "killed by the caller's second signal")
			return
		}
		if !r.ready { // no target was made, which the child does when all is built
			r.out.early = n
			r.kill(status.CauseCaller, "stopped by "+signalName(n))
			return
		}
		r.out.asked = n
		r.because(status.CauseCaller, "the caller's "+signalName(n))
		r.send(n)
		r.enter(asked, r.plan.Watch.Grace)
	default:
		r.out.heard |= 1 << n
		r.send(n)
	}
}

// AsksForEnd says whether a signal to confine is to end the run.
func AsksForEnd(s os.Signal) bool {
	return s == unix.SIGINT || s == unix.SIGTERM || s == unix.SIGQUIT || s == unix.SIGHUP
}
