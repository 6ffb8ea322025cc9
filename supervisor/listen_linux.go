package supervisor

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// event is a message of the child's, with the descriptors that came with it, or
// -1; or why no further message can be understood.
type event struct {
	message                             *handoff.Message
	proc, scratch, pty, pidfd, listener int
	sized                               []int // roots of tmpfs of their own size
	sockets                             []int
	err                                 error
}

// close lets go of descriptors that nobody took.
func (e *event) close() {
	for _, fd := range slices.Concat([]int{e.proc, e.scratch, e.pty, e.pidfd, e.listener}, e.sized, e.sockets) {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// listen reads what the child says until it is gone. When that can't be
// understood the last event says why.
func listen(sock int) <-chan event {
	events := make(chan event)
	go func() {
		defer close(events)
		for {
			frame, fds, err := linux.ReceiveFrame(sock)
			if err == unix.ECONNRESET {
				return
			}
			var m *handoff.Message
			if err == nil {
				m, err = handoff.DecodeMessage(frame)
			}
			if err != nil {
				for _, fd := range fds {
					_ = unix.Close(fd)
				}
				events <- event{err: err}
				return
			}
			e := event{message: m, proc: -1, scratch: -1, pty: -1, pidfd: -1, listener: -1}
			if m.Kind == handoff.KindSockets {
				e.sockets, fds = fds, nil
			}
			for _, one := range []struct {
				there bool
				fd    *int
			}{{m.HasProc, &e.proc}, {m.HasScratch, &e.scratch}, {m.HasPTY, &e.pty}, {m.HasPIDFD, &e.pidfd}, {m.HasListener, &e.listener}} {
				if one.there && len(fds) > 0 {
					*one.fd, fds = fds[0], fds[1:]
				}
			}
			n := min(int(m.Sized), len(fds))
			e.sized, fds = fds[:n:n], fds[n:]
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
			events <- e
		}
	}()
	return events
}
