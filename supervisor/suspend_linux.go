package supervisor

import "golang.org/x/sys/unix"

// suspend: the target was stopped by its terminal (Ctrl-Z). So does a job of the
// caller's shell: the terminal is given back, confine stops, and when the shell
// brings it back, both go on.
func (r *run) suspend(unix.Signal) {
	if r.opts.Terminal == nil {
		return
	}
	r.opts.Terminal.Suspend()
	r.send(unix.SIGCONT)
}
