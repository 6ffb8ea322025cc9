package egress

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/supervisor/internal/egress/peek"
)

// client inspects what a client inside sends to a name, and sends it on.
type client struct {
	g               *Gateway
	f               *flow
	answer          *answer
	inside, outside *conn
	buf             []byte // what was read and may be needed again
	have            int    // bytes in buf
	held            int64  // by how much buf has grown
	sent            int    // bytes of buf that are sent on already
	ended           bool   // the client says no more
	permitted       network.Protocols
	bounded         bool // its hello or head has to be whole soon
}

const (
	// firstBuffer is enough for what most clients begin with.
	firstBuffer = 4 << 10
	// helloPatience bounds the time between the first byte of a hello or of a head and its last.
	helloPatience = 60 * time.Second
)

// inspects says whether the bytes of a client are inspected: of flows to names, and where the
// rules want a protocol.
func (p *policy) inspects(f *flow) bool {
	return !f.incoming && (f.name != "" || p.rules().Needs(f.host(), f.to.Port()) != network.Any)
}

// forward passes on what comes from inside, of flows to names not before it is known
// that the client means the same name.
func (g *Gateway) forward(f *flow, said *answer, inside, outside *conn) error {
	if !g.inspects(f) && len(f.early) == 0 {
		return g.copy(outside, inside, &f.sent)
	}
	c := &client{
		g: g, f: f, answer: said, inside: inside, outside: outside, buf: append(f.early, make([]byte, firstBuffer)...), have: len(f.early),
		permitted: g.rules().Needs(f.host(), f.to.Port()),
	}
	defer c.release()
	if !g.inspects(f) {
		return c.rest()
	}
	kind, err := c.classify()
	if err != nil || c.ended && c.have == 0 { // nothing is said, so nothing is refused
		return err
	}
	switch kind {
	case peek.TLS:
		err = c.hellos()
	case peek.HTTP:
		return c.requests()
	case peek.Other:
		err = c.speaks(network.Raw)
	default:
		err = refusal(kind)
	}
	if err != nil {
		return err
	}
	return c.rest()
}

// speaks says whether the rules let the client speak so.
func (c *client) speaks(spoken network.Protocols) error {
	if v := c.g.rules().Speaks(c.f.host(), c.f.to.Port(), spoken); !v.Allowed {
		c.f.verdict = v
		return refusal(v.Why)
	}
	return nil
}

// more reads on. At the client's end it is set that it has ended.
func (c *client) more() error {
	switch size := min(len(c.buf), peek.MaxHead-len(c.buf)); {
	case c.have < len(c.buf):
	case size <= 0:
		return refusal(peek.TooLong)
	case !c.g.hold(int64(size)):
		return refusal(whyConnections)
	default:
		c.held += int64(size)
		c.buf = append(c.buf, make([]byte, size)...)
	}
	n, err := c.inside.Read(c.buf[c.have:])
	c.have += n
	switch {
	case err == io.EOF:
		c.ended, err = true, nil
	case c.bounded && errors.Is(err, os.ErrDeadlineExceeded):
		err = refusal(whySlow)
	}
	return err
}

// setDeadline bounds the time until what the client has begun is whole; clearDeadline ends that.
func (c *client) setDeadline() {
	_ = c.inside.SetReadDeadline(time.Now().Add(c.g.patience.hello))
	c.bounded = true
}

func (c *client) clearDeadline() {
	_ = c.inside.SetReadDeadline(time.Time{})
	c.bounded = false
}

// pass sends on what is in the buffer up to n.
func (c *client) pass(n int) error {
	if n <= c.sent {
		return nil
	}
	if !c.g.spend(int64(n - c.sent)) {
		return refusal(whyBytes)
	}
	k, err := c.outside.Write(c.buf[c.sent:n])
	c.sent += k
	c.f.sent.Add(int64(k))
	return err
}

// classify finds out what the client speaks. What says nothing yet is sent on at
// once, where the rules take anything: a server does nothing for half a line.
func (c *client) classify() (peek.Kind, error) {
	for first := true; ; first = false {
		if !first || c.have == 0 {
			if err := c.more(); err != nil {
				return "", err
			}
		}
		if c.ended {
			if c.have == 0 {
				return peek.Other, nil
			}
			return peek.ClassifyAll(c.buf[:c.have]), nil
		}
		kind, more := peek.Classify(c.buf[:c.have])
		if !more {
			return kind, nil
		}
		if c.permitted == network.Any {
			if err := c.pass(c.have); err != nil {
				return "", err
			}
		}
	}
}

// hellos checks the server names of a TLS handshake: that of the client's hello and, where the
// server asks for another by a HelloRetryRequest, that of the second.
func (c *client) hellos() error {
	if err := c.speaks(network.TLS); err != nil || c.f.name == "" {
		return err
	}
	if err := c.hello(); err != nil {
		return err
	}
	for {
		if c.have == 0 && !c.ended {
			if err := c.more(); err != nil {
				return err
			}
		}
		if c.have == 0 || c.answer.known() == peek.FinalHello {
			return nil
		}
		n, more, err := peek.Between(c.buf[:c.have])
		switch {
		case err != nil:
			return c.refusalOf(err)
		case n > 0:
			if err := c.pass(n); err != nil {
				return err
			}
			c.take(n)
		case more && c.ended:
			return refusal(peek.Unfinished)
		case more:
			if err := c.more(); err != nil {
				return err
			}
		default: // a record of the handshake: whether it begins a hello is the server's to decide
			if err := c.answered(); err != nil {
				return err
			}
			switch c.answer.hello {
			case peek.NoHello:
				return refusal(peek.BadServerHello)
			case peek.RetryHello:
				return c.hello() // the last: no server asks for a third (RFC 8446, section 4.1.4)
			}
		}
	}
}

// hello checks the server name of one hello, and sends the hello on.
func (c *client) hello() error {
	c.setDeadline()
	defer c.clearDeadline()
	for {
		name, size, more, err := peek.ServerName(c.buf[:c.have])
		switch {
		case err != nil:
			return c.refusalOf(err)
		case !more && name != c.f.name:
			c.f.claimed = name
			return refusal(whyServerName)
		case !more:
			err := c.pass(size)
			c.take(size)
			return err
		case c.ended:
			return refusal(peek.Unfinished)
		}
		if err := c.more(); err != nil {
			return err
		}
	}
}

// Why a client's word is not taken.
const (
	whyServerName = "server_name" // it names another in its TLS hello
	whyHost       = "host"        // or in a request
	whySlow       = "too_slow"    // neither is whole in time
)

// refusalOf is why the client's bytes are not sent on.
func (c *client) refusalOf(err error) error {
	if why, ok := errors.AsType[peek.Reason](err); ok {
		return refusal(why)
	}
	return err
}

// requests checks every request of plain HTTP.
func (c *client) requests() error {
	if err := c.speaks(network.HTTP); err != nil {
		return err
	}
	r := &peek.Requests{Check: c.check}
	for {
		n, err := r.Next(c.buf[:c.have])
		if err2 := c.pass(n); err2 != nil {
			return err2
		}
		if err != nil {
			return c.refusalOf(err)
		}
		c.take(n)
		switch {
		case r.Raw():
			return c.rest()
		case r.Waiting() && !c.ended:
			if err := c.upgrade(r); err != nil {
				return err
			}
			continue
		case c.ended:
			return c.refusalOf(r.End(c.buf[:c.have]))
		case r.Body() > 0 && c.have == 0:
			if err := c.body(r); err != nil || c.ended {
				return err
			}
			continue
		}
		switch {
		case c.have == 0:
			c.clearDeadline()
		case n > 0 || !c.bounded: // another has begun
			c.setDeadline()
		}
		if err := c.more(); err != nil {
			return err
		}
	}
}

// take drops n bytes from the front of the buffer, which are sent on.
func (c *client) take(n int) {
	copy(c.buf, c.buf[n:c.have])
	c.have, c.sent = c.have-n, max(0, c.sent-n)
	if c.have == 0 && c.held > 0 {
		c.buf = make([]byte, firstBuffer)
		c.release()
	}
}

// release is for a buffer that is no longer as large as it was.
func (c *client) release() {
	c.g.release(c.held)
	c.held = 0
}

// check looks at one request.
func (c *client) check(r peek.Request) error {
	port := c.f.to.Port()
	if c.f.name != "" && r.Host != c.f.name && r.Method != "CONNECT" {
		c.f.claimed = r.Host
		return refusal(whyHost)
	}
	if host := c.f.host(); c.g.rules().HasPath(host, port) {
		if v := c.g.rules().Path(host, port, r.Path); !v.Allowed {
			c.f.verdict = v
			return refusal(v.Why)
		}
	}
	return nil
}

// body passes on bytes of a body, which aren't inspected.
func (c *client) body(r *peek.Requests) error {
	c.clearDeadline()
	n, err := c.g.copyOnce(c.outside, c.inside, r.Body())
	c.f.sent.Add(n)
	r.Skip(n)
	if err == nil && n == 0 {
		c.ended = true
		return c.refusalOf(r.End(nil))
	}
	return err
}

// upgrade waits for what the server says to a request that asks for another protocol.
func (c *client) upgrade(r *peek.Requests) error {
	if err := c.answered(); err != nil {
		return err
	}
	if c.answer.code == 0 {
		return refusal(peek.BadStatus)
	}
	r.Answered(c.answer.code)
	c.answer.code = 0 // it was one request's
	return nil
}

// answer is what a server says first.
type answer struct {
	told  chan struct{}    // closed once the rest is there
	code  int              // the status of its first answer; 0: it is none of HTTP
	hello peek.ServerHello // of TLS
}

func (a *answer) tell(code int, hello peek.ServerHello) {
	a.code, a.hello = code, hello
	close(a.told)
}

// known is the server's hello as far as it has answered.
func (a *answer) known() peek.ServerHello {
	select {
	case <-a.told:
		return a.hello
	default:
		return peek.Unknown
	}
}

// answered waits for the server's answer. Once the run is over, the client won't hear it.
func (c *client) answered() error {
	select {
	case <-c.answer.told:
		return nil
	case <-c.g.inside.Done():
		return net.ErrClosed
	}
}

// rest passes on all that follows.
func (c *client) rest() error {
	if err := c.pass(c.have); err != nil || c.ended {
		return err
	}
	c.clearDeadline()
	c.buf = nil
	c.release()
	return c.g.copy(c.outside, c.inside, &c.f.sent)
}

// back passes on what the server says, and tells what it says first, if that is HTTP or TLS.
func (g *Gateway) back(f *flow, said *answer, inside, outside *conn) error {
	if !g.inspects(f) {
		return g.copy(inside, outside, &f.received)
	}
	if err := g.first(f, said, inside, outside); err != nil {
		if err == io.EOF {
			return nil
		}
		return err
	}
	return g.copy(inside, outside, &f.received)
}

// first passes on what the server says until it can be told what that is.
func (g *Gateway) first(f *flow, said *answer, inside, outside *conn) error {
	code, hello := 0, peek.NoHello
	held := int64(0)
	defer func() {
		said.tell(code, hello)
		g.release(held)
	}()
	for head := make([]byte, 0, 512); len(head) < peek.MaxHead; {
		if size := cap(head); len(head) == size {
			if !g.hold(int64(size)) {
				return refusal(whyConnections)
			}
			held += int64(size)
			head = slices.Grow(head, size)
		}
		n, err := outside.Read(head[len(head):cap(head)])
		if err != nil {
			return err
		}
		if !g.spend(int64(n)) {
			return refusal(whyBytes)
		}
		head = head[:len(head)+n]
		if _, err := inside.Write(head[len(head)-n:]); err != nil {
			return err
		}
		f.received.Add(int64(n))
		status, more, err := peek.Status(head)
		if err != nil {
			status = 0
		}
		if h := peek.ServersHello(head); !more && h != peek.Unknown {
			code, hello = status, h
			return nil
		}
	}
	return nil
}
