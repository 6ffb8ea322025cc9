package tree

import (
	"time"

	"golang.org/x/sys/unix"
)

// NewWatchdog makes the watchdog of a tree, which is its own from then on
// until Run has returned.
func NewWatchdog(t *Tree, limits Limits) *Watchdog {
	w := &Watchdog{Limits: limits, tree: t, swap: swapUsed, busy: threadTime}
	if limits.Tasks > 0 {
		w.sleeper = promoted
	}
	return w
}

// swapUsed: some memory on this host is swapped out, maybe the target's.
func swapUsed() bool {
	var info unix.Sysinfo_t
	return unix.Sysinfo(&info) != nil || info.Freeswap < info.Totalswap
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
