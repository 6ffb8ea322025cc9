package terminal

import (
	"strconv"
	"sync"
	"time"
)

// showAfter is how long a run must be for a status line.
const showAfter = 2 * time.Second

// Progress is what a status line shows. A zero limit is none; Memory below 0 is not known.
type Progress struct {
	Elapsed, TimeLimit  time.Duration
	Memory, MemoryLimit int64
}

// Status shows a status line from time to time until stop is called, which
// removes it. read is called from another goroutine, twice a second. Where stderr
// is no terminal nothing is started.
func (c *Console) Status(read func() Progress) (stop func()) {
	if !c.terminal {
		return func() {}
	}
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		t := time.NewTimer(showAfter)
		defer t.Stop()
		for {
			select {
			case <-quit:
				return
			case <-t.C:
				c.show(read())
				t.Reset(calm)
			}
		}
	}()
	var once sync.Once
	return func() {
		once.Do(func() {
			close(quit)
			<-over
			c.Clear()
		})
	}
}

// show draws the line, if nothing speaks against it.
func (c *Console) show(p Progress) {
	select {
	case c.turn <- struct{}{}:
	default:
		return // something is being written just now
	}
	defer func() { <-c.turn }()
	if p.Elapsed < showAfter || c.midLine || c.alt.on || c.now().Sub(c.last) < calm || !c.inFront() {
		return
	}
	text := fit(p.String(), c.columns()-1) // the last column would wrap on some terminals
	if text == "" || text == c.shown {
		return
	}
	c.shown = text
	c.write([]byte("\r" + text + "\x1b[K"))
}

// String is "[confine] 12 s of 30 s · 120 MiB of 512 MiB".
func (p Progress) String() string {
	s := Prefix + seconds(p.Elapsed)
	if p.TimeLimit > 0 {
		s += " of " + seconds(p.TimeLimit)
	}
	if p.Memory < 0 {
		return s
	}
	s += " · " + mebibytes(p.Memory)
	if p.MemoryLimit > 0 {
		s += " of " + mebibytes(p.MemoryLimit)
	}
	return s
}

func mebibytes(n int64) string { return strconv.FormatInt(n>>20, 10) + " MiB" }

func seconds(d time.Duration) string {
	if d%time.Second != 0 && d < 10*time.Second {
		return strconv.FormatFloat(float64(d/(100*time.Millisecond))/10, 'f', -1, 64) + " s"
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + " s"
}

// fit cuts s to n columns. All characters of a status line are one column wide.
func fit(s string, n int) string {
	if n <= 0 {
		return ""
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
