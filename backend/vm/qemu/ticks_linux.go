package qemu

import (
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// An emulated CPU counts time as the host's does. The kernel of a guest finds out how fast that is by a device of QEMU's, of which a busy host makes
// anything: a guest was seen whose clock was eight times too fast for its first seconds. So it is told, by what the counter did while the kernel was unpacked.

// moment is one of the host's.
type moment struct {
	ticks uint64
	clock int64 // CLOCK_MONOTONIC_RAW, in nanoseconds
}

// shortest is how long it has to be between two moments that tell a frequency: what a moment is off by is some microseconds at most.
const shortest = 50 * time.Millisecond

// momentNow is the one of some that was least disturbed.
func momentNow() (m moment) {
	least := int64(-1)
	for range 5 {
		before, count, after := rawClock(), ticks(), rawClock()
		if took := after - before; least < 0 || took < least {
			least, m = took, moment{count, before + took/2}
		}
	}
	return m
}

func rawClock() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &ts)
	return ts.Nano()
}

// kilohertz is the frequency of the counter between two moments; 0: they don't tell.
func kilohertz(from, to moment) uint64 {
	took := to.clock - from.clock
	if took < int64(shortest) || to.ticks <= from.ticks {
		return 0
	}
	if f := float64(to.ticks-from.ticks) / float64(took) * 1e6; f > 1e5 && f < 1e7 {
		return uint64(f + 0.5)
	}
	return 0
}

// told has the command line of a kernel tell it that frequency, if there is one.
func told(argv []string, frequency uint64) []string {
	n := slices.Index(argv, "-append") + 1
	if frequency == 0 || n == 0 || n == len(argv) {
		return argv
	}
	argv = slices.Clone(argv)
	argv[n] = "tsc_early_khz=" + strconv.FormatUint(frequency, 10) + " " + argv[n]
	return argv
}
