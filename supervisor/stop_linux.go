package supervisor

import (
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/outcome"
)

// stage is how far the stopping of a run has gone.
type stage int

const (
	running stage = iota
	asked         // SIGTERM was sent, or the caller's signal passed on
	killed        // SIGKILL was sent to the target
	shot          // the init was killed, or the guard told to end everything
)

// stopped is how far a run has been stopped.
type stopped struct {
	stage    stage
	deadline *time.Timer   // of the stage
	early    []unix.Signal // for a target that had not started yet
	resumed  time.Time     // after the last suspension
}

// because records a cause; the first one wins. That the filter kills the target is
// recorded where it is done.
func (j *job) because(cause status.Cause, detail string) {
	if j.out.Cause == "" && !j.out.Waited && j.refused.listener.Killed() == nil {
		j.out.Cause, j.out.Detail = cause, detail
		j.stopping()
		if c := outcome.CapabilityOf(cause); c != "" && j.opts.LimitHit != nil {
			j.opts.LimitHit(c)
		}
	}
}

func (j *job) stopping() {
	if j.opts.Stopping != nil {
		j.opts.Stopping()
	}
}

// stop asks the target to end, and gives it the grace period.
func (j *job) stop(cause status.Cause, detail string) {
	j.because(cause, detail)
	if j.stage >= asked {
		return
	}
	j.signal(unix.SIGTERM)
	j.signal(unix.SIGCONT) // a stopped one could not hear
	j.enter(asked, j.plan.Watch.Grace)
}

// kill ends it at once.
func (j *job) kill(cause status.Cause, detail string) {
	j.because(cause, detail)
	if !j.targetStarted && !j.exec.Last {
		j.early = append(j.early, unix.SIGKILL)
		return
	}
	if !j.targetStarted {
		j.child.kill() // there is nothing yet whose usage could be told
		j.enter(shot, initPatience)
		return
	}
	if j.stage < killed {
		j.stage = asked
		j.advance()
	}
}

// enter begins a stage that ends by itself after d.
func (j *job) enter(s stage, d time.Duration) {
	j.stage = s
	if j.deadline != nil {
		j.deadline.Stop()
	}
	j.deadline = j.after(d, func() {
		if j.stage == s { // else another was entered meanwhile
			j.advance()
		}
	})
}

// advance goes one stage further.
func (j *job) advance() {
	switch j.stage {
	case asked:
		// The init kills everything else when the target is gone, and can tell what
		// all of it used.
		j.signal(unix.SIGKILL)
		j.enter(killed, initPatience)
	case killed:
		if !j.exec.Last {
			return // it hangs in the kernel; the others are nobody's business
		}
		j.child.kill()
		j.enter(shot, initPatience)
	case shot:
		j.child.shoot() // a guard that was stopped, or is too slow
	}
}

// signal gives one to the target and to what is in its process group. What
// comes before there is a target is for it, too.
func (j *job) signal(n unix.Signal) {
	if !j.targetStarted {
		j.early = append(j.early, n)
		return
	}
	signalGroup(j.target, n)
}

// Plain is a signal for the target that means nothing to us, whichever it is.
type Plain unix.Signal

// Signal makes it an os.Signal.
func (Plain) Signal() {}

func (n Plain) String() string { return outcome.SignalName(unix.Signal(n)) }

// passOn gives the caller's signal to the target. One that asks for an end
// starts the grace period; the second of these kills. Before there is a target it ends
// the run at once.
func (j *job) passOn(s os.Signal) {
	if n, ok := s.(Plain); ok {
		j.out.Heard |= 1 << n
		j.signal(unix.Signal(n))
		return
	}
	n, ok := s.(syscall.Signal)
	switch {
	case !ok:
	case n == unix.SIGTSTP:
		j.halt(false)
	case AsksForEnd(n):
		if j.stage >= asked {
			j.kill(status.CauseCaller, "killed by the caller's second signal")
			return
		}
		if !j.ready { // no target was made, which the child does when all is built
			j.out.Early = n
			j.kill(status.CauseCaller, "stopped by "+outcome.SignalName(n))
			return
		}
		j.out.Asked = n
		j.because(status.CauseCaller, "the caller's "+outcome.SignalName(n))
		j.signal(n)
		if n == unix.SIGTERM || n == unix.SIGHUP { // nobody outside can wake one that has stopped itself
			j.signal(unix.SIGCONT)
		}
		j.enter(asked, j.plan.Watch.Grace)
	default:
		j.out.Heard |= 1 << n
		j.signal(n)
	}
}

// AsksForEnd says whether a signal to confine is to end the run.
func AsksForEnd(s os.Signal) bool {
	n, ok := s.(unix.Signal)
	return ok && slices.Contains(First.Turn.Stop[:], n)
}

// suspend: the target was stopped by its terminal (Ctrl-Z). So does a job of the
// caller's shell: the terminal is given back, confine stops, and when the shell
// brings it back, both go on.
//
// SIGSTOP is nobody's key: the rate watchdog sends it, and wakes by itself.
//
// While confine stands still nothing holds the run to its limits, so everything
// inside is stopped first, whatever the target has put into other sessions. A
// target that stops itself over and over is not followed each time, nor one that
// is being ended, nor where nobody is there to bring it back.
func (j *job) suspend(n unix.Signal) {
	const often = time.Second
	if n == unix.SIGSTOP || j.stage != running || !j.opts.Terminal.Interactive() || time.Since(j.resumed) < often {
		return
	}
	j.halt(true)
	j.signal(unix.SIGCONT)
}

// halt stops confine, and everything inside before it: for the target's Ctrl-Z with the
// rest of the job, for a SIGTSTP that confine itself got, in a pipeline that the terminal
// stopped, alone.
func (j *job) halt(job bool) {
	thaw := j.watch.Freeze()
	j.opts.Terminal.Suspend(job)
	thaw()
	j.resumed = time.Now()
}

// pidfdSignalProcessGroup is PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9.
const pidfdSignalProcessGroup = 1 << 2

// signalGroup sends n to the process behind pidfd and to the process group that
// it was started in, as a terminal would. A target that has left that group for
// another gets the signal all the same.
func signalGroup(pidfd int, n unix.Signal) {
	pid := linux.PIDOf(pidfd) // as long as the process is there, its number is its own
	group := 0
	if pid > 0 {
		group, _ = unix.Getpgid(pid)
	}
	err := unix.PidfdSendSignal(pidfd, n, nil, pidfdSignalProcessGroup)
	if err == unix.EINVAL && group == pid && pid > 1 { // before Linux 6.9
		err = unix.Kill(-group, n)
	}
	if err != nil || group != pid || n == unix.SIGKILL {
		_ = unix.PidfdSendSignal(pidfd, n, nil, 0)
	}
}
