package learn

import (
	"strings"
	"sync"
	"time"

	"github.com/confine-run/confine/status"
)

// Op is what a program wanted to do with a path.
type Op string

// The operations, in the words of package files.
const (
	Look    Op = "look"
	Read    Op = "read"
	Write   Op = "write"
	Create  Op = "create"
	Remove  Op = "remove"
	Exec    Op = "exec"
	Connect Op = "connect"
	List    Op = "list"
)

// Access is one path that a run named, and what for.
type Access struct {
	Path     string // absolute, as the program meant it; links are not followed
	Op       Op
	Comm     string
	Relative bool // named from the current directory on
	// Replaces: by a rename, which takes the place of what is there.
	Replaces bool
	// What was there, as the program saw it. Unknown: nobody could look.
	Exists, Unknown bool
	// ReadOnly: it would have been changed, and lay in a tree that was shown read-only.
	ReadOnly bool
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

// most is how many different accesses are kept.
const most = 65_536

// mostDeep is how many parts a name has that is kept: each of them is asked about.
const mostDeep = 256

// mostBytes is how much text they may have together: one name may have 8 KiB.
const mostBytes = 32 << 20

// Recorder keeps accesses while a run goes on, equal ones once.
type Recorder struct {
	mu   sync.Mutex
	seen map[Access]bool // but for who it was; guarded by mu
	list []Access        // guarded by mu
	size int             // of the text in list; guarded by mu
	lost int64           // guarded by mu
}

// Add notes one. It is called by several goroutines, while somebody waits.
func (r *Recorder) Add(a Access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := a
	key.Comm, key.Unknown, key.ReadOnly = "", false, false
	switch {
	case r.seen[key]:
	case len(r.list) >= most || r.size+len(a.Path) > mostBytes || strings.Count(a.Path, "/") > mostDeep:
		r.lost++
	default:
		if r.seen == nil {
			r.seen = make(map[Access]bool)
		}
		r.seen[key] = true
		r.size += len(a.Path)
		r.list = append(r.list, a)
	}
}

// Accesses are those that were kept, and how many were not.
func (r *Recorder) Accesses() (list []Access, lost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list, r.lost
}
