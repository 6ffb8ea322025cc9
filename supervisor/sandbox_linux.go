package supervisor

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/cgroup"
	"github.com/confine-run/confine/supervisor/denials"
	"github.com/confine-run/confine/supervisor/files"
)

// Sandbox is a box that stands, for processes one after another or at once. What one of them leaves behind, files
// and other processes, is there for the next. Its methods may be called from any goroutine.
type Sandbox struct {
	box   *box
	ended chan struct{} // closed when nothing of it is left
	next  uint32        // the ID of the next job; the loop's
	left  *SetupError
}

// Build carries out the part of a plan that is about the box. Cancelling ctx ends the sandbox with everybody in it, at
// any time.
func (p *Prepared) Build(ctx context.Context, pl *plan.Plan, group *cgroup.Group) (*Sandbox, *SetupError) {
	b := newBox(pl, p.child, group, p.opts)
	failed := p.err
	if failed == nil {
		failed = b.begin(nil)
	}
	if failed != nil {
		b.abandon()
		return nil, failed
	}
	s := &Sandbox{box: b, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		b.loop(ctx)
		s.left = b.close()
		b.tidy()
	}()
	select {
	case <-b.open:
		return s, nil
	case <-s.ended:
		failed := b.failed
		if failed == nil {
			failed = &SetupError{Step: "init", Op: "it ended without a word"}
		}
		return nil, failed
	}
}

// Process is one in a sandbox.
type Process struct{ job *job }

// Start starts a process. Of a plan e is the part that is about it; its ID and Last are not looked at. judge and refuses
// are as for [Prepared.Run]. nil: the sandbox has ended.
func (s *Sandbox) Start(e *handoff.Exec, o Options, judge denials.Judge, refuses files.Judge) (*Process, *SetupError) {
	exec := *e
	exec.Last, exec.Modes = false, o.Terminal.Modes()
	io, err := openStreams(exec.TTY, &o)
	if err != nil {
		return nil, &SetupError{Step: "streams", Op: "pipe", Errno: errnoOf(err)}
	}
	j := newJob(s.box, &exec, &o, io)
	j.judge, j.refuses = judge, refuses
	failed := make(chan *SetupError, 1)
	begun := s.box.do(func() {
		s.next++
		exec.ID = s.next
		s.box.jobs[exec.ID] = j
		j.built()
		if err := j.send(); err != nil {
			delete(s.box.jobs, exec.ID)
			failed <- &SetupError{Step: "start", Op: "sendmsg", Errno: errnoOf(err)}
			return
		}
		failed <- nil
	})
	why := &SetupError{Step: "start", Op: "the sandbox has ended"}
	if begun {
		why = <-failed
	}
	if why != nil {
		io.end(0)
		return nil, why
	}
	j.heedSignals()
	return &Process{j}, nil
}

// Signal sends a signal to a process and its process group.
func (p *Process) Signal(n unix.Signal) { p.job.do(func() { p.job.signal(n) }) }

// Kill ends a process at once.
func (p *Process) Kill() {
	p.job.do(func() { p.job.kill(status.CauseCaller, "killed by the caller") })
}

// Wait waits for the end of a process, until the caller's side has what it wrote, and gives its report. It is to be
// called once. Cancelling ctx shortens the patience with whoever reads.
func (p *Process) Wait(ctx context.Context) *status.Report {
	j := p.job
	<-j.gone
	j.settle()
	j.deliver(ctx)
	j.out.left = j.io.readerLeft()
	return j.report()
}

// Close ends the sandbox and everybody in it, and waits until nothing of it is left.
func (s *Sandbox) Close() *SetupError {
	s.box.do(func() { s.box.child.close() })
	<-s.ended
	return s.left
}
