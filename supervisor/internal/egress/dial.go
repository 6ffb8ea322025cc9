package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/supervisor/internal/egress/names"
)

var (
	errRefused   = errors.New("refused by the rules")
	errNoAddress = errors.New("no address")
)

// policy is what may be reached, and where that is.
type policy struct {
	now      atomic.Pointer[plan.Network] // see Swap
	pool     names.Pool
	resolver names.Resolver
	own      func(a netip.Addr, f *flow) bool // see ownAddress
}

// rules are those that hold now.
func (p *policy) rules() *network.Rules { return &p.now.Load().Rules }

// addresses are those of the flow's other side that may be dialled. They are asked
// for and judged once, and nothing is asked again by name.
func (p *policy) addresses(ctx context.Context, f *flow) ([]netip.Addr, error) {
	switch {
	case f.exact:
		return []netip.Addr{f.to.Addr()}, nil
	case f.use == handoff.UseLocalhost && f.protocol == "udp":
		return []netip.Addr{servedAt(f.to.Port())}, nil
	case f.use == handoff.UseLocalhost:
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	case f.name == "":
		if v := p.checkOwn(p.rules(), f.to.Addr(), f, f.verdict); !v.Allowed {
			f.verdict = v
			return nil, errRefused
		}
		return []netip.Addr{f.to.Addr()}, nil
	}
	all, err := p.resolver.Addresses(ctx, f.name)
	if err != nil {
		return nil, err
	}
	return p.allowedOf(f, all)
}

// allowedOf are those of a name's addresses that may be dialled.
func (p *policy) allowedOf(f *flow, all []netip.Addr) (list []netip.Addr, err error) {
	var refused network.Verdict
	for _, a := range all {
		a = a.Unmap().WithZone("")
		v := p.rules().Resolved(f.name, a, f.to.Port())
		if v.Allowed {
			v = p.checkOwn(p.rules(), a, f, f.verdict)
		}
		if v.Allowed {
			list = append(list, a)
		} else {
			refused = v
		}
	}
	if len(list) == 0 && len(all) > 0 {
		f.verdict = refused
		return nil, errRefused
	}
	return list, nil
}

// checkOwn refuses this host's own addresses, which are another way to write its loopback; for others it gives v.
func (p *policy) checkOwn(rules *network.Rules, a netip.Addr, f *flow, v network.Verdict) network.Verdict {
	if rules.BlocksInternal() && p.own(a, f) {
		if named := rules.Own(a, f.to.Port()); !named.Allowed {
			return named
		}
	}
	return v
}

// dial connects to the first of the addresses that there is a way to: of datagrams nobody
// hears whether they arrive.
func dial(ctx context.Context, protocol string, list []netip.Addr, port uint16) (far net.Conn, err error) {
	if protocol == "tcp" {
		return dialTCP(ctx, list, port)
	}
	err = errNoAddress
	for _, a := range list {
		var d net.Dialer
		if far, err = d.DialContext(ctx, "udp", netip.AddrPortFrom(a, port).String()); err == nil {
			return far, nil
		}
	}
	return nil, err
}

func hostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
