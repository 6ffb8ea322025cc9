package tree

import (
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// NewWatchdog makes the watchdog of a tree, which is its own from then on
// until Run has returned.
func NewWatchdog(t *Tree, limits Limits) *Watchdog {
	w := &Watchdog{Limits: limits, tree: t, host: host{swap: swapUsed, shared: sharedMemory, busy: linux.ThreadTime, sleeper: realtimeSleeper}}
	if limits.Memory > 0 {
		w.walks.shared = w.shared() // before the target has any
	}
	return w
}

// swapUsed: some memory on this host is swapped out, maybe the target's.
func swapUsed() bool {
	var info unix.Sysinfo_t
	return unix.Sysinfo(&info) != nil || info.Freeswap < info.Totalswap
}

// sharedMemory is all shared memory of the host, and all that is swapped out,
// which may be such. Files of tmpfs and memfds are in it.
func sharedMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil || info.Sharedram == 0 { // or not told at all
		return -1
	}
	pages := uint64(info.Sharedram) + uint64(info.Totalswap-info.Freeswap)
	// Each CPU may keep so many pages to itself before the sum learns of them.
	drift := uint64(runtime.NumCPU()) * 125 * uint64(os.Getpagesize())
	return int64(min(pages*uint64(max(info.Unit, 1))+drift, maxInt))
}

// timerSlack is the kernel's own: by how much later a sleep may end, so that others end with it.
const timerSlack = 50 * time.Microsecond

// Sleeper makes what others who look at a tree sleep with: it is false when stop is closed. done gives the thread back.
func Sleeper(stop <-chan struct{}) (sleep func(time.Duration) bool, done func()) {
	return realtimeSleeper(stop)
}

// realtimeSleeper sleeps in the kernel, on a thread that comes before all others
// where the caller may have one (CAP_SYS_NICE). A fork bomb of a thousand
// processes leaves an ordinary thread a thousandth of a core, with seconds
// between its turns; a timer of the runtime would wait for ordinary threads as
// well. Where the caller may not, the thread asks for a short slice instead.
func realtimeSleeper(stop <-chan struct{}) (sleep func(time.Duration) bool, done func()) {
	var pipe [2]int
	if unix.Pipe2(pipe[:], unix.O_CLOEXEC) != nil {
		return timerSleeper(stop)
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
