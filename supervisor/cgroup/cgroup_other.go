//go:build !linux

package cgroup

import (
	"syscall"
	"time"
)

// Group is the cgroup of one run. There are none on this system.
type Group struct{}

var unsupported = &Error{Kind: Unsupported, Op: "cgroup", Errno: syscall.ENOSYS, Why: "there are no cgroups on this system"}

// Make gives an *Error.
func Make(Options) (*Group, error) { return nil, unsupported }

// Look gives no source.
func Look(string) Offer { return Offer{Err: unsupported} }

// Source is none.
func (*Group) Source() Source { return "" }

// Version is none.
func (*Group) Version() int { return 0 }

// Path is none.
func (*Group) Path() string { return "" }

// Paths are none.
func (*Group) Paths() []string { return nil }

// Holds no limit.
func (*Group) Holds(Controller) (mechanism string, ok bool) { return "", false }

// WhyNot is that there are no cgroups.
func (*Group) WhyNot(Controller) error { return unsupported }

// Join gives nothing to join by.
func (*Group) Join() (dir int, procs []int) { return -1, nil }

// Stat knows nothing.
func (*Group) Stat() Stat { return Stat{} }

// CPUTime is not known.
func (*Group) CPUTime() (time.Duration, bool) { return 0, false }

// KilledForMemory is never so.
func (*Group) KilledForMemory() bool { return false }

// OOM gives nothing ever.
func (*Group) OOM() <-chan struct{} { return nil }

// Kill fails.
func (*Group) Kill() error { return unsupported }

// Freeze fails.
func (*Group) Freeze() error { return unsupported }

// Thaw fails.
func (*Group) Thaw() error { return unsupported }

// Remove fails.
func (*Group) Remove() error { return unsupported }
