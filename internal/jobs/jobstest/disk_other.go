//go:build !linux

package jobstest

import "errors"

// MountDisk is not on this system.
func MountDisk(string, int64) error { return errors.ErrUnsupported }
