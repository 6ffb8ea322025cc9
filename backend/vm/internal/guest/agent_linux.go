package guest

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/process"
	"github.com/confine-run/confine/backend/vm/internal/wire"
)

// agent does what the host says.
type agent struct {
	port   io.Writer
	host   *relayed // nil: there was none to be had
	random int      // /dev/urandom

	mu        sync.Mutex
	to        *wire.Writer
	paused    *paused
	box       backend.Sandbox
	processes map[uint32]*running
	calls     map[uint32]context.CancelFunc
	handles   map[uint32]io.Closer
	last      uint32 // handle
}

// running is a process with its streams.
type running struct {
	process backend.Process // nil: it is being started
	stdin   *wire.Inflow
	out     map[wire.Kind]*wire.Outflow
}

func newAgent(port io.Writer, random int) *agent {
	return &agent{port: port, random: random, to: wire.NewWriter(port), processes: map[uint32]*running{}, calls: map[uint32]context.CancelFunc{}, handles: map[uint32]io.Closer{}}
}

// serve serves the host until there is none.
func (g *agent) serve(port io.Reader) error {
	for {
		f, err := wire.Read(port)
		if err != nil {
			return err
		}
		switch f.Kind {
		case wire.Resume:
			w, err := f.Wake()
			if err != nil {
				return err
			}
			g.resume(f.ID, w)
		case wire.Call:
			var r wire.Request
			if err := f.Message(&r); err != nil {
				return err
			}
			g.call(f.ID, &r)
		case wire.Stdin:
			if p := g.process(f.ID); p != nil && p.stdin != nil {
				if len(f.Data) == 0 {
					p.stdin.Close(nil)
				} else if err := p.stdin.Put(f.Data); err != nil {
					return err
				}
			}
		case wire.Taken:
			var c wire.Credit
			if err := f.Message(&c); err != nil {
				return err
			}
			p := g.process(f.ID)
			if p == nil || p.out[c.Stream] == nil {
				continue // it has ended
			}
			if c.N == 0 {
				p.out[c.Stream].Close(syscall.EPIPE)
			} else if err := p.out[c.Stream].Taken(c.N); err != nil {
				return err
			}
		default:
			return wire.Broken("the host sent a frame of kind %d", f.Kind)
		}
	}
}

func (g *agent) process(id uint32) *running {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.processes[id]
}

// call answers beside others.
func (g *agent) call(id uint32, r *wire.Request) {
	if r.Method == wire.Save {
		go g.save(id, r.Data)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.mu.Lock()
	g.calls[id] = cancel
	to := g.to
	g.mu.Unlock()
	go func() {
		defer func() {
			cancel()
			g.mu.Lock()
			if g.to == to {
				delete(g.calls, id)
			}
			g.mu.Unlock()
		}()
		a, err := g.do(ctx, r)
		if a == nil {
			a = &wire.Answer{}
		}
		a.Err = wire.ErrorOf(err)
		if err := to.SendMessage(wire.Reply, id, a); errors.Is(err, wire.ErrTooLong) {
			_ = to.SendMessage(wire.Reply, id, &wire.Answer{Err: wire.ErrorOf(err)})
		}
	}()
}

func (g *agent) do(ctx context.Context, r *wire.Request) (*wire.Answer, error) {
	switch r.Method {
	case wire.Open:
		return g.open(r.Open)
	case wire.Cancel:
		g.mu.Lock()
		defer g.mu.Unlock()
		if cancel := g.calls[r.To]; cancel != nil {
			cancel()
		}
		return nil, nil
	case wire.Sync:
		unix.Sync()
		return nil, nil
	}
	g.mu.Lock()
	box := g.box
	g.mu.Unlock()
	if box == nil {
		return nil, backend.ErrClosed
	}
	switch r.Method {
	case wire.Start:
		return nil, g.start(box, r)
	case wire.Signal, wire.Resize:
		p := g.process(r.To)
		if p == nil || p.process == nil {
			return nil, os.ErrProcessDone
		}
		if r.Method == wire.Resize && r.Size != nil {
			return nil, p.process.Resize(*r.Size)
		}
		return nil, p.process.Signal(syscall.Signal(r.N))
	case wire.Usage:
		usage := box.Usage
		if r.To != 0 {
			p := g.process(r.To)
			if p == nil || p.process == nil {
				return nil, os.ErrProcessDone
			}
			usage = p.process.Usage
		}
		now, err := usage()
		return &wire.Answer{Usage: &now}, err
	case wire.Close:
		report, err := box.Close()
		unix.Sync()
		return &wire.Answer{Box: report}, err
	}
	return g.files(ctx, box.Files(), r)
}

// open builds the sandbox of the machine, once.
func (g *agent) open(s *wire.Spec) (*wire.Answer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s == nil || g.box != nil {
		return nil, errors.ErrUnsupported
	}
	if s.Network {
		if err := networkUp(); err != nil {
			return nil, err
		}
		for _, port := range s.Local {
			if err := relay(at(loopback, port), at(gateway, port)); err != nil {
				return nil, err
			}
		}
		for _, l := range s.Leads {
			if err := relay(at(address, l.Port), at(loopback, l.To)); err != nil {
				return nil, err
			}
		}
		if len(s.Leads) > 0 { // a server of the command's may have any port, as in a network of its own
			if err := os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0); err != nil {
				return nil, err
			}
		}
	}
	if err := adapt(s); err != nil {
		return nil, err
	}
	box, failed, err := backend.Open(context.Background(), process.Backend{}, &backend.Spec{
		Policy: s.Policy, Argv: s.Argv, Dir: s.Dir, Environ: s.Environ, ConfigFiles: s.ConfigFiles,
	})
	if box == nil {
		return &wire.Answer{Failed: failed}, err
	}
	g.box = box
	return &wire.Answer{Ledger: box.Ledger()}, nil
}

// adapt makes of a policy what the host alone knows.
func adapt(s *wire.Spec) error {
	if s.Start != "" && s.Policy.Filesystem.Chdir == "" {
		s.Policy.Filesystem.Chdir = s.Start
	}
	if _, set := s.Policy.Env.Set["PATH"]; s.Path != "" && !set {
		if s.Policy.Env.Set == nil {
			s.Policy.Env.Set = map[string]string{}
		}
		s.Policy.Env.Set["PATH"] = s.Path
	}
	if s.Calls == nil {
		return nil
	}
	s.Policy.Seccomp = "/dev/shm/own/" + filepath.Base(s.Policy.Seccomp)
	return os.WriteFile(s.Policy.Seccomp, s.Calls, 0o600)
}

// start starts process r.To.
func (g *agent) start(box backend.Sandbox, r *wire.Request) error {
	if r.Exec == nil {
		return errors.ErrUnsupported
	}
	id, x := r.To, r.Exec
	g.mu.Lock()
	to := g.to
	g.mu.Unlock()
	p := &running{out: map[wire.Kind]*wire.Outflow{}}
	e := &backend.Exec{Argv: x.Argv, Env: x.Env, Dir: x.Dir, TTY: x.TTY, Limits: x.Limits}
	stream := func(k wire.Kind) io.Writer {
		p.out[k] = wire.NewOutflow(func(data []byte) error { return to.Send(k, id, data) })
		return p.out[k]
	}
	if x.Stdout {
		e.Stdout = stream(wire.Stdout)
	}
	switch {
	case x.Joined:
		e.Stderr = e.Stdout
	case x.Stderr:
		e.Stderr = stream(wire.Stderr)
	}
	if x.Stdin {
		p.stdin = wire.NewInflow(func(n int) { _ = to.SendMessage(wire.Taken, id, wire.Credit{Stream: wire.Stdin, N: n}) })
		e.Stdin = p.stdin
	}
	e.Tell = func(v backend.Event) { _ = to.SendMessage(wire.Event, id, &v) }
	g.mu.Lock()
	g.processes[id] = p
	g.mu.Unlock()
	started, err := box.Start(context.Background(), e)
	if err != nil {
		g.forget(id, p)
		return err
	}
	g.mu.Lock()
	p.process = started
	g.mu.Unlock()
	go func() {
		report := started.Wait()
		g.forget(id, p)
		if p.stdin != nil {
			p.stdin.Close(nil)
		}
		end := wire.Ended{Report: report, Ending: report.Ending}
		if maps.Equal(report.Enforced, box.Ledger()) {
			report.Enforced = nil
		}
		if errors.Is(to.SendMessage(wire.End, id, &end), wire.ErrTooLong) {
			report.Violations = nil
			_ = to.SendMessage(wire.End, id, &end)
		}
	}()
	return nil
}

func (g *agent) forget(id uint32, p *running) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.processes[id] == p {
		delete(g.processes, id)
	}
}
