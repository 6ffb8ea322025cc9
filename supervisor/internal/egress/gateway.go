package egress

import (
	"context"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress/names"
	"github.com/confine-run/confine/supervisor/internal/egress/proxied"
)

const (
	// defaultConnections bounds what is open at one time where the policy says nothing.
	defaultConnections = 4096
	// dialPatience bounds a connection's way from the first packet to the other side.
	dialPatience = 30 * time.Second
	// bytesHeld bounds what all flows have said that can't be passed on yet. It is memory of the supervisor's, which no
	// limit of the run bounds.
	bytesHeld = 32 << 20
)

// Gateway serves the sockets of one run.
type Gateway struct {
	policy
	records
	budget
	sockets sockets // those of the run, and what of the gateway is of this system alone
	pipes   pipes

	buffers, datagramBuffers sync.Pool

	ctx       context.Context
	cancel    context.CancelFunc
	inside    context.Context // ends when nobody is left inside to be answered
	endInside context.CancelFunc
	all       sync.WaitGroup // all goroutines

	patience      struct{ hello, idle time.Duration } // helloPatience, questionsIdle
	questionSlots chan struct{}                       // a place for each question that is being answered

	mu   sync.Mutex
	open map[*flow]struct{}
}

// budget is what a run may use of the network at one time and altogether.
type budget struct {
	limits *atomic.Pointer[plan.Network] // the policy's
	room   int64                         // flows that there are descriptors for

	connections atomic.Int64 // open now
	bytes       atomic.Int64 // both ways
	held        atomic.Int64 // bytes that can't be passed on yet
}

// New is a gateway for what the plan allows. tell, if not nil, is called for every
// attempt that is new of its kind, one at a time.
func New(p *plan.Network, tell func(status.Attempt)) (*Gateway, error) {
	g := &Gateway{
		policy:  policy{resolver: names.Resolver{Lookup: names.System}, own: ownAddress},
		sockets: newSockets(), pipes: newPipes(),
		questionSlots: make(chan struct{}, maxQuestions), open: map[*flow]struct{}{},
	}
	g.now.Store(p)
	g.limits = &g.now
	g.patience.hello, g.patience.idle = helloPatience, questionsIdle
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.inside, g.endInside = context.WithCancel(g.ctx)
	g.process.begun, g.process.over = make(chan struct{}), g.inside.Done()
	g.log.tell, g.log.began, g.log.kinds = tell, time.Now(), map[key]*kind{}
	var err error
	g.room, err = room()
	return g, err
}

// begin counts a flow among those that are open. It is false if there are as many as may be.
func (g *Gateway) begin(f *flow) bool {
	n := g.connections.Add(1)
	if n > g.most() {
		g.connections.Add(-1)
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[f] = struct{}{}
	g.log.opened(n)
	return true
}

// most is how many flows there may be at one time.
func (b *budget) most() int64 {
	if n := b.limits.Load().MaxConnections; n > 0 {
		return min(b.room, int64(n))
	}
	return min(b.room, defaultConnections)
}

func (g *Gateway) end(f *flow) {
	g.connections.Add(-1)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, f)
}

// spend counts bytes against the run's own limit.
func (b *budget) spend(n int64) bool {
	total := b.bytes.Add(n)
	most := b.limits.Load().MaxBytes
	return most == 0 || total <= most
}

// spent says whether nothing more may pass.
func (b *budget) spent() bool {
	most := b.limits.Load().MaxBytes
	return most > 0 && b.bytes.Load() >= most
}

// hold counts bytes that are kept until more has come. It is false where there is no room for them.
func (b *budget) hold(n int64) bool {
	if b.held.Add(n) <= bytesHeld {
		return true
	}
	b.release(n)
	return false
}

func (b *budget) release(n int64) { b.held.Add(-n) }

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
	g.endInside()
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

// drain waits until all goroutines have ended, as long as bytes still arrive somewhere, and then cuts what is left.
func (g *Gateway) drain(done <-chan struct{}) {
	end := time.NewTimer(drainMost)
	defer end.Stop()
	for last := int64(-1); ; {
		now := g.bytes.Load() // changes whenever bytes have arrived at some other side
		g.everyFlow(func(f *flow) { now += f.acknowledged() })
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

// everyFlow does something with each flow that is open.
func (g *Gateway) everyFlow(do func(*flow)) {
	g.mu.Lock()
	all := slices.Collect(maps.Keys(g.open))
	g.mu.Unlock()
	for _, f := range all {
		do(f)
	}
}

// proxyPatience bounds the time until a request to the proxy is there.
const proxyPatience = 30 * time.Second

// maxProxyWaiting is how many requests to the proxy may be on their way: each has a descriptor of ours, and is counted as nothing yet.
const maxProxyWaiting = 256

// Proxy serves programs that ask a proxy of HTTP for what they want to reach, on a port of this host's loopback. It is for systems on which nothing
// leads them here otherwise. What they ask for is judged as if they had connected to it.
func Proxy(g *Gateway) (port uint16, err error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, err
	}
	context.AfterFunc(g.inside, func() { _ = l.Close() })
	g.process.begin(-1) // nobody who asks is looked for
	waiting := make(chan struct{}, maxProxyWaiting)
	g.all.Go(func() {
		for {
			c, err := l.AcceptTCP()
			switch {
			case err == nil:
				select {
				case waiting <- struct{}{}:
					g.all.Go(func() { serveProxied(g, newConn(c), func() { <-waiting }) })
				default:
					newConn(c).reset()
				}
			case g.inside.Err() != nil:
				return
			default:
				time.Sleep(proxyPause)
			}
		}
	})
	return endpoint(l.Addr()).Port(), nil
}

// proxyPause is how long nothing is accepted when there is no descriptor or memory left.
const proxyPause = 10 * time.Millisecond

// serveProxied serves one connection to the proxy.
func serveProxied(g *Gateway, c *conn, asked func()) {
	leave := context.AfterFunc(g.inside, c.reset)
	_ = c.SetReadDeadline(time.Now().Add(proxyPatience))
	q, ok := proxied.Read(c)
	_ = c.SetReadDeadline(time.Time{})
	asked()
	leave()
	if !ok {
		_, _ = c.Write(proxied.Refusal("400 Bad Request", "this is a proxy: it takes CONNECT HOST:PORT, and requests for http://HOST/PATH"))
		_ = c.Close()
		return
	}
	f := &flow{protocol: "tcp", from: c.remote(), early: q.Rest}
	f.meant(q.Host, q.Port)
	far, ok := g.reach(f)
	if !ok {
		why := "it can't be reached"
		code := "502 Bad Gateway"
		if !f.verdict.Allowed {
			code, why = "403 Forbidden", "the rules don't allow it: "+string(f.verdict.Why)
			if f.verdict.Hint != "" {
				why += "; " + f.verdict.Hint
			}
		}
		_, _ = c.Write(proxied.Refusal(code, hostPort(q.Host, q.Port)+": "+why))
		_ = c.Close()
		return
	}
	defer g.end(f)
	outside := newConn(far.(*net.TCPConn))
	f.onAbort(c.reset)
	f.onAbort(outside.reset)
	if q.Connect {
		_, _ = io.WriteString(c, proxied.Established) // who doesn't hear it is gone
	}
	g.relay(f, c, outside)
}

// meant says whom a flow is for, by a name or an address that a program gave.
func (f *flow) meant(host string, port uint16) {
	a, err := netip.ParseAddr(host)
	name, named := network.CanonicalName(host)
	switch {
	case err == nil && a.Unmap().IsLoopback(), named && (name == "localhost" || strings.HasSuffix(name, ".localhost")):
		f.use, f.to = handoff.UseLocalhost, netip.AddrPortFrom(names.HostAddresses().V4, port)
	case err == nil:
		f.to = plainPort(netip.AddrPortFrom(a, port))
	case named:
		f.name, f.to = name, netip.AddrPortFrom(netip.Addr{}, port)
	default: // no rule names it
		f.to = netip.AddrPortFrom(netip.IPv4Unspecified(), port)
	}
}
