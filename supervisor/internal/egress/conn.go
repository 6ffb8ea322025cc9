package egress

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// bufferSize is what is read and written: requests and answers. What fills it is probably more, and what
// follows is spliced, as long as as much comes at once.
const bufferSize = 32 << 10

// lend gives a buffer to who has something to move: a connection that waits has none.
func lend(from *sync.Pool, size int) *[]byte {
	if b, ok := from.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, size)
	return &b
}

// conn is a TCP connection of a flow.
type conn struct {
	*net.TCPConn
	raw  syscall.RawConn
	bulk bool   // much came the last time
	rest []byte // what was read from it and is not sent yet

	small atomic.Int32 // how many messages in a row came from it that aren't much, while it is copied
}

// newConn takes a connection; of one that is closed already every use fails.
func newConn(c *net.TCPConn) *conn {
	raw, _ := c.SyscallConn()
	return &conn{TCPConn: c, raw: raw}
}

// reset closes a connection as a refusal would.
func (c *conn) reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// remote and local are its ends.
func (c *conn) remote() netip.AddrPort { return endpoint(c.RemoteAddr()) }
func (c *conn) local() netip.AddrPort  { return endpoint(c.LocalAddr()) }

// copyOnce moves what there is from src to dst, at most so many bytes, and waits if there is
// nothing; 0 is the end. Where there is a limit, bytes are counted before they are sent, so that no number
// of connections at the same time passes it: then none is spliced.
func (g *Gateway) copyOnce(dst, src *conn, most int64) (int64, error) {
	if src.bulk && g.now.Load().MaxBytes == 0 {
		runtime.Gosched() // meanwhile more comes, and others have their turn
		n, err := g.pipes.splice(dst, src, most)
		g.spend(n)
		src.bulk = n >= bufferSize
		if n > 0 || err != nil {
			return n, err
		}
	}
	buf, n, err := receive(src, src.raw, &g.buffers, bufferSize, int(min(most, bufferSize)))
	if err != nil {
		return 0, err
	}
	defer g.buffers.Put(buf)
	src.bulk = n == bufferSize
	if n == 0 {
		return 0, nil
	}
	if !g.spend(int64(n)) {
		return 0, refusal(whyBytes)
	}
	k, err := dst.Write((*buf)[:n])
	return int64(k), err
}

// errInteractive is that only small messages pass in both directions, of which nothing was read that isn't sent.
var errInteractive = errors.New("interactive")

// copy moves everything from src to dst, or until both directions are interactive. Who finds that
// out first has the other stop to wait.
func (g *Gateway) copy(dst, src *conn, count *atomic.Int64) error {
	src.small.Store(0)
	defer src.small.Store(0)
	if len(src.rest) > 0 {
		n, err := dst.Write(src.rest)
		count.Add(int64(n))
		src.rest = nil
		if err != nil {
			return err
		}
	}
	for {
		n, err := g.copyOnce(dst, src, math.MaxInt64)
		count.Add(n)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errInteractive
		case err != nil || n == 0:
			return err
		case src.bulk:
			src.small.Store(0)
		case src.small.Add(1) >= interactiveAfter && dst.small.Load() >= interactiveAfter:
			_ = dst.SetReadDeadline(time.Unix(1, 0))
			return errInteractive
		}
	}
}

const (
	// headStart is what an address gets before the next one is tried beside it (RFC 8305).
	headStart = 250 * time.Millisecond
	// maxTried is how many are tried beside each other: each has a descriptor, and whoever
	// serves a name's zone says how many addresses it has.
	maxTried = 2
)

// dialTCP connects to the first of the addresses that answers, with a head start for each
// before the next.
func dialTCP(ctx context.Context, list []netip.Addr, port uint16) (*net.TCPConn, error) {
	type try struct {
		cancel context.CancelFunc
		ended  chan struct{} // closed when it has no descriptor any more, or a connection
		conn   *net.TCPConn
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	var under []*try // the oldest first
	var all sync.WaitGroup
	results := make(chan *try)
	defer all.Wait()
	defer cancel()
	start := func(to netip.AddrPort) {
		t := &try{ended: make(chan struct{})}
		var own context.Context
		own, t.cancel = context.WithCancel(ctx)
		under = append(under, t)
		all.Go(func() {
			defer t.cancel()
			t.conn, t.err = connect(own, to)
			close(t.ended)
			select {
			case results <- t:
			case <-ctx.Done():
				if t.err == nil {
					_ = t.conn.Close()
				}
			}
		})
	}
	err := errNoAddress
	next := time.NewTimer(0)
	defer next.Stop()
	for len(list) > 0 || len(under) > 0 {
		select {
		case <-next.C:
			if len(list) == 0 {
				continue
			}
			if len(under) == maxTried { // the oldest had its time
				under[0].cancel()
				<-under[0].ended
				under = slices.Delete(under, 0, 1)
			}
			start(netip.AddrPortFrom(list[0], port))
			list = list[1:]
			next.Reset(headStart)
		case t := <-results:
			if t.err == nil {
				return t.conn, nil
			}
			if i := slices.Index(under, t); i >= 0 {
				under = slices.Delete(under, i, i+1)
				err = t.err
				next.Reset(0)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, err
}

// connect connects to one address.
func connect(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error { return c.Control(oobInline) }}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if errors.Is(err, os.ErrDeadlineExceeded) { // the dialer holds the deadline by a timer of its own, which may be the first
		err = context.DeadlineExceeded
	}
	if err != nil {
		return nil, err
	}
	if toItself(c) {
		_ = c.Close()
		return nil, syscall.ECONNREFUSED
	}
	return c.(*net.TCPConn), nil
}

// toItself says whether a socket is connected to itself. That comes of a port of this host's which nobody
// listens on when the kernel happens to give it to who connects there.
func toItself(c net.Conn) bool { return endpoint(c.LocalAddr()) == endpoint(c.RemoteAddr()) }
