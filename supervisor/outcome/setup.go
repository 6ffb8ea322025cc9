package outcome

import (
	"strings"
	"syscall"

	"github.com/confine-run/confine/status"
)

// SetupError is a sandbox that could not be built: which step, which call, on
// what, and the errno that the kernel gave, on either side of the hand-off.
// errors.Is(err, unix.EPERM) holds where that was it.
type SetupError struct {
	Step  string
	Op    string
	Path  string
	Errno syscall.Errno
	Hint  string

	Whole bool // Op says the errno, too
}

func (e *SetupError) Error() string {
	var b strings.Builder
	b.WriteString(e.Step + ": " + e.Op)
	if e.Path != "" {
		b.WriteString(` "` + e.Path + `"`)
	}
	if e.Errno != 0 && !e.Whole {
		b.WriteString(": " + e.Errno.Error())
	}
	return b.String()
}

// Unwrap gives the errno.
func (e *SetupError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// Report is its form in a report.
func (e *SetupError) Report() *status.SetupError {
	return &status.SetupError{
		Step: e.Step, Op: e.Op, Path: e.Path, Errno: int(e.Errno), Error: e.Error(), Hint: e.Hint,
	}
}
