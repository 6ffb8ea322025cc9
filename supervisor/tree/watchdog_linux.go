package tree

import (
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// NewWatchdog makes the watchdog of a tree, which is its own from then on
// until Run has returned.
func NewWatchdog(t *Tree, limits Limits) *Watchdog {
	w := &Watchdog{Limits: limits, tree: t, swap: swapUsed, shared: sharedMemory, busy: threadTime, sleeper: promoted}
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

// threadTime is what samples cost. Time on the clock would let a busy host,
// or a target that makes it busy, slow the watchdog down.
func threadTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
