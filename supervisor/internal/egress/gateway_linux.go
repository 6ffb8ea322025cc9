package egress

import (
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/supervisor/internal/egress/emulate"
	"github.com/confine-run/confine/supervisor/internal/egress/poll"
)

// sockets are those that were made inside, and what reaches the inside.
type sockets struct {
	mu        sync.Mutex
	listeners []listener
	served    map[uint16]bool // ports that something of ours is bound to
	raw       rawSockets
	poller    poll.Poller
	dialing   dialers        // sockets that are made inside
	calls     *emulate.Calls // of a run that has no network of its own, or nil
}

// listener is a socket that something arrives at.
type listener interface {
	syscall.Conn
	Close() error
}

func newSockets() sockets {
	return sockets{served: map[uint16]bool{}, raw: rawSockets{fds: [2]int{-1, -1}}, dialing: dialers{there: netns.None()}}
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

// ServeDials takes the socket by which the init gives sockets. init is a pidfd of the init, which stays the caller's, or -1.
func (g *Gateway) ServeDials(fd, init int) error {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return err
	}
	g.sockets.dialing.init = c.(*net.UnixConn)
	if copied, err := unix.FcntlInt(uintptr(init), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		g.sockets.dialing.there = netns.NsHandle(copied)
	}
	for _, p := range g.now.Load().Publish {
		if err := g.publish(p); err != nil {
			return err
		}
	}
	return nil
}

// Inside gives the gateway a descriptor of the inside's /proc, by which it finds processes; -1 if there is none.
// Until then attempts wait to be told.
func (g *Gateway) Inside(proc int) { g.process.begin(proc) }

func (g *Gateway) serve(s *handoff.Socket, fd int) error {
	if s.Use == handoff.UseObserve {
		return g.observe(s, fd)
	}
	if s.Use == handoff.UseConnect && s.Address != "" {
		g.sockets.mu.Lock()
		g.sockets.served[s.Port] = true
		g.sockets.mu.Unlock()
	}
	if s.Type == unix.SOCK_RAW {
		g.sockets.raw.take(s.Family, fd)
		return nil
	}
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	if s.Type == unix.SOCK_DGRAM {
		c, err := net.FilePacketConn(f)
		if err != nil {
			return err
		}
		udp := c.(*net.UDPConn)
		g.sockets.add(udp)
		if s.Use == handoff.UseResolve {
			g.all.Go(func() { g.questions(udp) })
		} else {
			g.all.Go(func() { g.datagrams(udp, s) })
		}
		return nil
	}
	l, err := net.FileListener(f)
	if err != nil {
		return err
	}
	return g.listen(l.(*net.TCPListener), func(c *conn) {
		e := &flow{protocol: "tcp", from: c.remote(), to: c.local(), use: s.Use}
		if s.Use == handoff.UseResolve {
			g.questionsOf(e, c)
		} else {
			g.carry(e, c)
		}
	})
}

// acceptPause is how long nothing is accepted when there is no descriptor or memory left: others
// may end.
const acceptPause = 10 * time.Millisecond

// listen serves the connections of a listener, which it takes, each in a goroutine of its own.
func (g *Gateway) listen(l *net.TCPListener, serve func(*conn)) error {
	raw, err := l.SyscallConn()
	if err == nil {
		err = raw.Control(oobInline) // and of what it accepts
	}
	if err != nil {
		_ = l.Close()
		return err
	}
	g.sockets.add(l)
	g.all.Go(func() {
		for {
			c, err := l.AcceptTCP()
			switch {
			case err == nil:
				g.all.Go(func() { serve(newConn(c)) })
			case errors.Is(err, net.ErrClosed):
				return
			default:
				time.Sleep(acceptPause)
			}
		}
	})
	return nil
}

func (s *sockets) add(l listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, l)
}

func (s *sockets) list() []listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.listeners)
}

// arrivedPatience is how long what has arrived may wait to be taken.
const arrivedPatience = 200 * time.Millisecond

// awaitAccepted waits until what has arrived at listeners is taken. Nobody is left inside who could send more.
func (s *sockets) awaitAccepted() {
	end := time.Now().Add(arrivedPatience)
	for _, l := range s.list() {
		for waiting(l) && time.Now().Before(end) {
			time.Sleep(time.Millisecond)
		}
	}
}

// stop takes no more of what arrives.
func (s *sockets) stop() {
	for _, l := range s.list() {
		_ = l.Close()
	}
	if s.calls != nil {
		s.calls.Close()
	}
}

// close closes what was needed until all had ended.
func (s *sockets) close() {
	s.poller.Close()
	s.raw.close()
	s.dialing.close()
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

// How this process's descriptors are divided. A target that used them all up would end the run, since the
// supervisor needs some, too.
const (
	perFlow   = 3                    // two sockets, and one that is tried beside
	forOthers = 256 + 2*maxPipes + 2 // the poller's
	minFlows  = 8                    // however few descriptors there are
)

// room is for how many flows there are descriptors.
func room() (int64, error) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return roomIn(files.Cur), nil
}

func roomIn(descriptors uint64) int64 {
	if descriptors < forOthers {
		return minFlows
	}
	return max(minFlows, int64(min(descriptors, 1<<20)-forOthers)/perFlow)
}
