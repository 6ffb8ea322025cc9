//go:build !linux

package jobs

import "time"

var start = time.Now()

// boottime is a clock that nobody sets. Nothing runs here that would have to end while the machine sleeps.
func boottime() time.Duration { return time.Since(start) }
