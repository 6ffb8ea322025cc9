package disk

import (
	"errors"
	"time"
)

// MaxEntries is how many entries trees may have to be walked: about a second of
// of CPU time for a walk, and 8 MiB.
const MaxEntries = 390_000

var (
	errTooBig  = errors.New("the writable trees have too many entries to be walked")
	errStopped = errors.New("stopped")
)

// survey is what one walk found.
type survey struct {
	all   amount // each inode once
	fresh amount // the part of it that was born since the start
	// obscured: something that was changed since the start could not be looked into.
	obscured bool
	cut      bool          // it was enough before the end
	cost     time.Duration // CPU
}

// order is what a walk is asked for.
type order struct {
	stop <-chan struct{} // nil: it is not to be stopped
	// enough ends the walk early, with what was found until then.
	enough func(*survey) bool
}

// level is how much of the file systems is in use.
type level struct {
	amount
	noBytes, noFiles bool // one of them doesn't say
}

// blindTo: something is limited that the file systems say nothing of.
func (l level) blindTo(limits amount) bool {
	return l.noBytes && limits.bytes > 0 || l.noFiles && limits.files > 0
}

// ground is the trees, for the watchdog.
type ground interface {
	walk(order) (survey, error)
	level() (level, error)
}
