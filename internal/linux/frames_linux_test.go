package linux

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// A receiver that may open no more is told so: descriptors that are taken in order would be taken one for another.
func TestDescriptorsThatDontFitAreAnError(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	defer CloseAll(pair[:])
	must.Do(t, SendFrame(pair[0], []byte("x"), 0, 1, 2))
	var was unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	free, err := unix.FcntlInt(uintptr(pair[0]), unix.F_DUPFD_CLOEXEC, 0) // the lowest number that is free
	must.Do(t, err)
	must.Do(t, unix.Close(free))
	var filled []int
	few := unix.Rlimit{Cur: uint64(max(free, pair[1])) + 2, Max: was.Max} // one more
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	for {
		fd, err := unix.FcntlInt(uintptr(pair[0]), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			break
		}
		filled = append(filled, fd)
	}
	CloseAll(filled[:1])
	_, fds, err := ReceiveFrame(pair[1])
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	CloseAll(filled[1:])
	CloseAll(fds)
	if err != unix.EMFILE || len(fds) != 1 {
		t.Errorf("%d of 3 descriptors came, and the error is %v", len(fds), err)
	}
}
