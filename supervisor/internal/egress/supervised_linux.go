package egress

import (
	"bytes"
	"net"
	"net/netip"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/denials"
	"github.com/confine-run/confine/supervisor/internal/egress/emulate"
)

// Supervise begins to serve a run without a network of its own, whose socket calls
// are given to Take.
func (g *Gateway) Supervise() (err error) {
	g.sockets.calls, err = emulate.New(supervised{g})
	return err
}

// Take makes a call for who waits for it, and answers, without holding anybody up.
func (g *Gateway) Take(a *denials.Asked) { g.sockets.calls.Take(a) }

// supervised is the gateway for those calls.
type supervised struct{ g *Gateway }

func (s supervised) Go(do func()) bool {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	if s.g.inside.Err() != nil {
		return false
	}
	s.g.all.Go(do)
	return true
}

func (s supervised) Listen(l *net.TCPListener, serve func(*net.TCPConn)) error {
	return s.g.listen(l, func(c *conn) { serve(c.TCPConn) })
}

// flow is what a caller asks for. A loopback address means the caller of the run's: there is no other.
func (s supervised) flow(e *emulate.Flow) *flow {
	f := &flow{protocol: e.Protocol, from: e.From, to: e.To, pid: e.PID, comm: e.Comm}
	if e.To.Addr().IsLoopback() {
		f.use, f.exact = handoff.UseLocalhost, true
	}
	return f
}

func (s supervised) Admit(e *emulate.Flow) bool {
	f := s.flow(e)
	if e.To.Port() == resolverPort || s.g.judge(f) {
		return true
	}
	s.g.note(f, status.AttemptBlocked, string(f.verdict.Why))
	return false
}

func (s supervised) Refused(e *emulate.Flow, why string) {
	f := s.flow(e)
	f.verdict.Rule = why
	s.g.note(f, status.AttemptBlocked, why)
}

func (s supervised) RefusedUnix(name, why string, who func() (pid int, comm string)) {
	s.g.log.add(status.Attempt{Protocol: "unix", What: name, Verdict: status.AttemptBlocked, Why: why}, who)
}

func (s supervised) Carry(e *emulate.Flow, c *net.TCPConn) {
	if e.To.Port() == resolverPort {
		s.g.questionsOf(s.flow(e), newConn(c))
	} else {
		s.g.carry(s.flow(e), newConn(c))
	}
}

func (s supervised) Relay(e *emulate.Flow, back emulate.Back) (take func([]byte)) {
	f := s.flow(e)
	if e.To.Port() == resolverPort {
		f.use, f.exact = handoff.UseConnect, false
		return func(query []byte) { s.g.question(f, bytes.Clone(query), back.Say) }
	}
	d := &udpListener{g: s.g, use: f.use, asked: f, back: back, flows: map[[2]netip.AddrPort]*session{}}
	return func(payload []byte) { d.take(f.from, f.to, payload) }
}
