package supervisor

import (
	"time"

	"golang.org/x/sys/unix"
)

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
func (r *run) suspend(n unix.Signal) {
	const often = time.Second
	if n == unix.SIGSTOP || r.stage != running || !r.opts.Terminal.Interactive() || time.Since(r.resumed) < often {
		return
	}
	thaw := r.watch.freeze()
	r.opts.Terminal.Suspend()
	thaw()
	r.resumed = time.Now()
	r.send(unix.SIGCONT)
}
