package host

import (
	"errors"
	"syscall"

	"github.com/confine-run/confine/internal/hint"
)

// Answer is what became of one attempt.
type Answer string

const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown" // the attempt broke: nothing is known
)

// Result is the answer of one probe.
type Result struct {
	Name   string `json:"name"`
	Means  string `json:"means"` // what a yes gives
	Answer Answer `json:"answer"`
	Needed bool   `json:"needed"` // by the profile "default", in full

	Version int           `json:"version,omitempty"` // of what has one: the Landlock ABI
	Detail  string        `json:"detail,omitempty"`  // what was tried and what the kernel said
	Errno   syscall.Errno `json:"errno,omitempty"`
	Remedy  string        `json:"remedy,omitempty"` // how to turn the no into a yes; may span lines

	minKernel Kernel
	lacks     string // another probe, whose no this one is
}

// ErrUnsupported is the no in the error of a [Result].
var ErrUnsupported = errors.New("not supported by this host")

// ErrInconclusive is the could-not-tell.
var ErrInconclusive = errors.New("could not be found out")

// Error is an answer other than yes. It is [ErrUnsupported] or
// [ErrInconclusive], and the errno that the kernel gave.
type Error struct{ Result Result }

func (e *Error) Error() string {
	s := e.Result.Name + ": "
	if e.Result.Answer == No {
		s += ErrUnsupported.Error()
	} else {
		s += ErrInconclusive.Error()
	}
	if e.Result.Detail != "" {
		s += ": " + e.Result.Detail
	}
	if !e.Result.minKernel.IsZero() {
		s += " (needs Linux " + e.Result.minKernel.String() + ")"
	}
	return hint.Text(s, e.Result.Remedy)
}

// Remedy turns the no into a yes.
func (e *Error) Remedy() string { return e.Result.Remedy }

// Is tells no from could not tell.
func (e *Error) Is(target error) bool {
	if e.Result.Answer == No {
		return target == ErrUnsupported
	}
	return target == ErrInconclusive
}

// Unwrap gives the errno, so that errors.Is(err, unix.EPERM) holds.
func (e *Error) Unwrap() error {
	if e.Result.Errno == 0 {
		return nil
	}
	return e.Result.Errno
}

// Err is nil for a yes.
func (r Result) Err() error {
	if r.Answer == Yes {
		return nil
	}
	return &Error{r}
}

func errnoOf(err error) (errno syscall.Errno) {
	errors.As(err, &errno)
	return errno
}
