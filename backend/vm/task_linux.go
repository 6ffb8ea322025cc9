package vm

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/vm/internal/wire"
	"github.com/confine-run/confine/status"
)

const (
	// slack is by how much the guest may be later than the clock of the host, which then ends the machine; and breath is by how much if it says nothing at all.
	slack  = 15 * time.Second
	breath = 3 * time.Second
	// marker is at most what the guest writes after what an output limit cuts.
	marker = 1 << 10
	// maxEvents is how much one process may tell.
	maxEvents = 16384
)

// task is a process in the guest.
type task struct {
	box  *sandbox
	at   *machine // in which it is
	id   uint32
	exec *backend.Exec
	in   map[wire.Kind]*wire.Inflow // what the guest sends
	out  *wire.Outflow              // its standard input
	got  map[wire.Kind]int64        // of output; only the listener has it

	limit int64 // of output, of each stream

	delivering sync.WaitGroup
	events     int
	timer      *time.Timer
	unhook     func() bool

	mu     sync.Mutex
	killed status.Cause // by this side
	guest  *wire.Ended
	fault  error
	ended  chan struct{} // closed when guest or fault is set
	over   sync.Once
	report func() *status.Report
}

func (s *sandbox) Start(ctx context.Context, e *backend.Exec) (backend.Process, error) {
	if err := e.Check(ctx); err != nil {
		return nil, err
	}
	m := s.now()
	p := &task{box: s, at: m, exec: e, in: map[wire.Kind]*wire.Inflow{}, got: map[wire.Kind]int64{}, limit: backend.Narrower(s.asked().Policy.OutputLimit, e.Limits.Output), ended: make(chan struct{})}
	p.report = sync.OnceValue(p.wait)
	x := &wire.Exec{
		Argv: e.Argv, Env: e.Env, Dir: e.Dir, TTY: e.TTY, Limits: e.Limits,
		Stdin: e.Stdin != nil, Stdout: e.Stdout != nil, Joined: backend.SameWriter(e.Stdout, e.Stderr),
	}
	x.Stderr = e.Stderr != nil && !x.Joined
	m.conn.mu.Lock()
	m.processes++
	p.id = m.processes
	if m.conn.err == nil {
		m.conn.processes[p.id] = p
	}
	m.conn.mu.Unlock()
	p.out = wire.NewOutflow(func(data []byte) error { return m.conn.to.Send(wire.Stdin, p.id, data) })
	for k, to := range map[wire.Kind]io.Writer{wire.Stdout: e.Stdout, wire.Stderr: e.Stderr} {
		if to == nil || k == wire.Stderr && x.Joined {
			continue
		}
		p.in[k] = wire.NewInflow(func(n int) { _ = m.conn.to.SendMessage(wire.Taken, p.id, wire.Credit{Stream: k, N: n}) })
		p.delivering.Go(func() { p.deliver(k, to) })
	}
	if _, err := m.conn.call(ctx, &wire.Request{Method: wire.Start, To: p.id, Exec: x}); err != nil {
		if ctx.Err() != nil { // it may run by now
			go p.kill(status.CauseContext)
			err = ctx.Err()
		}
		m.conn.mu.Lock()
		if ctx.Err() == nil {
			delete(m.conn.processes, p.id)
		}
		m.conn.mu.Unlock()
		p.end(nil, err)
		return nil, err
	}
	if limit := backend.Narrower(s.asked().Policy.TimeLimit, e.Limits.Time); limit > 0 {
		p.timer = time.AfterFunc(limit+s.asked().Policy.Grace, p.overdue)
	}
	p.unhook = context.AfterFunc(ctx, func() { p.kill(status.CauseContext) })
	if e.Stdin != nil {
		go p.feed(e.Stdin)
	}
	go func() { // the next may come
		<-p.ended
		if p.timer != nil {
			p.timer.Stop()
		}
		p.unhook()
		p.last()
	}()
	return p, nil
}

// last has the sandbox end with a process with which that in the guest has ended, as it does where the kernel kills all that is in it.
func (p *task) last() {
	p.mu.Lock()
	guest := p.guest
	p.mu.Unlock()
	if guest == nil || guest.Report.Status == status.OK || guest.Report.Status == status.Failed {
		return
	}
	_, err := p.at.conn.call(context.Background(), &wire.Request{Method: wire.Usage})
	if s := p.box; errors.Is(err, backend.ErrClosed) && p.at.conn.why() == nil && s.now() == p.at {
		s.ended.Do(func() { close(s.over) })
	}
}

// overdue asks a machine with a process that it should have ended whether it is still there.
func (p *task) overdue() {
	ctx, cancel := context.WithTimeout(context.Background(), breath)
	defer cancel()
	if _, err := p.at.conn.call(ctx, &wire.Request{Method: wire.Usage}); ctx.Err() != nil && err != nil {
		p.late()
		return
	}
	select {
	case <-p.ended:
	case <-time.After(slack):
		p.late()
	}
}

// late ends a machine with a process that it should have ended, unless its clock stands.
func (p *task) late() {
	select {
	case <-p.ended:
		return
	default:
	}
	if p.at.conn.held.Load() {
		time.AfterFunc(slack, p.late)
		return
	}
	p.at.conn.fail(errLate)
}

// errLate is a process that the guest should have ended.
var errLate = errors.New("the guest didn't end a process at its time limit")

// feed sends what there is for standard input.
func (p *task) feed(from io.Reader) {
	_, err := io.Copy(p.out, struct{ io.Reader }{from})
	if err == nil {
		_ = p.at.conn.to.Send(wire.Stdin, p.id, nil)
	}
}

// deliver writes what comes to where it belongs. When nobody reads it any more the process hears of it, by SIGPIPE.
func (p *task) deliver(k wire.Kind, to io.Writer) {
	if _, err := io.Copy(struct{ io.Writer }{to}, p.in[k]); err != nil {
		_ = p.at.conn.to.SendMessage(wire.Taken, p.id, wire.Credit{Stream: k})
		_, _ = io.Copy(io.Discard, p.in[k])
	}
}

// heard takes what the guest says about it. It is called by the listener alone.
func (p *task) heard(f *wire.Frame) error {
	switch f.Kind {
	case wire.Stdout, wire.Stderr:
		in := p.in[f.Kind]
		if in == nil {
			return wire.Broken("output that nobody reads")
		}
		if p.got[f.Kind] += int64(len(f.Data)); p.limit > 0 && p.got[f.Kind] > p.limit+marker {
			return wire.Broken("more output than the limit")
		}
		return in.Put(f.Data)
	case wire.Taken:
		var c wire.Credit
		if err := f.Message(&c); err != nil {
			return err
		}
		if c.Stream != wire.Stdin {
			return wire.Broken("it took of stream %d", c.Stream)
		}
		return p.out.Taken(c.N)
	case wire.Event:
		var e backend.Event
		if err := f.Message(&e); err != nil {
			return err
		}
		if p.events++; p.events > maxEvents {
			return wire.Broken("%d events of one process", p.events)
		}
		if p.exec.Tell != nil && (e.Denied != nil || e.Limit != "") {
			p.exec.Tell(e)
		}
		return nil
	case wire.End:
		end := &wire.Ended{}
		if err := f.Message(end); err != nil {
			return err
		}
		if err := plausible(end.Report); err != nil {
			return err
		}
		p.end(end, nil)
		return nil
	}
	return wire.Broken("a frame of kind %d", f.Kind)
}

// broken is the end of the machine.
func (p *task) broken(err error) { p.end(nil, err) }

// end is the end of the process: the guest's word, or a fault.
func (p *task) end(guest *wire.Ended, fault error) {
	p.over.Do(func() {
		p.mu.Lock()
		p.guest, p.fault = guest, fault
		p.mu.Unlock()
		for _, in := range p.in {
			in.Close(nil)
		}
		p.out.Close(os.ErrProcessDone)
		close(p.ended)
	})
}

func (p *task) Wait() *status.Report { return p.report() }

func (p *task) wait() *status.Report {
	<-p.ended
	p.delivering.Wait()
	p.mu.Lock()
	guest, fault, killed := p.guest, p.fault, p.killed
	p.mu.Unlock()
	if guest == nil {
		return p.box.broke(p.at, fault, killed, p.exec)
	}
	r := guest.Report
	r.Ending = guest.Ending
	if killed == status.CauseContext && r.Status == status.KilledKill {
		r.Cause, r.Reason = killed, "cancelled by the caller"
	}
	if r.Enforced == nil {
		r.Enforced = guestOf(p.box)
	}
	r.Enforced = p.box.merged(p.at, r.Enforced)
	return p.box.complete(r, p.exec.Argv)
}

// kill ends it, or, when the guest doesn't, the machine.
func (p *task) kill(cause status.Cause) {
	p.mu.Lock()
	if p.killed == "" {
		p.killed = cause
	}
	p.mu.Unlock()
	for {
		_, _ = p.at.conn.call(context.Background(), &wire.Request{Method: wire.Signal, To: p.id, N: int(unix.SIGKILL)})
		select {
		case <-p.ended:
			return
		case <-time.After(patience): // as long as for an answer: on a busy host an emulated guest took more than the slack of a time limit
		}
		if !p.at.conn.held.Load() { // else its clock stands, and it hears of it later
			p.at.conn.fail(errors.New("the guest didn't end a process that was killed"))
			return
		}
	}
}

func (p *task) Signal(sig os.Signal) error {
	n, err := backend.SignalOf(sig)
	if err != nil {
		return err
	}
	select {
	case <-p.ended:
		return os.ErrProcessDone
	default:
	}
	if n == unix.SIGKILL {
		go p.kill(status.CauseSignal)
		return nil
	}
	return p.answer(&wire.Request{Method: wire.Signal, To: p.id, N: int(n)})
}

// answer calls, and takes a guest that has ended for a process that has.
func (p *task) answer(r *wire.Request) error {
	_, err := p.at.conn.call(context.Background(), r)
	if errors.Is(err, backend.ErrClosed) {
		return os.ErrProcessDone
	}
	return err
}

func (p *task) Resize(size backend.WinSize) error {
	return p.answer(&wire.Request{Method: wire.Resize, To: p.id, Size: &size})
}

func (p *task) Usage() (backend.Usage, error) {
	select {
	case <-p.ended:
		return backend.Usage{}, os.ErrProcessDone
	default:
	}
	a, err := p.at.conn.call(context.Background(), &wire.Request{Method: wire.Usage, To: p.id})
	if errors.Is(err, backend.ErrClosed) {
		err = os.ErrProcessDone
	}
	return usageOf(a, err)
}

func usageOf(a *wire.Answer, err error) (backend.Usage, error) {
	if err != nil {
		return backend.Usage{}, err
	}
	if a.Usage == nil {
		return backend.Usage{}, errors.ErrUnsupported
	}
	return *a.Usage, nil
}
