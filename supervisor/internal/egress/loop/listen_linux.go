package loop

import (
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listener accepts connections.
type Listener struct {
	l      *Loop
	fd     int
	task   *Task // while it waits
	closed bool
	done   chan struct{}
}

// crowded is how long nothing is accepted when there is no descriptor or memory left:
// others may end.
const crowded = 10 * time.Millisecond

// Detach takes a socket out of the runtime's hands.
func Detach(s interface {
	syscall.Conn
	Close() error
}) (fd int, err error) {
	defer s.Close()
	raw, err := s.SyscallConn()
	if err != nil {
		return -1, err
	}
	failed := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(failed, err)
}

// Listen gives each connection of a listening socket to serve, which must not wait. The
// descriptor is the loop's in any case. Anybody may call it.
func (l *Loop) Listen(fd int, serve func(*Conn)) (*Listener, error) {
	err := unix.SetNonblock(fd, true)
	if err == nil {
		err = l.watchNow(fd, unix.EPOLLIN|unix.EPOLLET)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	inline(fd) // and what it accepts
	s := &Listener{l: l, fd: fd, done: make(chan struct{})}
	started := l.Start(func() {
		defer close(s.done)
		l.tell(fd, s) // what has happened already is found by trying
		s.accept(serve)
		l.forget(fd)
	})
	if !started {
		_ = unix.Close(fd)
		return nil, net.ErrClosed
	}
	return s, nil
}

func (s *Listener) happened(uint32) {
	if s.task != nil {
		s.task.Wake()
	}
}

func (s *Listener) accept(serve func(*Conn)) {
	for !s.closed {
		s.l.step()
		fd, from, err := unix.Accept4(s.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			if c, err := s.l.Adopt(fd); err == nil {
				c.remote = AddrPort(from)
				serve(c)
			}
		case unix.EAGAIN:
			s.task = s.l.current
			s.l.park()
			s.task = nil
		case unix.EINTR, unix.ECONNABORTED:
		case unix.EINVAL, unix.EBADF:
			return
		default:
			s.l.Sleep(crowded)
		}
	}
}

// Close accepts no more, when it returns. Only who isn't a task may wait for that.
func (s *Listener) Close() {
	posted := s.l.Post(func() {
		s.closed = true
		if s.task != nil {
			s.task.Wake()
		}
	})
	if posted {
		<-s.done
	}
}

// Waiting says whether somebody has connected who is not served yet.
func (s *Listener) Waiting() bool {
	select {
	case <-s.done:
		return false
	default:
	}
	poll := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0
}
