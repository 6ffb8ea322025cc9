package supervisor

import "golang.org/x/sys/unix"

// suspend: the target was stopped by its terminal (Ctrl-Z). So does a job of the
// caller's shell: the terminal is given back, confine stops, and when the shell
// brings it back, both go on.
//
// SIGSTOP is nobody's key: the rate watchdog sends it, and wakes by itself.
func (r *run) suspend(n unix.Signal) {
	if r.opts.Terminal == nil || n == unix.SIGSTOP {
		return
	}
	r.opts.Terminal.Suspend()
	r.send(unix.SIGCONT)
}
