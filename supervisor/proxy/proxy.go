// Package proxy is the gateway of a run as a proxy of HTTP on the loopback of this host, for systems on which nothing leads a run's own connections
// to it. What a program asks it for is judged, dialled and told as everywhere (package egress); what doesn't ask it reaches nothing, if
// its sandbox lets it reach nobody else.
//
// It asks nobody who they are: whoever can connect to loopback reaches by it what the run may.
package proxy

import (
	"strconv"

	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress"
)

// Proxy is one that serves.
type Proxy struct {
	gateway *egress.Gateway
	Port    uint16
}

// Open begins to serve. tell, if not nil, is called for each attempt that is new of its kind, one at a time.
func Open(n *plan.Network, tell func(status.Attempt)) (*Proxy, error) {
	g, err := egress.New(n, tell)
	if err != nil {
		return nil, err
	}
	port, err := egress.Proxy(g)
	if err != nil {
		g.Close()
		return nil, err
	}
	return &Proxy{g, port}, nil
}

// Traffic is what was reached and refused until now.
func (p *Proxy) Traffic() *status.Traffic {
	s := p.gateway.Summary()
	return s.Traffic()
}

// Refused are the attempts that the rules refused until now, and how often something was.
func (p *Proxy) Refused() (list []status.Violation, times int64) {
	s := p.gateway.Summary()
	return s.Violations(), s.Refused()
}

// Exhausted says whether an attempt was refused for a limit of bytes or connections.
func Exhausted(a *status.Attempt) bool { return egress.Exhausted(a) }

// Close ends it, once nothing is left that would ask it.
func (p *Proxy) Close() { p.gateway.Close() }

// Environ has programs ask a proxy at a port: those that know one of these variables.
func Environ(port uint16) map[string]string {
	at := "http://127.0.0.1:" + strconv.Itoa(int(port))
	return map[string]string{
		"HTTP_PROXY": at, "http_proxy": at, "HTTPS_PROXY": at, "https_proxy": at, "ALL_PROXY": at, "all_proxy": at,
		"NO_PROXY": "", "no_proxy": "", "NODE_USE_ENV_PROXY": "1",
	}
}
