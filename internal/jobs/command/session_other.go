//go:build !linux

package command

import (
	"context"
	"errors"
	"fmt"
)

const sessionUsage = "confine session: not supported yet on this system\n"

func sessions(context.Context, []string) (int, error) {
	return 0, fmt.Errorf("sessions of a queue: %w", errors.ErrUnsupported)
}
