// Package backend is the seam between what is wanted and who does it. A policy and the facts of its caller are a
// [Spec]; a [Backend] plans it, builds a [Sandbox] of it, and starts processes in that. Programs don't import it:
// package confine does, and picks a backend by the name of the isolation that a policy asks for.
//
// Every backend passes the suite of package conformance.
package backend

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/status"
)

// Backend builds sandboxes. Its methods may be called from any goroutine.
type Backend interface {
	// Name is in every report: "linux-process", "mock".
	Name() string
	// Plan computes what will be done, and changes nothing. A *config.UsageError is about the policy; a
	// *config.Unenforceable comes with the plan that would not give what the policy insists on.
	Plan(ctx context.Context, s *Spec) (Plan, error)
	// Build does everything but start a process. The sandbox ends with ctx. Where the host refuses what was planned,
	// and the policy allows less, there is less: the ledgers of the sandbox and of its processes say so. A sandbox
	// that can't be built is a *BuildError.
	Build(ctx context.Context, p Plan) (Sandbox, error)
}

// Opener is a backend that plans a sandbox and builds it faster in one go.
type Opener interface {
	// Open is [Open] of this backend.
	Open(ctx context.Context, s *Spec) (Sandbox, *status.Report, error)
}

// Runner is a backend that builds a sandbox and starts its only process faster in one go.
type Runner interface {
	// Run starts the process. What Wait of it gives is about the sandbox too, which has ended then.
	Run(ctx context.Context, s *Spec, e *Exec) (Process, error)
}

// Keeper is a backend whose snapshots stay, in a directory.
type Keeper interface {
	// Kept is the snapshot of that ID in a directory of them. One that isn't there is fs.ErrNotExist.
	Kept(dir, id string) (Snapshot, error)
}

// Prover is a sandbox that shows that it waits for work.
type Prover interface {
	// Ready waits for that, and is an error where there is none.
	Ready(ctx context.Context) error
}

// Spec is what a sandbox is to be, on any system.
type Spec struct {
	Policy *config.Policy
	// PolicyDigest is Policy's, where somebody has made it already; else empty. Whoever sets another Policy sets it, too.
	PolicyDigest string
	// Resolved says who said what of the policy, for answers; nil: nobody remembers.
	Resolved *config.Resolved
	// Argv is the command whose tool chain is to be visible; empty: none is known yet.
	Argv []string
	// Dir is the caller's current directory, Environ its environment, of which the policy passes some.
	Dir     string
	Environ []string
	// ConfigFiles are policy files in use; they are never writable inside.
	ConfigFiles []string
	// Shape is for a sandbox with a Rootfs.
	Shape Shape
	// Ceiling is what the sandbox may show no more of the caller's files than, and CeilingDir, canonical, what Dir has to be in unless that is
	// "/", which stands for none. What is wider is a *config.CeilingError. Who sets it has compared the rest ([config.Policy.Wider]).
	// nil: what the policy says counts.
	Ceiling    *config.Policy
	CeilingDir string
	// From is what its files are at first; nil: as the policy shows them.
	From Snapshot
	// Snapshots is the directory that its snapshots are kept in; empty: as long as this process lives, and no longer.
	Snapshots string
}

// Shape is what a sandbox with a Rootfs is inside, beside what its policy says.
type Shape struct {
	Hostname string // what it calls its host; empty: as any
	Sealed   bool   // nothing can be written to what the Rootfs shows
	// Masked and ReadOnly are names below /proc, beside those that are hidden and read-only in every sandbox.
	Masked, ReadOnly []string
}

// Plan is what will be done for a Spec.
type Plan interface {
	// Ledger says what will be enforced, and by what, where the host gives what it seems to.
	Ledger() status.Ledger
	// Key is the same for plans whose sandboxes are.
	Key() [32]byte
	// Ask answers a question about what is allowed.
	Ask(q config.Ask) (config.Answer, error)
}

// KeyOf is the key of a plan that is all of this.
func KeyOf(parts ...any) [32]byte {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err) // plain data
	}
	return sha256.Sum256(text)
}

// Sandbox is built, and holds processes: one after another or at once. What one leaves behind, files and other
// processes, is there for the next. Its methods may be called from any goroutine.
type Sandbox interface {
	// Start starts a process. Cancelling ctx kills it. A directory that it can't start in is a *DirError.
	Start(ctx context.Context, e *Exec) (Process, error)
	// Ledger says what it was built to enforce, and by what.
	Ledger() status.Ledger
	// Files are those that processes inside see.
	Files() Files
	// Usage is what everybody inside uses now, and has used.
	Usage() (Usage, error)
	// Changes says what was changed in trees of which the caller has overlays. keep, if not empty, is a directory of kept runs, where
	// that is then found by the RunID.
	Changes(ctx context.Context, keep string) (*status.Changes, error)
	// Network changes whom the processes inside may reach from now on. Connections that it doesn't allow any more end.
	Network(ctx context.Context, n *config.Network) error
	// Snapshot writes the sandbox down, Restore makes it what it was then, and Fork makes another that is as this one is now;
	// errors.ErrUnsupported where that can't be had. What a backend can't write down, it ends.
	Snapshot(ctx context.Context) (Snapshot, error)
	Restore(ctx context.Context, s Snapshot) error
	Fork(ctx context.Context) (Sandbox, error)
	// Done is closed when it has ended, by Close or by itself: by its context, a limit of its own, or a fault.
	Done() <-chan struct{}
	// Close ends everybody inside, and waits until nothing is left. A second one gives the same.
	Close() (*status.BoxReport, error)
}

// Shelver is a sandbox that was built before anybody knew where its snapshots are to be kept.
type Shelver interface {
	// ShelveIn is Spec.Snapshots. It comes before the first snapshot.
	ShelveIn(dir string)
}

// As finds what else a sandbox can do, itself or the one that it wraps, as its method Unwrap says.
func As[T any](s Sandbox) (t T, ok bool) {
	for {
		if t, ok = s.(T); ok {
			return t, true
		}
		w, is := s.(interface{ Unwrap() Sandbox })
		if !is {
			return t, false
		}
		s = w.Unwrap()
	}
}

// Mover is a sandbox whose snapshots have its processes in them, so that it can go on elsewhere.
type Mover interface {
	// Depart writes it down, and leaves it standing still until back is called or it is closed. back may be nil with an error.
	Depart(ctx context.Context) (s Snapshot, back func() error, err error)
}

// Teller is a sandbox that tells what happens to it and to no process of its own of which that is known. The function must
// not wait; the one that is set last is told.
type Teller interface{ Tell(func(Event)) }

// Seer is a sandbox that sees what goes over its network.
type Seer interface {
	// Traffic is what was reached and refused until now; nil: it sees nothing.
	Traffic() *status.Traffic
}

// Snapshot is a sandbox written down.
type Snapshot interface {
	ID() string
	// Close lets go of it. One that is kept in a directory stays there.
	Close() error
}

// Usage is what a sandbox or a process uses at a moment. -1 is what nobody counts.
type Usage struct {
	CPU     time.Duration `json:"cpu"`    // of all of its life
	Memory  int64         `json:"memory"` // bytes
	Tasks   int64         `json:"tasks"`
	Scratch int64         `json:"scratch"` // bytes of files in private places and overlays
}

// Exec is a process to be started.
type Exec struct {
	Argv []string
	// Env is K=V, beside what the policy passes, and before it.
	Env []string
	// Dir is where it starts, as seen inside; empty: where the policy says.
	Dir string
	// Stdin: nil is the null device; an *os.File is read by the sandbox itself. Stdout, Stderr: nil drops what is written;
	// what is the same for both is written to by one goroutine at a time.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TTY, if not nil, puts all three streams on a terminal of this size. Its output goes to Stdout.
	TTY *WinSize
	// Limits narrow the sandbox's own.
	Limits Limits
	// Tell, if not nil, is told what happens when it does, one at a time. It must not wait.
	Tell func(Event)
}

// Event is something that happens to a process that goes on. One field is set.
type Event struct {
	Denied *status.Violation
	Limit  status.Capability
}

// WinSize is the size of a terminal, in characters.
type WinSize struct{ Rows, Cols uint16 }

// Limits are those of one process. 0: the sandbox's.
type Limits struct {
	Time   time.Duration // wall clock
	CPU    time.Duration // CPU time, of it and those below it
	Output int64         // bytes per stream
}

// Process is one in a sandbox.
type Process interface {
	// Signal sends a signal to the process and its process group; os.Kill ends it at once. What has ended is os.ErrProcessDone.
	Signal(sig os.Signal) error
	// Resize changes the size of its terminal.
	Resize(size WinSize) error
	// Usage is what it, and those it started, use now: nothing as long as it is being started.
	Usage() (Usage, error)
	// Wait waits until it has ended and its output was delivered. It may be called again.
	Wait() *status.Report
}

// Stopper is a process that can be stopped in the manner of a command line: asked to end by this signal, and killed after the
// grace period, or by a second one.
type Stopper interface{ Stop(sig syscall.Signal) }

// Shower is a plan that says in words what of the file system appears how, where a process starts, and what the user is to know.
type Shower interface {
	Rules() []config.PathRule
	Dir() string
	Notices() []hint.Notice
}

// Files are those of a sandbox, under absolute names as seen inside. Symbolic links lead nowhere else. What the
// processes inside can't write isn't written here either.
type Files interface {
	// Open reads; Create writes a file anew. Neither opens what is no regular file.
	Open(name string) (io.ReadCloser, error)
	Create(name string, perm fs.FileMode) (io.WriteCloser, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Readlink(name string) (string, error)
	List(name string) ([]fs.DirEntry, error)
	Mkdir(name string, perm fs.FileMode) error
	Symlink(target, name string) error
	Chmod(name string, perm fs.FileMode) error // of a file or a directory, through links
	Rename(from, to string) error
	Remove(name string) error // a file or an empty directory
	// Watch tells what happens in a directory; deep: in all below it, too.
	Watch(name string, deep bool) (Watcher, error)
}

// Watcher tells what happens to files.
type Watcher interface {
	// Next waits for more, until ctx ends. io.EOF: the directory is gone.
	Next(ctx context.Context) (events []FileEvent, err error)
	Close() error
}

// FileEvent is something that happened to a file.
type FileEvent struct {
	Op   FileOp `json:"op"`
	Name string `json:"name"` // relative to the directory that is watched
}

// FileOp is what happened.
type FileOp string

// What happens to files. A file that is moved is renamed away, and created where it comes to be.
const (
	FileCreated FileOp = "create"
	FileWritten FileOp = "write"
	FileRemoved FileOp = "remove"
	FileRenamed FileOp = "rename"
	FileChmod   FileOp = "chmod"
	FileLost    FileOp = "lost" // some events were too many to be told
)

// ErrClosed is the answer of a sandbox that has ended.
var ErrClosed = errors.New("the sandbox has ended")

// ErrUnstopped: what has to stand still for a moment doesn't.
var ErrUnstopped = errors.New("the processes inside can't be stopped for a moment")

// BuildError is a sandbox that could not be built. Its report is that of a run that could not start.
type BuildError struct{ Report *status.Report }

func (e *BuildError) Error() string { return e.Report.Reason }
