package backend

import (
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"syscall"

	"github.com/confine-run/confine/internal/config"
)

// Check says why a process can't be started at all, whatever the sandbox.
func (e *Exec) Check(ctx context.Context) error {
	if len(e.Argv) == 0 {
		return &config.UsageError{Msg: "no command given"}
	}
	if err := e.Limits.Check(); err != nil {
		return err
	}
	return ctx.Err()
}

// Check says why they can't be had.
func (l *Limits) Check() error {
	if l.Time < 0 || l.CPU < 0 || l.Output < 0 {
		return &config.UsageError{Msg: "a limit is less than nothing"}
	}
	return nil
}

// Narrower is the smaller of two limits; 0 is none.
func Narrower[T ~int64](a, b T) T {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// SameWriter says whether two writers are one, as package os/exec has it.
func SameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && a == b
}

// SignalOf is a signal that there is.
func SignalOf(sig os.Signal) (syscall.Signal, error) {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	if n < 1 || n > 64 {
		return 0, syscall.EINVAL
	}
	return n, nil
}
