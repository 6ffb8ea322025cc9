package terminal

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/confine-run/confine/supervisor/output"
)

// Prefix stands before every line of ours that isn't JSON, so that nothing that a
// command prints need be taken for it.
const Prefix = "[confine] "

const (
	// erase removes the status line.
	erase = "\r\x1b[K"
	// calm is how long a terminal must have been silent for a status line to appear.
	calm = 500 * time.Millisecond
	// stuck is how long a line of ours waits for a write of the target's to end, and, once it has
	// to hurry, for its own.
	stuck = time.Second
)

// Console is stderr, shared by the target's output and confine's own lines.
type Console struct {
	turn     chan struct{} // a mutex that can be waited for with a limit
	write    func([]byte)
	terminal bool
	same     func(fd int) bool // whether fd leads to the same place
	columns  func() int        // 0: not known
	inFront  func() bool       // in the terminal's foreground
	now      func() time.Time

	midLine bool // the last byte was not a newline
	dirty   bool // the target has written since our last line
	last    time.Time
	shown   string // the status line that is there
	alt     altScreen

	hurry     chan struct{} // closed by Hurry
	hurryOnce sync.Once
	lost      atomic.Bool // a line was given up
}

func newConsole(write func([]byte)) *Console {
	no := func() bool { return false }
	return &Console{
		turn:    make(chan struct{}, 1),
		hurry:   make(chan struct{}),
		write:   write,
		same:    func(int) bool { return false },
		columns: func() int { return 0 },
		inFront: no,
		now:     time.Now,
	}
}

// Guard is to be told about what the target writes to fd; nil if that is another place.
func (c *Console) Guard(fd int) output.Guard {
	if fd < 0 || !c.same(fd) {
		return nil
	}
	return guard{c}
}

type guard struct{ c *Console }

func (g guard) Begin() {
	g.c.turn <- struct{}{}
	g.c.unshow()
}

func (g guard) End(p []byte) {
	c := g.c
	if len(p) > 0 {
		c.midLine, c.dirty, c.last = p[len(p)-1] != '\n', true, c.now()
		if c.terminal {
			c.alt.feed(p)
		}
	}
	<-c.turn
}

// Clear removes the status line, before the process is stopped.
func (c *Console) Clear() {
	defer c.take()()
	c.unshow()
}

// take waits for its turn, but not for ever: a terminal that was stopped with
// Ctrl-S must not keep an error from being reported elsewhere.
func (c *Console) take() (release func()) {
	t := time.NewTimer(stuck)
	defer t.Stop()
	select {
	case c.turn <- struct{}{}:
		return func() { <-c.turn }
	case <-t.C:
		return func() {}
	}
}

func (c *Console) unshow() {
	if c.shown != "" {
		c.shown = ""
		c.put([]byte(erase))
	}
}

// Print writes lines of ours, given without their newlines, from the start of a
// line. There must be nothing in them that a terminal would obey; see Visible.
// That nobody reads them is nothing that could be said anywhere.
func (c *Console) Print(lines ...string) {
	defer c.take()()
	c.unshow()
	var b []byte
	end := "\n"
	if c.terminal {
		end = "\r\n" // it may be raw
		if c.dirty {
			b = append(b, output.ResetTerminal...)
		}
		b = append(b, '\r')
	}
	if c.midLine {
		b = append(b, end...)
	}
	for _, l := range lines {
		b = append(append(b, l...), end...)
	}
	c.midLine, c.dirty, c.last = false, false, c.now()
	c.put(b)
}

// Hurry is called when a run is stopped, after which nobody waits for long for who reads: lines
// that aren't taken soon are given up.
func (c *Console) Hurry() { c.hurryOnce.Do(func() { close(c.hurry) }) }

// put writes a line of ours. One that is given up is left in a system call, which goes with the process.
func (c *Console) put(b []byte) {
	if c.lost.Load() {
		return
	}
	done := make(chan struct{})
	go func() {
		c.write(b)
		close(done)
	}()
	select {
	case <-done:
		return
	case <-c.hurry:
	}
	t := time.NewTimer(stuck)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		c.lost.Store(true)
	}
}
