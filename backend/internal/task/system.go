package task

import (
	"os"
	"syscall"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/outcome"
)

// System is what a sandbox is made of on one system.
type System interface {
	// Start starts a process, with these streams. An error is an *outcome.ExecError, which is the command's own fault, or an
	// *outcome.SetupError.
	Start(x *Start) (Target, error)
	// Files are those that processes inside see.
	Files() backend.Files
	// Usage is what everybody inside uses; Used is the same in the words of a report.
	Usage() (backend.Usage, error)
	Used() status.Usage
	// Kill ends everybody inside. Nobody is started any more.
	Kill()
	// Changes are those of overlays; nil: there are none.
	Changes() *status.Changes
	// Close removes what there is of the sandbox, when nobody is in it, and tells what came to be at protected paths.
	Close() ([]status.Violation, error)
}

// Seer is a System that sees what its processes reach, and refuses some of it.
type Seer interface {
	// Traffic is what was reached and refused until now; nil: it sees nothing.
	Traffic() *status.Traffic
	// Refused is how often something was refused until now.
	Refused() int64
}

// Start is a process that is to be started.
type Start struct {
	Exec *backend.Exec
	// Streams are the target's own ends, until it has them; with a terminal they are nil, and Keys and Screen are the other ends of
	// its terminal.
	Streams      [3]*os.File
	Keys, Screen *os.File
}

// Target is a process that was started.
type Target interface {
	// Signal sends one to it, or does what stands for it.
	Signal(n syscall.Signal) error
	// Kill ends it and those that it started, at once.
	Kill()
	// Wait waits until it has ended.
	Wait() outcome.Ended
	// Hang closes its terminal, when it has ended; without one it does nothing.
	Hang()
	Resize(size backend.WinSize) error
	// Usage is what it and those that it started use; Used is the same in the words of a report.
	Usage() (backend.Usage, error)
	Used() status.Usage
}
