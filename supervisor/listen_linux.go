package supervisor

import (
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// event is a message of the child's, with the descriptors that came with it, or -1.
type event struct {
	message                   *handoff.Message
	proc, scratch, pty, pidfd int
}

// close lets go of descriptors that nobody took.
func (e *event) close() {
	for _, fd := range []int{e.proc, e.scratch, e.pty, e.pidfd} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// listen reads what the child says until it is gone. What can't be read ends the
// stream: then the child is not ours any more, and loop ends without its word.
func listen(sock int) <-chan event {
	events := make(chan event)
	go func() {
		defer close(events)
		for {
			frame, fds, err := linux.ReceiveFrame(sock)
			if err != nil {
				return
			}
			m, err := handoff.DecodeMessage(frame)
			if err != nil {
				for _, fd := range fds {
					_ = unix.Close(fd)
				}
				return
			}
			e := event{message: m, proc: -1, scratch: -1, pty: -1, pidfd: -1}
			for _, one := range []struct {
				there bool
				fd    *int
			}{{m.HasProc, &e.proc}, {m.HasScratch, &e.scratch}, {m.HasPTY, &e.pty}, {m.HasPIDFD, &e.pidfd}} {
				if one.there && len(fds) > 0 {
					*one.fd, fds = fds[0], fds[1:]
				}
			}
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
			events <- e
		}
	}()
	return events
}
