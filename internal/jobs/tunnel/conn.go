package tunnel

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// window is how many bytes may be on their way, or wait to be read, in each direction.
const window = 256 << 10

// Times of a connection. Tests have less.
type times struct {
	again time.Duration // until what was not confirmed is sent again
	ping  time.Duration // without a frame until one is sent that says nothing
	gone  time.Duration // for which nobody is there by the servers' word until it is broken
	dead  time.Duration // for which nothing was heard, likewise
}

var usual = times{again: time.Second, ping: 5 * time.Second, gone: 5 * time.Second, dead: 30 * time.Second}

// Errors of connections.
var (
	ErrSilent = errors.New("nothing was heard of the other end of the connection for too long")
	ErrNobody = errors.New("nobody is at the other end of the connection any more")
)

// ResetError: the other end says that it is broken.
type ResetError struct{ Reason string }

func (e *ResetError) Error() string { return "the other end has broken the connection: " + e.Reason }

// Addr is one end of a connection.
type Addr string

// Network is nats.
func (Addr) Network() string  { return "nats" }
func (a Addr) String() string { return string(a) }

// Conn is a connection.
type Conn struct {
	local, remote Addr
	times         times
	publish       func(text []byte)
	down          func() bool // there is no way any more
	closed        func()      // once, when nothing more of it is wanted

	mu      sync.Mutex
	changed *sync.Cond
	err     error // it is broken
	done    bool  // Close was called

	sending
	receiving
	hearing

	read, write deadline
	tick        *time.Timer
}

// sending are the bytes that go out: kept are those from confirmed on, of which the ones before sent were sent.
type sending struct {
	kept            []byte
	confirmed, sent uint64
	limit           uint64 // the other end has room for
	end             bool   // after them, nothing
	endConfirmed    bool
	progress        time.Time // when something was confirmed, or sent while nothing was to be
	repeated        time.Time // when it was sent again
}

// receiving are those that came, and were not read.
type receiving struct {
	unread []byte
	have   uint64
	over   bool   // after that, nothing
	told   uint64 // up to where the other end was told that it may send
}

// hearing is what is known of the other end.
type hearing struct {
	heard, spoke time.Time
	nobody       bool // the servers say so, since it was heard
}

// deadline wakes who waits.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newConn(local, remote Addr, t times, publish func([]byte), down func() bool, closed func()) *Conn {
	now := time.Now()
	c := &Conn{local: local, remote: remote, times: t, publish: publish, down: down, closed: sync.OnceFunc(closed),
		sending: sending{limit: window, progress: now}, hearing: hearing{heard: now, spoke: now}}
	c.changed = sync.NewCond(&c.mu)
	c.tick = time.AfterFunc(t.again/4, c.look)
	return c
}

// LocalAddr is the subject of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is that of the other.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// HungUp says whether the other end is gone, or sends no more.
func (c *Conn) HungUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil || c.over
}

func (c *Conn) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.done:
			return 0, net.ErrClosed
		case c.read.over():
			return 0, os.ErrDeadlineExceeded
		case len(c.unread) > 0:
			n := copy(b, c.unread)
			if c.unread = c.unread[n:]; len(c.unread) == 0 {
				c.unread = nil
			}
			if c.allowed()-c.told >= window/2 { // who writes may wait for it
				c.say(frameAck)
			}
			return n, nil
		case c.over:
			return 0, io.EOF
		case c.err != nil:
			return 0, c.err
		case len(b) == 0:
			return 0, nil
		}
		c.changed.Wait()
	}
}

// allowed is up to where the other end may send.
func (c *Conn) allowed() uint64 { return c.have - uint64(len(c.unread)) + window }

func (c *Conn) Write(b []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.done || c.end:
			return n, net.ErrClosed
		case c.err != nil:
			return n, c.err
		case c.write.over():
			return n, os.ErrDeadlineExceeded
		case len(b) == 0:
			return n, nil
		}
		if room := min(window-len(c.kept), int(min(c.limit-min(c.limit, c.sent), window))); room > 0 {
			part := b[:min(len(b), room, maxBytes)]
			b, n = b[len(part):], n+len(part)
			if len(c.kept) == 0 {
				c.progress = time.Now()
			}
			c.kept = append(c.kept, part...)
			c.send(&frame{kind: frameData, at: c.sent, bytes: part})
			c.sent += uint64(len(part))
			continue
		}
		c.changed.Wait()
	}
}

// send sends a frame. What is lost is sent again. The caller holds mu.
func (c *Conn) send(f *frame) {
	f.have, f.limit = c.have, c.allowed()
	c.told, c.spoke = f.limit, time.Now()
	c.publish(f.encode())
}

func (c *Conn) say(k kind) { c.send(&frame{kind: k}) }

// repeat sends what was not confirmed. The caller holds mu.
func (c *Conn) repeat() {
	c.repeated = time.Now()
	for at, rest := c.confirmed, c.kept; len(rest) > 0; {
		part := rest[:min(len(rest), maxBytes)]
		c.send(&frame{kind: frameData, at: at, bytes: part})
		at, rest = at+uint64(len(part)), rest[len(part):]
	}
	if c.end && !c.endConfirmed {
		c.send(&frame{kind: frameEnd, at: c.sent})
	}
}

// receive takes a frame. It waits for nobody.
func (c *Conn) receive(text []byte) {
	f, err := decode(text)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.heard, c.nobody = time.Now(), false
	if f.kind == frameReset {
		c.fail(&ResetError{string(f.bytes[:min(len(f.bytes), 200)])})
		return
	}
	c.confirm(&f)
	switch f.kind {
	case frameGap:
		if time.Since(c.repeated) > c.times.again/4 {
			c.repeat()
		}
	case frameData:
		c.take(&f)
	case frameEnd:
		if f.at == c.have {
			c.over = true
		}
		c.answer(f.at == c.have)
	}
	if c.done && c.endConfirmed && c.over {
		c.leave()
	}
	c.changed.Broadcast()
}

// confirm forgets what the other end has.
func (c *Conn) confirm(f *frame) {
	have := f.have
	if c.end && have == c.sent+1 { // the end has a number of its own
		if have = c.sent; !c.endConfirmed {
			c.endConfirmed, c.progress = true, time.Now()
		}
	}
	if have > c.confirmed && have <= c.sent {
		c.kept = c.kept[have-c.confirmed:]
		if len(c.kept) == 0 {
			c.kept = nil
		}
		c.confirmed, c.progress = have, time.Now()
	}
	c.limit = max(c.limit, f.limit)
}

// take takes bytes that follow those that are there.
func (c *Conn) take(f *frame) {
	size := uint64(len(f.bytes))
	switch {
	case f.at+size <= c.have: // it came before, and the other end doesn't know
		c.answer(true)
		return
	case c.over || f.at > c.have:
		c.answer(false)
		return
	}
	more := f.bytes[c.have-f.at:]
	if c.done {
		more = nil // nobody reads it
		c.have = f.at + size
	} else if len(c.unread)+len(more) > window {
		c.say(frameReset)
		c.fail(errors.New("more came than was allowed"))
		return
	}
	c.unread = append(c.unread, more...)
	c.have += uint64(len(more))
	c.answer(true)
}

// answer confirms: what was received is whole, or there is a gap.
func (c *Conn) answer(whole bool) {
	f := &frame{kind: frameAck}
	if !whole {
		f.kind = frameGap
	}
	f.have, f.limit = c.have, c.allowed()
	if c.over {
		f.have++
	}
	c.told, c.spoke = f.limit, time.Now()
	c.publish(f.encode())
}

// absent: the servers say that nobody is at the other end.
func (c *Conn) absent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nobody = true
}

// look does what it is time for.
func (c *Conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	now := time.Now()
	switch quiet := now.Sub(c.heard); {
	case c.down():
		c.fail(net.ErrClosed)
		return
	case quiet > c.times.dead:
		c.fail(ErrSilent)
		return
	case c.nobody && quiet > c.times.gone:
		c.fail(ErrNobody)
		return
	}
	if c.done && c.endConfirmed && now.Sub(c.progress) > c.times.gone { // all of it is there: the other end may have more to say, which nobody reads
		c.leave()
		return
	}
	open := len(c.kept) > 0 || c.end && !c.endConfirmed
	if open && now.Sub(c.progress) > c.times.again && now.Sub(c.repeated) > c.times.again {
		c.repeat()
	}
	if now.Sub(c.spoke) > c.times.ping || c.nobody && now.Sub(c.spoke) > c.times.again {
		c.answer(true)
	}
	c.tick.Reset(c.times.again / 4)
}

// fail breaks it. The caller holds mu.
func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err = err
		c.leave()
	}
}

// leave is the end of all that is kept for it. The caller holds mu.
func (c *Conn) leave() {
	if c.err == nil {
		c.err = net.ErrClosed
	}
	c.tick.Stop()
	c.kept = nil
	c.changed.Broadcast()
	go c.closed()
}

// Close ends it. What was written gets there yet.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return net.ErrClosed
	}
	c.done, c.end, c.unread = true, true, nil
	c.changed.Broadcast()
	if c.err != nil {
		return nil
	}
	c.progress = time.Now()
	c.send(&frame{kind: frameEnd, at: c.sent})
	return nil
}

// SetDeadline is that of reads and writes.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline is when reads end that wait.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.until(&c.read, t) }

// SetWriteDeadline is that of writes.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.until(&c.write, t) }

func (c *Conn) until(d *deadline, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return net.ErrClosed
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	d.at, d.timer = t, nil
	if !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), c.wake)
	}
	c.changed.Broadcast()
	return nil
}

func (c *Conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed.Broadcast()
}
