package wire

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// Version is the protocol's.
const Version = 3

// Greeting is what the guest says first.
type Greeting struct {
	Version int
	Release string `json:",omitempty"` // of its kernel
	Failed  string `json:",omitempty"` // why it can't go on
}

// The methods of calls.
const (
	Open    = "open"   // the sandbox in the guest
	Start   = "start"  // a process, whose number is To
	Signal  = "signal" // N
	Resize  = "resize" //
	Usage   = "usage"  // of process To, or of all if that is 0
	Sync    = "sync"   // writes are on the host
	Close   = "close"  // the sandbox
	Cancel  = "cancel" // the call of number To
	Save    = "save"   // be ready to be written down: nothing is said after the answer
	FOpen   = "open file"
	FCreate = "create file"
	FRead   = "read" // of handle To
	FWrite  = "write"
	FClose  = "close file"
	FStat   = "stat"
	FLstat  = "lstat"
	FLink   = "readlink"
	FList   = "list"
	FMkdir  = "mkdir"
	FSym    = "symlink"
	FChmod  = "chmod"
	FRename = "rename"
	FRemove = "remove"
	FWatch  = "watch"
	FNext   = "next"
)

// Request is a call. Which fields count, its method says.
type Request struct {
	Method string
	To     uint32           `json:",omitempty"`
	Open   *Spec            `json:",omitempty"`
	Exec   *Exec            `json:",omitempty"`
	N      int              `json:",omitempty"`
	Size   *backend.WinSize `json:",omitempty"`
	Name   string           `json:",omitempty"`
	Target string           `json:",omitempty"`
	Perm   fs.FileMode      `json:",omitempty"`
	Deep   bool             `json:",omitempty"`
	Data   []byte           `json:",omitempty"`
}

// Spec is as much of a backend.Spec as the guest needs.
type Spec struct {
	Policy        *config.Policy
	Argv, Environ []string
	Dir           string
	ConfigFiles   []string
	Network       bool  // it has a card
	Local         []int // ports of its loopback that lead to the caller's
	Leads         []Lead
	Calls         []byte `json:",omitempty"` // the file that the policy names for system calls
	Start, Path   string // where a command begins whose root is a tree that says so, and its PATH
}

// Lead is a port of the card's address that leads to one of the loopback.
type Lead struct{ Port, To int }

// Exec is a backend.Exec without its streams.
type Exec struct {
	Argv, Env             []string
	Dir                   string
	Stdin, Stdout, Stderr bool // there is one
	Joined                bool // what is for Stderr goes to Stdout
	TTY                   *backend.WinSize
	Limits                backend.Limits
}

// Answer is the answer to a call.
type Answer struct {
	Err    *Error              `json:",omitempty"`
	Failed *status.Report      `json:",omitempty"` // of a sandbox that could not be built
	Ledger status.Ledger       `json:",omitempty"`
	Usage  *backend.Usage      `json:",omitempty"`
	Box    *status.BoxReport   `json:",omitempty"`
	Handle uint32              `json:",omitempty"`
	Data   []byte              `json:",omitempty"`
	N      int                 `json:",omitempty"`
	Name   string              `json:",omitempty"`
	Info   *Info               `json:",omitempty"`
	List   []Entry             `json:",omitempty"`
	Events []backend.FileEvent `json:",omitempty"`
}

// Ended is how a process ended. A report without a ledger has that of the sandbox.
type Ended struct {
	Report *status.Report
	Ending status.Ending
}

// Credit says how much of a stream was taken. 0: nobody reads it any more.
type Credit struct {
	Stream Kind
	N      int
}

// Entry is one of a directory.
type Entry struct {
	Name string
	Type fs.FileMode
}

// Info is an fs.FileInfo.
type Info struct {
	Base     string
	Bytes    int64
	Bits     fs.FileMode
	Time     time.Time
	UID, GID uint32
}

// InfoOf is what is told of a file.
func InfoOf(f fs.FileInfo) *Info {
	i := &Info{Base: f.Name(), Bytes: f.Size(), Bits: f.Mode(), Time: f.ModTime()}
	if st, ok := f.Sys().(*syscall.Stat_t); ok {
		i.UID, i.GID = st.Uid, st.Gid
	}
	return i
}

// Name is its base name.
func (i *Info) Name() string { return i.Base }

// Size is its length.
func (i *Info) Size() int64 { return i.Bytes }

// Mode is its type and permissions.
func (i *Info) Mode() fs.FileMode { return i.Bits }

// ModTime is when it was written.
func (i *Info) ModTime() time.Time { return i.Time }

// IsDir says whether it is a directory.
func (i *Info) IsDir() bool { return i.Bits.IsDir() }

// Sys has the owner.
func (i *Info) Sys() any { return &syscall.Stat_t{Uid: i.UID, Gid: i.GID} }

// Error is an error that means on the other side what it meant on this one.
type Error struct {
	Text     string
	Is       string `json:",omitempty"` // one of those of known, or below
	Op, Path string `json:",omitempty"` // of an fs.PathError
	Errno    int    `json:",omitempty"`
	Hint     string `json:",omitempty"`
}

var known = map[string]error{
	"eof": io.EOF, "closed": backend.ErrClosed, "done": os.ErrProcessDone, "unsupported": errors.ErrUnsupported, "file closed": fs.ErrClosed,
}

// ErrorOf is what is told of an error; nil of none.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	e := &Error{Text: err.Error()}
	var usage *config.UsageError
	var dir *backend.DirError
	var path *fs.PathError
	var link *os.LinkError
	var errno syscall.Errno
	switch {
	case errors.As(err, &usage):
		e.Is, e.Text, e.Hint = "usage", usage.Msg, usage.Hint
	case errors.As(err, &dir):
		e.Is, e.Path = "dir", dir.Dir
	case errors.As(err, &path):
		e.Is, e.Op, e.Path = "path", path.Op, path.Path
	case errors.As(err, &link):
		e.Is, e.Op, e.Path = "path", link.Op, link.Old
	}
	if errors.As(err, &errno) {
		e.Errno = int(errno)
	}
	for word, is := range known {
		if e.Is == "" && errors.Is(err, is) {
			e.Is = word
		}
	}
	return e
}

// Err is the error.
func (e *Error) Err() error {
	if e == nil {
		return nil
	}
	cause := errors.New(e.Text)
	if e.Errno > 0 && e.Errno < 4096 {
		cause = syscall.Errno(e.Errno)
	}
	switch e.Is {
	case "usage":
		return &config.UsageError{Msg: e.Text, Hint: e.Hint}
	case "dir":
		return &backend.DirError{Dir: e.Path, Err: cause}
	case "path":
		return &fs.PathError{Op: e.Op, Path: e.Path, Err: cause}
	}
	if is, ok := known[e.Is]; ok {
		return is
	}
	return cause
}
