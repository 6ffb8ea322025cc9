//go:build !linux

package jobstest

import "errors"

func mountDisk(string, int64) error { return errors.ErrUnsupported }
