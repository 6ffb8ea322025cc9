package sandboxes

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/confine/confinetest"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// heavy is a backend whose sandboxes and processes say when nobody has them any more.
type heavy struct {
	confinetest.Backend
	kept atomic.Int64
}

type heavyBox struct {
	backend.Sandbox
	of *heavy
}

type heavyProcess struct{ backend.Process }

func keptBy[T any](h *heavy, v *T) *T {
	h.kept.Add(1)
	runtime.AddCleanup(v, func(int) { h.kept.Add(-1) }, 0)
	return v
}

func (h *heavy) Build(ctx context.Context, p backend.Plan) (backend.Sandbox, error) {
	box, err := h.Backend.Build(ctx, p)
	if err != nil {
		return nil, err
	}
	return keptBy(h, &heavyBox{box, h}), nil
}

func (b *heavyBox) Start(ctx context.Context, e *backend.Exec) (backend.Process, error) {
	p, err := b.Sandbox.Start(ctx, e)
	if err != nil {
		return nil, err
	}
	return keptBy(b.of, &heavyProcess{p}), nil
}

// A tombstone has what is told of it, and nothing of what the sandbox and its processes were.
func TestATombstoneKeepsNothingOfTheSandbox(t *testing.T) {
	h := &heavy{Backend: confinetest.Backend{Handle: play}}
	m := newManager(t, Options{Backend: func(*config.Policy) backend.Backend { return h }})
	var all []*Sandbox
	for range 5 {
		r := request()
		r.Env = []string{"A=b"}
		s := create(t, m, r)
		p := start(t, s, nil, "echo", "x")
		<-p.Done
		ledger := s.Ledger()
		s.Close(CauseClosed, "asked")
		if s.Ledger()[status.Filesystem] != ledger[status.Filesystem] || s.Ended().Report == nil || p.Report() == nil {
			t.Errorf("%+v", s.Ended())
		}
		all = append(all, s)
	}
	for until := time.Now().Add(20 * time.Second); h.kept.Load() > 0 && time.Now().Before(until); time.Sleep(time.Millisecond) {
		runtime.GC()
	}
	if n := h.kept.Load(); n > 0 {
		t.Errorf("%d sandboxes and processes are kept by %d tombstones", n, len(all))
	}
	runtime.KeepAlive(all)
}

// Who comes too late is told so, whatever was wanted.
func TestATombstoneDoesNothing(t *testing.T) {
	m := newManager(t, Options{})
	s := create(t, m, request())
	p := start(t, s, nil, "sleep")
	s.Close(CauseClosed, "asked")
	ctx := t.Context()
	_, usage := s.Usage()
	_, file := s.Files().Stat("/")
	_, list := s.Files().List("/")
	_, fork := m.Fork(ctx, s, 1, Request{})
	_, again := s.Start(&Exec{Exec: backend.Exec{Argv: []string{"echo"}}}, nil)
	_, departs := LeavingOf(s).Depart(ctx)
	for what, err := range map[string]error{
		"usage": usage, "stat": file, "list": list, "fork": fork, "start": again, "departure": departs, "mkdir": s.Files().Mkdir("/a", fs.ModePerm),
		"network": s.Network(ctx, func(p *config.Policy) (*config.Network, error) { return &p.Network, nil }),
	} {
		if !errors.Is(err, backend.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, used := p.Usage()
	for what, err := range map[string]error{"signal": p.Signal(os.Kill), "resize": p.Resize(backend.WinSize{}), "usage": used} {
		if !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s of a process: %v", what, err)
		}
	}
	must.Do(t, ctx.Err())
}
