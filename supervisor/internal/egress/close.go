package egress

import (
	"maps"
	"slices"
	"time"
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
	g.sockets.awaitAccepted()
	g.mu.Lock()
	g.giveUp()
	g.mu.Unlock()
	g.everyFlow((*flow).leave)
	g.sockets.stop()
	done := make(chan struct{})
	go func() {
		g.all.Wait()
		close(done)
	}()
	g.drain(done)
	g.cancel()
	g.process.end()
	g.sockets.close()
	g.pipes.close()
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
	all := g.bytes.Load()
	g.everyFlow(func(f *flow) { all += f.acknowledged() })
	return all
}

// everyFlow does something with each flow that is open.
func (g *Gateway) everyFlow(do func(*flow)) {
	g.mu.Lock()
	all := slices.Collect(maps.Keys(g.open))
	g.mu.Unlock()
	for _, f := range all {
		do(f)
	}
}
