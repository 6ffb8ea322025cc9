package watch

import "time"

// Now is what is used at a moment. -1 is what nobody counts.
type Now struct {
	CPU                    time.Duration // of all of its life
	Memory, Tasks, Scratch int64
}
