package supervisor

import (
	"os"
	"time"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/denials"
	"github.com/confine-run/confine/supervisor/files"
	"github.com/confine-run/confine/supervisor/internal/watch"
	"github.com/confine-run/confine/supervisor/output"
	"github.com/confine-run/confine/supervisor/terminal"
)

// Options are what a run needs to know of its caller.
type Options struct {
	// Stdin, Stdout and Stderr are the caller's descriptors; -1 is none.
	Stdin, Stdout, Stderr int
	// OpenStdout and OpenStderr, if not nil, give the descriptor when there is something to be written to it, which may be
	// never. They are called at most once, from any goroutine.
	OpenStdout, OpenStderr func() (fd int, err error)
	// Limits are this process's own, narrower than the plan's; 0: none.
	Limits struct {
		Time   time.Duration
		CPU    time.Duration // of one process of many
		Output int64
	}
	Events
	Learning
	// Capture keeps what passes, for the report, and relays it nowhere.
	Capture bool
	// Guards know where a line on the caller's terminal begins; nil is none.
	OutGuard, ErrGuard output.Guard
	// Terminal is the caller's, when the target gets a pty; nil is none.
	Terminal *terminal.Terminal
	// Resizer, if not nil, is given what changes the size of the pty, where no terminal of the caller's does.
	Resizer func(resize func(rows, cols uint16) error)
	// Alone: this process starts no children but the run's. Where there is no pid
	// namespace, and it has none from before, it then ends those whose guard was killed.
	Alone bool
	// Signals are to be passed on. SIGTSTP stops the run and this process instead, until SIGCONT.
	Signals <-chan os.Signal
	// Watching, if not nil, is called when the target runs, with what tells the time
	// since its start and the memory that its tree uses; stop when it has ended.
	Watching func(elapsed func() time.Duration, memory func() int64) (stop func())
	// Stopping, if not nil, is called when confine or its caller ends the run: from then on its
	// output waits for its reader for a short time only. It may be called again, and must not wait.
	Stopping func()
	// Astray, if not nil, is told at the end that the target failed, has no network, and
	// that so many packets or connections were meant for one.
	Astray func(n int)
	// Last, if not nil, is told at the end what the target wrote last to standard error, or to
	// a pty. It is the target's text, and says what that likes.
	Last func(text []byte)
	// Undelivered, if not nil, is called at the end for "stdout" and "stderr" when the
	// caller's did not take what the target wrote, or that could not be read. That
	// nobody reads any more is not worth a word: the target has seen it.
	Undelivered func(stream string, err error)
}

// Events are told while the run goes on.
type Events struct {
	// Notify, if not nil, has the caller's signals sent to Signals when it returns, before the target starts. It may be called again, also meanwhile.
	Notify func()
	// Gone, if not nil, is called when a process in a sandbox has ended, for whoever makes its report. It must not wait.
	Gone func()
	// Told, if not nil, is given at the end what the target has told by a descriptor of its own (handoff.TellsVar), which may be
	// nothing. It may be called again with nothing.
	Told func(text []byte)
	// Started is called when the target runs.
	Started func()
	// Attempt, if not nil, is called for each kind of attempt to reach something, when it
	// is made for the first time: with what is known then, one at a time.
	Attempt func(status.Attempt)
	// Denied, if not nil, is called for each kind of system call that the filter denies and
	// tells, the first time. It must not wait for anybody: more calls wait behind it.
	Denied func(status.Violation)
	// LimitHit, if not nil, is called when a limit is seen to be reached, the first time or
	// again, from any goroutine. What only the end shows is in the report alone.
	LimitHit func(status.Capability)
	// Usage, if not nil, is called once a second with what the tree uses. It must not wait.
	Usage func(status.Load)
	// Record, if not nil, is told of phases, samples and processes: see the kinds of events of records. It is called from
	// several goroutines.
	Record func(status.Event)
	// Using, if not nil, is given what tells what everybody inside uses, when the target runs.
	Using func(now func() (Now, error))
}

// Learning is what somebody asks for who makes a policy of what a run does.
type Learning struct {
	// Accesses, if not nil, is told of each path that a call names, where the plan watches
	// files: while the caller waits, from several goroutines.
	Accesses files.Observer
	// Unseen, if not nil, is told at the end of a watched run how many accesses could not be
	// seen, or that nothing could be (err).
	Unseen func(n int64, err error)
	// Passed, if not nil, is told at the end which calls were let through that the filter
	// wanted told, and how many of further kinds.
	Passed func(all []denials.Denial, others int64)
	// Peaks, if not nil, is told at the end of a watched run what single processes had.
	Peaks func(files.Peaks)
}

func (o *Options) gone() {
	if o.Gone != nil {
		o.Gone()
	}
}

// phase tells a record that a part of the start is done.
func (o *Options) phase(name status.PhaseName) {
	if o.Record != nil {
		o.Record(status.Event{Event: status.EventPhase, Phase: &status.Phase{Name: name}})
	}
}

// Now is what is used at a moment. -1 is what nobody counts.
type Now = watch.Now
