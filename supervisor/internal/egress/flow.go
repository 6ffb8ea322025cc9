package egress

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/supervisor/internal/egress/names"
)

// flow is one connection, or the datagrams between two addresses.
type flow struct {
	protocol string // "tcp" or "udp"
	from, to netip.AddrPort
	use      handoff.Use

	name    string // what to stands for; "": itself
	verdict network.Verdict

	claimed  string // what the client said that it talks to, if that is another
	dialled  string // the address that name turned out to have
	incoming bool   // it began outside
	exact    bool   // a loopback address means itself, there being no other loopback
	pid      int    // whose it is inside, if that was looked for
	comm     string

	sent, received atomic.Int64 // by the inside

	ending
}

// ending is how a flow is ended from outside.
type ending struct {
	mu      sync.Mutex
	closers []func()
	aborted bool
	outside *conn // of TCP, once there is one
	silent  bool  // nothing more comes from inside
}

// onAbort says how to end the flow at once.
func (f *ending) onAbort(end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closers = append(f.closers, end)
	if f.aborted {
		end()
	}
}

// abort ends the flow at once.
func (f *ending) abort() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aborted = true
	for _, end := range f.closers {
		end()
	}
}

// leave stops reading from outside what has nobody inside to go to any more, if nothing more is sent
// either. What was sent still arrives: a reset would take back what the other side hasn't got yet.
func (f *ending) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent && f.outside != nil {
		_ = f.outside.CloseRead()
	}
}

// acknowledged is how much of what it has sent the other side has.
func (f *ending) acknowledged() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.outside == nil {
		return 0
	}
	return acknowledged(f.outside)
}

// what names the other side, as a rule would.
func (f *flow) what() string {
	if f.use == handoff.UseLocalhost {
		return hostPort("localhost", f.to.Port())
	}
	if f.name != "" {
		return hostPort(f.name, f.to.Port())
	}
	return f.to.String()
}

// host is whom it is to, as rules call it.
func (f *flow) host() string {
	switch {
	case f.use == handoff.UseLocalhost:
		return "localhost"
	case f.name != "":
		return f.name
	}
	return f.to.Addr().String()
}

// known says whether it is worth a word: nobody means the gateway itself.
func (f *flow) known() bool { return f.use == handoff.UseLocalhost || !f.to.Addr().IsLoopback() }

// isOwn says whether an address is the run's own.
func isOwn(a netip.Addr) bool {
	own := names.HostAddresses()
	return a == own.V4 || a == own.V6
}

// resolverPort is where questions are answered, whatever address they are for.
const resolverPort = 53

// judge finds out what the flow is for, and whether that may be reached as far as
// its name and port tell.
func (p *policy) judge(f *flow) bool {
	to, port := f.to.Addr(), f.to.Port()
	switch {
	case f.use == handoff.UseLocalhost:
		f.verdict = p.rules.Localhost(port)
	case names.Synthetic(to):
		name, ok := p.pool.Name(to)
		if !ok {
			f.verdict = network.Verdict{Why: network.ReasonNotAllowed}
			break
		}
		f.name = name
		f.verdict = p.rules.Connect(name, port)
	default:
		f.verdict = p.rules.Address(to, port)
	}
	return f.verdict.Allowed
}
