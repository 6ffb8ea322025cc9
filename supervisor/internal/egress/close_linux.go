package egress

import (
	"maps"
	"slices"
	"time"

	"github.com/confine-run/confine/supervisor/internal/egress/peek"
)

const (
	// drainPatience is how long a run that has ended waits for what it has sent while nothing
	// of it gets on, and drainMost how long altogether.
	drainPatience = 2 * time.Second
	drainMost     = 30 * time.Second
)

// Close ends the gateway, once nothing is left of the run. What it has sent is
// still passed on, for a while; what would come back has nobody to go to.
func (g *Gateway) Close() {
	g.doors.empty()
	g.giveUp()
	g.mu.Lock()
	g.draining = true
	g.mu.Unlock()
	g.everyFlow(func(f *flow) {
		f.answer.tell(0, peek.NoHello) // that nobody would hear
		if f.silent.Load() {
			f.leave()
		}
	})
	for _, d := range g.doors.list() {
		d.close()
	}
	if g.calls != nil {
		g.calls.Close()
	}
	done := make(chan struct{})
	go func() {
		g.all.Wait()
		close(done)
	}()
	g.drain(done)
	g.cancel()
	g.loop.Close()
	g.process.end()
	g.raw.close()
	g.dialing.close()
	g.store.close()
}

// drain waits as long as something gets on, and then cuts what is left.
func (g *Gateway) drain(done <-chan struct{}) {
	end := time.NewTimer(drainMost)
	defer end.Stop()
	for last := int64(-1); ; {
		now := g.arrived()
		if now == last {
			break
		}
		last = now
		patience := time.NewTimer(drainPatience)
		select {
		case <-done:
			patience.Stop()
			return
		case <-patience.C:
			continue
		case <-end.C:
			patience.Stop()
		}
		break
	}
	g.cancel()
	g.everyFlow((*flow).abort)
	<-done
}

// arrived changes with what has got to the other sides.
func (g *Gateway) arrived() int64 {
	queued := make(chan int64, 1)
	posted := g.loop.Post(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		sum := int64(0)
		for f := range g.open {
			sum += f.queued()
		}
		queued <- sum
	})
	if !posted {
		return 0
	}
	return g.bytes.Load() + g.moved.Load() - <-queued
}

// everyFlow does something with each flow that is open, where its connections are.
func (g *Gateway) everyFlow(do func(*flow)) {
	g.loop.Post(func() {
		g.mu.Lock()
		all := slices.Collect(maps.Keys(g.open))
		g.mu.Unlock()
		for _, f := range all {
			do(f)
		}
	})
}
