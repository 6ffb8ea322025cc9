package tree

import (
	"errors"
	"time"
)

// ErrUnsettled says that processes were still appearing, or still running,
// after as many passes as are made.
var ErrUnsettled = errors.New("the process tree did not come to rest")

// Limits are what a run is held to. Zero means no limit.
type Limits struct {
	CPU        time.Duration // user and system time of the whole tree
	Memory     int64         // bytes of the whole tree, as Sample.Memory counts them
	Tasks      int64         // threads that are alive
	CPUPercent int           // of one core, by stopping and continuing
}

// Usage is what a tree used so far.
type Usage struct {
	CPU, User, System time.Duration
	Unreaped          time.Duration // the part of CPU that PID 1 can't know of: see Sample

	// Memory and MemoryPeak are in bytes, as Sample.Memory counts them. Without a
	// limit of memory nobody looks for memfds, and they are left out.
	Memory, MemoryPeak int64
	Tasks, TasksPeak   int64 // zombies left out
	Throttled          time.Duration

	// Estimated: at the peak of memory, RSS stood in for the PSS of some process.
	Estimated bool
}
