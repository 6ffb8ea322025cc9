//go:build unix && !linux

package cli

import "errors"

// unnamed is only for Linux.
func (s *sink) unnamed() int { return -1 }

func (s *sink) give(int) error { return errors.ErrUnsupported }
