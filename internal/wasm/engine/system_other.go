//go:build !linux

package engine

import (
	"errors"
	"os"
	"time"
)

// setTimes: there is no call for an open file in all of these systems.
func setTimes(*os.File, time.Time, time.Time) error { return errors.ErrUnsupported }
