package tree

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is the kernel's own: by how much later a sleep may end, so that others end with it.
const timerSlack = 50 * time.Microsecond

// promoted sleeps in the kernel, on a thread that comes before all others
// where the caller may have one (CAP_SYS_NICE). A fork bomb of a thousand
// processes leaves an ordinary thread a thousandth of a core, with seconds
// between its turns; a timer of the runtime would wait for ordinary threads as
// well. Where the caller may not, the thread asks for a short slice instead.
func promoted(stop <-chan struct{}) (sleep func(time.Duration) bool, done func()) {
	var pipe [2]int
	if unix.Pipe2(pipe[:], unix.O_CLOEXEC) != nil {
		return onTimer(stop)
	}
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0) // whichever thread of the runtime's it is
	was, err := unix.SchedGetAttr(0, 0)
	if err == nil {
		err = unix.SchedSetAttr(0, &unix.SchedAttr{
			Size:     unix.SizeofSchedAttr,
			Policy:   unix.SCHED_RR,
			Flags:    unix.SCHED_FLAG_RESET_ON_FORK,
			Priority: 1,
		}, 0)
	}
	if err != nil {
		// A short slice brings its turn sooner, and takes no privilege (Linux 6.12;
		// older kernels ignore it).
		err = unix.SchedSetAttr(0, &unix.SchedAttr{
			Size:    unix.SizeofSchedAttr,
			Policy:  unix.SCHED_NORMAL,
			Flags:   unix.SCHED_FLAG_RESET_ON_FORK,
			Runtime: uint64(100 * time.Microsecond),
		}, 0)
	}
	over := make(chan struct{})
	go func() {
		select {
		case <-stop:
		case <-over:
		}
		unix.Close(pipe[1]) // wakes the poll
	}()
	return func(d time.Duration) bool {
			timeout := unix.NsecToTimespec(int64(d))
			n, e := unix.Ppoll([]unix.PollFd{{Fd: int32(pipe[0])}}, &timeout, nil)
			return n == 0 || e == unix.EINTR
		}, func() {
			close(over)
			unix.Close(pipe[0])
			// A thread that can't be put back ends with its goroutine, locked.
			if err != nil || unix.SchedSetAttr(0, was, 0) == nil {
				runtime.UnlockOSThread()
			}
		}
}
