package jobs

import (
	"time"

	"golang.org/x/sys/unix"
)

// boottime is a clock that nobody sets, and that goes on while the machine sleeps.
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // there is one since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}
