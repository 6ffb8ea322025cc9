package changes

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockName = ".lock"
	// A wait is told after a moment, and ends.
	toldAfter = time.Second
	patience  = 30 * time.Second
)

// lock holds the store for applying and discarding. It waits for who has it, until stopped
// is closed, and not for ever; who waits first is first.
func (s *Store) lock(stopped <-chan struct{}) (unlock func(), err error) {
	fd, err := unix.Openat(s.fd, lockName, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, failed("open", s.path+"/"+lockName, err)
	}
	err = flock(fd, unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		if fd, err = s.await(fd, stopped); err == errStopped || err == ErrBusy {
			return nil, err
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, failed("flock", s.path+"/"+lockName, err)
	}
	return func() { _ = unix.Close(fd) }, nil
}

// await waits for the lock. When it gives up, fd isn't the caller's any more: nothing ends
// the system call, so it is closed when that ends.
func (s *Store) await(fd int, stopped <-chan struct{}) (int, error) {
	got, gone := make(chan error), make(chan struct{})
	defer close(gone)
	go func() {
		err := flock(fd, 0)
		select {
		case got <- err:
		case <-gone:
			_ = unix.Close(fd)
		}
	}()
	after := s.after
	if after == nil {
		after = time.After
	}
	tell, end := after(toldAfter), after(patience)
	for {
		select {
		case err := <-got:
			return fd, err
		case <-stopped:
			return -1, errStopped
		case <-end:
			return -1, ErrBusy
		case <-tell:
			if s.Waiting != nil {
				s.Waiting()
			}
		}
	}
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX|how); err != unix.EINTR {
			return err
		}
	}
}
