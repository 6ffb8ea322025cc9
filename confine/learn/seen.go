package learn

import (
	"time"

	"github.com/confine-run/confine/status"
)

// Wish is what somebody wanted to do with a path.
type Wish string

// The wishes, in the words of who saw them.
const (
	Look    Wish = "look"
	Read    Wish = "read"
	Write   Wish = "write"
	Create  Wish = "create"
	Remove  Wish = "remove"
	Exec    Wish = "exec"
	Connect Wish = "connect"
	List    Wish = "list"
)

// Access is one path that a run named, and what for.
type Access struct {
	Path     string // absolute, as the program meant it; links are not followed
	Wish     Wish
	Comm     string
	Relative bool // named from the current directory on
	// Replaces: by a rename, which takes the place of what is there.
	Replaces bool
	// What was there, as the program saw it. Unknown: nobody could look.
	Exists, IsDir, Unknown bool
	// ReadOnly: it would have been changed, and lay in a tree that was shown read-only.
	ReadOnly bool
	Count    int64
}

// Call is a system call that strict would not have let through.
type Call struct {
	Name    string
	What    string // in words
	Args    [6]uint64
	Comm    string
	Refused bool // by the policy "default", too
}

// Seen is what a run was seen to do.
type Seen struct {
	Command  string   // as for a shell, with secrets left out
	Accesses []Access // in the order of the first of each
	Denied   []Access // what the rules of the run itself refused
	Lost     int64    // accesses that were too many to keep
	Unseen   int64    // accesses that could not be looked at

	Attempts      []status.Attempt
	OtherAttempts int64
	// AllowSaid, DenySaid: words of the run itself narrowed what it could reach.
	AllowSaid, DenySaid bool

	Calls      []Call
	OtherCalls int64

	Usage       status.Usage
	Wall        time.Duration
	Output      int64 // of the stream that had more of it
	Written     int64 // in bytes: to files
	Descriptors int64 // room for so many at one time, in one process; 0: not seen
	// Mapped is what one process had in private mappings, used or not, where the memory limit
	// has a bound on that behind it (RLIMIT_DATA); 0 otherwise.
	Mapped int64

	// Beside is what the profile that this is merged with has already.
	Beside struct {
		Hosts     bool // it names some
		Companion bool
	}

	// Unwritten are directories that are granted, and that it could not write to while it was
	// watched. Make finds them.
	Unwritten []string

	Ended string // how, if not well: "exited with 3"; empty: well
}
