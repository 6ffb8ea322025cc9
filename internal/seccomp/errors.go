package seccomp

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/confine-run/confine/internal/hint"
)

// ArchError is an architecture without a system call table. There is no filter
// for it.
type ArchError struct{ Arch string }

func (e *ArchError) Error() string {
	return fmt.Sprintf("seccomp: no system call table for architecture %q (there are amd64 and arm64)", e.Arch)
}

// Is makes errors.Is(err, errors.ErrUnsupported) hold.
func (e *ArchError) Is(target error) bool { return target == errors.ErrUnsupported }

// PolicyError is a mistake in a policy file. Line and Column start at 1; they
// are 0 where the mistake is in no particular place.
type PolicyError struct {
	File         string
	Line, Column int
	Msg          string
	Hint         string
}

func (e *PolicyError) Error() string {
	s := e.File
	if e.Line > 0 {
		s += ":" + strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Column)
	}
	return hint.Text(s+": "+e.Msg, e.Hint)
}

// Remedy is Hint, for who has it as an error.
func (e *PolicyError) Remedy() string { return e.Hint }

// SizeError is a policy whose program the kernel would not take.
type SizeError struct{ Instructions int }

func (e *SizeError) Error() string {
	return fmt.Sprintf("seccomp: the policy compiles to %d instructions, the kernel takes %d", e.Instructions, maxInstructions)
}
