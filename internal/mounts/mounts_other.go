//go:build !linux

package mounts

import (
	"errors"

	"github.com/moby/sys/mountinfo"
)

// Parse is of no use on this system.
func Parse(string) ([]*mountinfo.Info, error) { return nil, errors.ErrUnsupported }
