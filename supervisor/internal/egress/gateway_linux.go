package egress

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress/emulate"
	"github.com/confine-run/confine/supervisor/internal/egress/loop"
	"github.com/confine-run/confine/supervisor/internal/egress/names"
)

const (
	// defaultConnections bounds what is open at one time where the policy says nothing.
	defaultConnections = 4096
	// dialPatience bounds a connection's way from the first packet to the other side.
	dialPatience = 30 * time.Second
)

// Gateway serves the sockets of one run.
type Gateway struct {
	policy
	records
	budget
	doors doors
	store store
	loop  *loop.Loop // has all of TCP

	ctx    context.Context
	cancel context.CancelFunc
	inside context.Context // ends when nobody is left inside to be answered
	giveUp context.CancelFunc
	all    sync.WaitGroup // everything that serves, and what is under way

	patience struct{ hello, idle time.Duration } // helloPatience, questionsIdle
	asking   chan struct{}                       // a place for each question that is being answered

	mu       sync.Mutex
	draining bool
	open     map[*flow]struct{}
	served   map[uint16]bool // ports that something of ours is bound to
	raw      rawSockets
	dialing  dialers        // sockets that are made inside
	calls    *emulate.Calls // of a run that has no network of its own, or nil
}

// budget is what a run may use of the network at one time and altogether.
type budget struct {
	limits *plan.Network
	room   int64 // flows that there are descriptors for

	connections atomic.Int64 // open now
	bytes       atomic.Int64 // both ways
	moved       atomic.Int64 // of bulk, taken by who reads it
	held        atomic.Int64 // of datagrams that wait
}

// New is a gateway for what the plan allows. tell, if not nil, is called for every
// attempt that is new of its kind, one at a time.
func New(p *plan.Network, tell func(status.Attempt)) (*Gateway, error) {
	g := &Gateway{
		policy: policy{plan: p, rules: &p.Rules, resolver: names.Resolver{Lookup: names.System}, route: linux.RouteType},
		budget: budget{limits: p},
		asking: make(chan struct{}, maxQuestions), served: map[uint16]bool{}, open: map[*flow]struct{}{},
		raw: rawSockets{fds: [2]int{-1, -1}}, dialing: dialers{fd: -1, init: netns.None()},
	}
	g.patience.hello, g.patience.idle = helloPatience, questionsIdle
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.inside, g.giveUp = context.WithCancel(g.ctx)
	g.process.begun, g.process.over = make(chan struct{}), g.inside.Done()
	g.log.tell, g.log.began = tell, time.Now()
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, os.NewSyscallError("getrlimit", err)
	}
	g.room = room(files.Cur)
	var err error
	if g.loop, err = loop.New(); err != nil {
		return nil, err
	}
	g.aside = g.loop.Do
	return g, nil
}

// Serve takes sockets, as the plan for the inside lists them. It takes the
// descriptors in any case.
func (g *Gateway) Serve(sockets []*handoff.Socket, fds []int) error {
	var failed error
	for i, fd := range fds {
		if i >= len(sockets) || failed != nil {
			_ = unix.Close(fd)
			continue
		}
		failed = g.serve(sockets[i], fd)
	}
	return failed
}

// ServeDials takes the socket that gives sockets. init is a pidfd of the init, which stays the
// caller's, or -1.
func (g *Gateway) ServeDials(fd, init int) error {
	g.dialing.fd = fd
	if copied, err := unix.FcntlInt(uintptr(init), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		g.dialing.init = netns.NsHandle(copied)
	}
	for _, p := range g.plan.Publish {
		if err := g.publish(p); err != nil {
			return err
		}
	}
	return nil
}

// Inside says by which proc the processes inside can be named; the gateway takes
// the descriptor. -1 is that they can't. Until then nobody is told of.
func (g *Gateway) Inside(proc int) { g.process.begin(proc) }

func (g *Gateway) serve(s *handoff.Socket, fd int) error {
	if s.Use == handoff.UseObserve {
		return g.observe(s, fd)
	}
	if s.Use == handoff.UseConnect && s.Address != "" {
		g.mu.Lock()
		g.served[s.Port] = true
		g.mu.Unlock()
	}
	if s.Type == unix.SOCK_RAW {
		g.raw.take(s.Family, fd)
		return nil
	}
	if s.Type == unix.SOCK_DGRAM {
		f := os.NewFile(uintptr(fd), "socket")
		defer f.Close()
		c, err := net.FilePacketConn(f)
		if err != nil {
			return err
		}
		udp := c.(*net.UDPConn)
		g.doors.add(arrived(udp))
		if s.Use == handoff.UseResolve {
			g.all.Go(func() { g.questions(udp) })
		} else {
			g.all.Go(func() { g.datagrams(udp, s) })
		}
		return nil
	}
	if s.Use == handoff.UseResolve {
		return g.accept(fd, func(c *loop.Conn) {
			g.questionsOf(&flow{protocol: "tcp", from: c.RemoteAddr(), to: c.LocalAddr()}, c)
		})
	}
	return g.accept(fd, func(c *loop.Conn) {
		g.carry(&flow{protocol: "tcp", from: c.RemoteAddr(), to: c.LocalAddr(), use: s.Use}, c)
	})
}

// arrival is a socket that something arrives at.
type arrival struct {
	close   func()
	waiting func() bool // is there something?
}

// doors are all of them.
type doors struct {
	mu  sync.Mutex
	all []arrival
}

func (d *doors) add(a arrival) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, a)
}

func (d *doors) list() []arrival {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

// arrived is a socket that the runtime has.
func arrived(s interface {
	syscall.Conn
	Close() error
}) arrival {
	return arrival{func() { _ = s.Close() }, func() bool { return waiting(s) }}
}

// accept serves the connections of a listening socket, each as a task. It takes the
// descriptor.
func (g *Gateway) accept(fd int, serve func(*loop.Conn)) error {
	l, err := g.loop.Listen(fd, func(c *loop.Conn) {
		g.all.Add(1)
		g.loop.Go(func() {
			defer g.all.Done()
			serve(c)
		})
	})
	if err == nil {
		g.doors.add(arrival{l.Close, l.Waiting})
	}
	return err
}

// emptyPatience is how long what has arrived may wait to be taken.
const emptyPatience = 200 * time.Millisecond

// empty waits until what has arrived is taken: nobody is left who could send more.
func (d *doors) empty() {
	end := time.Now().Add(emptyPatience)
	for _, a := range d.list() {
		for a.waiting() && time.Now().Before(end) {
			time.Sleep(time.Millisecond)
		}
	}
}

// waiting says whether something has arrived at a socket.
func waiting(s syscall.Conn) (something bool) {
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		something = err == nil && n > 0
	})
	return something
}

// ending says whether the run is over.
func (g *Gateway) ending() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.draining
}

// begin takes a place for a flow; what there is no place for is refused.
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
	if b.limits.MaxConnections > 0 {
		return min(b.room, int64(b.limits.MaxConnections))
	}
	return min(b.room, defaultConnections)
}

// What of this process's descriptors is for what: a target that used them all up would
// end the run, since whoever watches it needs some, too.
const (
	ofFlow   = 3 // two sockets, and one that is tried beside
	ofOthers = 256 + 2*maxPipes
	leastOf  = 8 // flows, however few descriptors there are
)

// room is for how many flows there are descriptors.
func room(descriptors uint64) int64 {
	if descriptors < ofOthers {
		return leastOf
	}
	return max(leastOf, int64(min(descriptors, 1<<20)-ofOthers)/ofFlow)
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
	return b.limits.MaxBytes == 0 || total <= b.limits.MaxBytes
}

// spent says whether nothing more may pass.
func (b *budget) spent() bool { return b.limits.MaxBytes > 0 && b.bytes.Load() >= b.limits.MaxBytes }
