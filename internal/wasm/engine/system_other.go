//go:build !linux

package engine

import (
	"errors"
	"os"
	"time"
)

// ofKernel: no file system is the kernel's own where modules may be run.
func ofKernel(*os.File) bool { return false }

// setTimes: there is no call for an open file in all of these systems.
func setTimes(*os.File, time.Time, time.Time) error { return errors.ErrUnsupported }
