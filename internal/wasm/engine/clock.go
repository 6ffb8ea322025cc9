package engine

import (
	"math/rand/v2"
	"time"

	"github.com/tetratelabs/wazero/sys"
)

// A deterministic clock begins at the same time in each run, and moves on by so much whenever it is read, and by what is slept, which
// takes no time.
const (
	began      = 1_000_000_000 // seconds: 2001-09-09T01:46:40Z
	resolution = sys.ClockResolution(time.Microsecond)
)

type clock struct{ ns int64 }

func (c *clock) nano() int64 {
	c.ns += int64(time.Microsecond)
	return c.ns
}

func (c *clock) wall() (sec int64, nsec int32) {
	now := c.nano()
	return began + now/int64(time.Second), int32(now % int64(time.Second))
}

func (c *clock) sleep(ns int64) { c.ns += max(ns, 0) }

// newNumbers are the same random numbers in each run.
func newNumbers() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{}) }
