package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/vm/internal/wire"
)

// patience is how long a guest may take to answer. Emulated and on a busy host it is slow.
const patience = time.Minute

// conn is the host's end of what is said to a guest. The first fault, of either side, ends it for all.
type conn struct {
	to    *wire.Writer
	hello chan wire.Greeting
	dead  chan struct{} // closed with err set
	fault func()        // ends the machine
	still atomic.Bool   // it stands still, for as long as somebody likes
	held  atomic.Bool   // it is being written down: its clock doesn't go

	mu        sync.Mutex
	err       error
	greeted   bool
	last      uint32
	pending   map[uint32]chan *wire.Answer
	processes map[uint32]*task
}

// newConn begins to listen. fault is called once, when the guest broke the protocol or is gone.
func newConn(from io.Reader, to io.Writer, fault func()) *conn {
	c := &conn{
		to: wire.NewWriter(to), hello: make(chan wire.Greeting, 1), dead: make(chan struct{}), fault: fault,
		pending: map[uint32]chan *wire.Answer{}, processes: map[uint32]*task{},
	}
	go c.listen(from)
	return c
}

func (c *conn) listen(from io.Reader) {
	for {
		f, err := wire.Read(from)
		if err == nil {
			err = c.heard(&f)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// errStill is the answer of a machine that is about to go on elsewhere.
var errStill = errors.New("the machine stands still")

// errGone is the end of a guest of which nobody knows why.
var errGone = errors.New("the machine ended")

// fail is the end: everybody who waits hears of it.
func (c *conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	if errors.Is(err, wire.ErrProtocol) {
		err = fmt.Errorf("the guest %w", err)
	} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errGone
	}
	c.err = err
	processes := c.processes
	c.processes = map[uint32]*task{}
	c.mu.Unlock()
	close(c.dead)
	go c.fault()
	for _, p := range processes {
		p.broken(err)
	}
}

// why is why it is dead; nil: it isn't.
func (c *conn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// closed is the error of whoever asks one that is dead, or is about to be, and says why it is.
func (c *conn) closed() error {
	if why := c.why(); why != nil && !errors.Is(why, backend.ErrClosed) {
		return fmt.Errorf("%w: %w", backend.ErrClosed, why)
	}
	return backend.ErrClosed
}

// heard takes what the guest says, which has to be asked for.
func (c *conn) heard(f *wire.Frame) error {
	if f.Kind == wire.Hello {
		var g wire.Greeting
		if err := f.Message(&g); err != nil {
			return err
		}
		c.mu.Lock()
		again := c.greeted
		c.greeted = true
		c.mu.Unlock()
		if again || f.ID != 0 || g.Version != wire.Version {
			return wire.Broken("a greeting that is none")
		}
		c.hello <- g
		return nil
	}
	if f.Kind == wire.Reply || f.Kind == wire.Resumed {
		c.mu.Lock()
		to := c.pending[f.ID]
		delete(c.pending, f.ID)
		c.mu.Unlock()
		if to == nil {
			return wire.Broken("an answer that nobody asked for")
		}
		a := &wire.Answer{Data: f.Data}
		if f.Kind == wire.Reply {
			a.Data = nil
			if err := f.Message(a); err != nil {
				return err // who waits hears that it is dead
			}
		}
		to <- a
		return nil
	}
	c.mu.Lock()
	p := c.processes[f.ID]
	c.mu.Unlock()
	if p == nil {
		return wire.Broken("a frame of kind %d about a process that there isn't", f.Kind)
	}
	if err := p.heard(f); err != nil {
		return err // of which it hears, since it is still there
	}
	if f.Kind == wire.End {
		c.mu.Lock()
		delete(c.processes, f.ID)
		c.mu.Unlock()
	}
	return nil
}

// call asks, and waits. A guest that doesn't answer in time is ended.
func (c *conn) call(ctx context.Context, r *wire.Request) (*wire.Answer, error) {
	return c.ask(ctx, r, patience)
}

// ask with a limit of 0 waits for as long as ctx does.
func (c *conn) ask(ctx context.Context, r *wire.Request, limit time.Duration) (*wire.Answer, error) {
	if c.still.Load() {
		return nil, errStill
	}
	id, answered, err := c.pend()
	if err != nil {
		return nil, err
	}
	var timer *time.Timer
	var late <-chan time.Time
	if limit > 0 {
		timer = time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	sent := make(chan error, 1)
	go func() { sent <- c.to.SendMessage(wire.Call, id, r) }() // which waits for a guest that doesn't read
	for {
		select {
		case err := <-sent:
			if err != nil {
				c.mu.Lock()
				delete(c.pending, id)
				c.mu.Unlock()
				if errors.Is(err, wire.ErrTooLong) {
					return nil, err
				}
				return nil, c.closed()
			}
			sent = nil
		case a := <-answered:
			return a, a.Err.Err()
		case <-c.dead:
			return nil, c.closed()
		case <-late:
			if c.held.Load() {
				timer.Reset(limit)
				continue
			}
			c.fail(fmt.Errorf("the guest didn't answer for %v", limit))
		case <-ctx.Done():
			if limit == 0 {
				_, _ = c.call(context.Background(), &wire.Request{Method: wire.Cancel, To: id})
			}
			return nil, ctx.Err() // the answer is still taken
		}
	}
}

// wake has it go on as another one than it was, and gives the number that it knows.
func (c *conn) wake(ctx context.Context, w *wire.Wake) ([]byte, error) {
	id, answered, err := c.pend()
	if err != nil {
		return nil, err
	}
	if err := c.to.Send(wire.Resume, id, w.Data()); err != nil {
		return nil, c.closed()
	}
	a, err := c.wait(ctx, answered)
	if err != nil {
		return nil, err
	}
	return a.Data, nil
}

// hold has the guest be ready to be written down. Nothing is said to it, or by it, until resume.
func (c *conn) hold(ctx context.Context, nonce []byte) (*wire.Held, error) {
	id, answered, err := c.pend()
	if err != nil {
		return nil, err
	}
	held, err := c.to.Hold(wire.Call, id, &wire.Request{Method: wire.Save, Data: nonce})
	if err != nil {
		return nil, c.closed()
	}
	if _, err := c.wait(ctx, answered); err != nil {
		if ctx.Err() != nil { // what it is by now, nobody knows
			c.fail(errors.New("the guest wasn't waited for while it was written down"))
		}
		held.Release()
		return nil, err
	}
	c.held.Store(true)
	return held, nil
}

// resume has it go on as what it was.
func (c *conn) resume(held *wire.Held) error {
	c.held.Store(false)
	id, answered, err := c.pend()
	if err != nil {
		held.Release()
		return err
	}
	if err := held.Resume(id, &wire.Wake{}); err != nil {
		return c.closed()
	}
	_, err = c.wait(context.Background(), answered)
	return err
}

// pend has an answer waited for.
func (c *conn) pend() (uint32, chan *wire.Answer, error) {
	answered := make(chan *wire.Answer, 1)
	if c.why() != nil {
		return 0, nil, c.closed()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.pending[c.last] = answered
	return c.last, answered, nil
}

func (c *conn) wait(ctx context.Context, answered chan *wire.Answer) (*wire.Answer, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case a := <-answered:
			return a, a.Err.Err()
		case <-c.dead:
			return nil, c.closed()
		case <-late.C:
			c.fail(fmt.Errorf("the guest didn't answer for %v", patience))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
