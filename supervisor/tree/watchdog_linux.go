package tree

import "golang.org/x/sys/unix"

// NewWatchdog makes the watchdog of a tree, which is its own from then on
// until Run has returned.
func NewWatchdog(t *Tree, limits Limits) *Watchdog {
	w := &Watchdog{Limits: limits, tree: t, swap: swapUsed}
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
