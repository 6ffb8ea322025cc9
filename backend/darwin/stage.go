package darwin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"syscall"

	"github.com/confine-run/confine/backend/internal/task"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/seatbelt"
	"github.com/confine-run/confine/supervisor/outcome"
)

const sandboxExec = "/usr/bin/sandbox-exec" // by this name alone, which the system signs

// What the stage says, a byte each. Behind stageFailed is an errno.
const (
	stageConfirmed = 'c' // it is in the sandbox, which is known by its mark, and the limits hold; the command follows
	stageFailed    = 'f' // and the command can't be executed
	stageLimits    = 'l' // setrlimit
	stageOutside   = 'o' // it is in no sandbox, or in one that isn't known
)

// stageSaid is what became of a command, by all that the stage has said of it; nil: it is executed.
func stageSaid(said []byte, path string) error {
	errno := syscall.EIO
	if len(said) >= 5 {
		errno = syscall.Errno(binary.LittleEndian.Uint32(said[len(said)-4:]))
	}
	switch {
	case len(said) == 0: // what it says is on standard error
		return &outcome.SetupError{Step: "seatbelt", Op: sandboxExec + " has not executed what it was to", Whole: true, Hint: "what it printed says why; confine doctor tries it"}
	case said[0] == stageLimits:
		return task.Setup("limits", "setrlimit", errno)
	case said[0] != stageConfirmed:
		return &outcome.SetupError{Step: "seatbelt", Op: "sandbox_check: the process is in no sandbox that is known as the run's", Whole: true}
	case len(said) > 1:
		return &outcome.ExecError{Path: path, Errno: errno, Step: handoff.StepExecve}
	}
	return nil
}

// RLIMIT_* of macOS.
const (
	rlimitCPU   = 0
	rlimitSize  = 1
	rlimitCore  = 4
	rlimitFiles = 8
)

// rlimits are RESOURCE=LIMIT, for the stage.
func (l *limits) rlimits() string {
	words := []string{fmt.Sprintf("%d=0", rlimitCore)}
	for _, one := range []struct {
		resource int
		limit    int64
	}{{rlimitFiles, l.Descriptors}, {rlimitSize, l.FileSize}, {rlimitCPU, int64(math.Ceil(l.CPU.Seconds())) + 1}} {
		if one.limit > 0 && (one.resource != rlimitCPU || l.CPU > 0) {
			words = append(words, fmt.Sprintf("%d=%d", one.resource, one.limit))
		}
	}
	return strings.Join(words, ",")
}

func errnoOf(err error) syscall.Errno {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return syscall.EIO
}

// find finds a program that the sandbox lets be executed, by its name or its path, as seen from where it starts.
func (p *Plan) find(name, dir string, env []string) (string, error) {
	missing := &outcome.ExecError{Path: name, Errno: syscall.ENOENT, Step: handoff.StepLookup}
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return "", missing
	}
	try := func(at string) error {
		f, err := p.have.Files.Resolve(at)
		switch {
		case err != nil || !p.profile.Allows(f.Path, seatbelt.Exec):
			return syscall.ENOENT
		case !f.Mode.IsRegular():
			return syscall.EACCES
		}
		if f.Mode&0o111 == 0 {
			return syscall.EACCES
		}
		return nil
	}
	if strings.Contains(name, "/") {
		at := name
		if !path.IsAbs(at) {
			at = dir + "/" + name
		}
		switch err := try(at); err {
		case nil:
			return at, nil
		case syscall.ENOENT:
			return "", missing
		default:
			return "", &outcome.ExecError{Path: name, Errno: errnoOf(err), Step: handoff.StepExecve}
		}
	}
	search := ""
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			search = value
		}
	}
	for _, d := range strings.Split(search, ":") {
		if path.IsAbs(d) && try(path.Join(d, name)) == nil {
			return path.Join(d, name), nil
		}
	}
	return "", missing
}
