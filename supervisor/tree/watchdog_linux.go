package tree

import "golang.org/x/sys/unix"

// NewWatchdog makes the watchdog of a tree, which is its own from then on
// until Run has returned.
func NewWatchdog(t *Tree) *Watchdog {
	return &Watchdog{tree: t, swap: swapUsed}
}

// swapUsed: some memory on this host is swapped out, maybe the target's.
func swapUsed() bool {
	var info unix.Sysinfo_t
	return unix.Sysinfo(&info) != nil || info.Freeswap < info.Totalswap
}
