package outputs

import (
	"errors"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/config"
)

// A Sink is where a report or events go: a file or an inherited descriptor.
//
// It is made before the target starts and written while, or after, it runs. The
// file may lie in a directory that the target can write, so nothing that the
// target does to names may matter:
//
//   - the directory is opened once, through no link that an earlier run may have left,
//     and every later step starts from that descriptor: moving or replacing a directory
//     above changes nothing;
//   - a report has no name at all while the target runs. Afterwards it is written to a new
//     file, without a name where the file system knows that (O_TMPFILE), which is linked to
//     the final name, or renamed over it. Renaming replaces what stands there, and neither
//     follows a link that the target has put there, or a hard link to another file;
//   - events are written through the one descriptor that was opened, without
//     following links, before the target started. At the end the name must still
//     lead to that file, and the file must be as long as what was written.
//
// The target can still take the directory's permissions away, fill the disk or
// put a directory of the same name in the way. Then there is no report, and
// confine says so and doesn't end with 0; there is never a forged one.
type Sink struct {
	option string // "--report"
	spec   string
	fd     int    // an inherited descriptor, or the events file; -1: none
	dir    int    // descriptor of the directory; -1: none
	base   string // name in it
	size   int64  // written so far
	owned  bool   // fd was opened here
}

// errChanged is a file that is not as confine left it.
var errChanged = errors.New("changed by somebody else while the command ran")

// RealDir says where the name of a directory leads. What it gives is opened without following
// links: those that were followed are the caller's own, and none in a tree of work.
type RealDir func(name string) (string, error)

// IsFile says whether it is no descriptor of the caller's.
func (s *Sink) IsFile() bool { return s.dir >= 0 }

// parseFD reads the N of "fd:N".
func parseFD(option, spec string) (n int, isFD bool, err error) {
	digits, isFD := strings.CutPrefix(spec, "fd:")
	if !isFD {
		return 0, false, nil
	}
	v, perr := strconv.ParseUint(digits, 10, 31)
	if perr != nil || strconv.FormatUint(v, 10) != digits {
		return 0, true, &config.UsageError{
			Msg:  option + " " + strconv.Quote(spec) + ": not the number of a descriptor",
			Hint: "write fd:3, and open it as in: confine " + option + " fd:3 -- COMMAND 3>file",
		}
	}
	return int(v), true, nil
}

// splitPlace cuts a path into the directory and the name in it.
func splitPlace(option, path string) (dir, base string, err error) {
	i := strings.LastIndexByte(path, '/')
	dir, base = path[:i+1], path[i+1:]
	if dir == "" {
		dir = "."
	}
	switch {
	case path == "":
		return "", "", &config.UsageError{Msg: option + ": the name of the file is empty"}
	case base == "-":
		return "", "", &config.UsageError{Msg: option + " -: no such place", Hint: option + " fd:1 writes to stdout"}
	case base == "" || base == "." || base == "..":
		return "", "", &config.UsageError{Msg: option + " " + strconv.Quote(path) + ": is a directory", Hint: "name a file in it"}
	case strings.IndexByte(path, 0) >= 0:
		return "", "", &config.UsageError{Msg: option + " " + strconv.Quote(path) + ": has a NUL byte in it"}
	}
	return dir, base, nil
}

// refuse is a place that can't be written to.
func (s *Sink) refuse(why, hint string, err error) error {
	msg := s.option + " " + strconv.Quote(s.spec) + ": " + why
	if err != nil {
		msg += ": " + err.Error()
	}
	return &config.UsageError{Msg: msg, Hint: hint, Err: err}
}
