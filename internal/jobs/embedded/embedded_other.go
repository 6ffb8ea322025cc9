//go:build !unix

package embedded

import (
	"context"
	"errors"

	"github.com/confine-run/confine/internal/jobs"
)

// Word is how this program is told to be the process in the background.
const Word = "__embedded"

// Connect is not on this system yet.
func Connect(context.Context) (jobs.Options, error) {
	return jobs.Options{}, errors.ErrUnsupported
}

// Find finds nothing.
func Find() (jobs.Options, bool, error) { return jobs.Options{}, false, nil }

// Serve is not on this system yet.
func Serve(context.Context, func() bool, func(context.Context, jobs.Options, string) error) error {
	return errors.ErrUnsupported
}
