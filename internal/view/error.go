package view

import (
	"errors"
	"strconv"

	"github.com/confine-run/confine/internal/hint"
)

// Error is a policy that can't be turned into a table. All are errors of usage:
// nothing has started.
type Error struct {
	Option string // "--allow-read", …; empty when no option is to blame
	Path   string // as given
	Err    error
	Hint   string // the remedy; may be empty
}

func (e *Error) Error() string {
	s := e.Err.Error()
	if e.Path != "" {
		s = strconv.Quote(e.Path) + ": " + s
	}
	if e.Option != "" {
		s = e.Option + " " + s
	}
	return hint.Text(s, e.Hint)
}

// Remedy is Hint, for who has it as an error.
func (e *Error) Remedy() string { return e.Hint }

func (e *Error) Unwrap() error { return e.Err }

// Errors that are about the policy and not about what the kernel said.
var (
	ErrTooBroad   = errors.New("too broad to be shown")
	ErrNotVisible = errors.New("not visible inside")
	ErrNoTarget   = errors.New("mount points are not made in the caller's tree")
	ErrReserved   = errors.New("has a private one inside")
	ErrConflict   = errors.New("contradicts --virtual-fs")
	ErrOtherRoot  = errors.New("contradicts --rootfs")
	ErrTwice      = errors.New("is an overlay twice")
	ErrInvalid    = errors.New("not valid")
	ErrLimit      = errors.New("too many files to search")
	ErrSlow       = errors.New("too slow to search")
	// ErrThroughLink is a name that a symbolic link would lead elsewhere.
	ErrThroughLink = errors.New("leads through a symbolic link")
)
