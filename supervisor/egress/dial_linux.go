package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/confine/network"
	"github.com/confine-run/confine/internal/handoff"
)

var errRefused = errors.New("refused by the rules")

// addresses are those of the flow's other side that may be dialled. They are asked
// for and judged once, and nothing is asked again by name.
func (g *Gateway) addresses(ctx context.Context, f *flow) ([]netip.Addr, error) {
	if list, known, err := g.atHand(f); known {
		return list, err
	}
	all, err := g.resolver.Addresses(ctx, f.name)
	if err != nil {
		return nil, err
	}
	return g.judged(f, all)
}

// atHand is the same where nobody has to be asked.
func (g *Gateway) atHand(f *flow) (list []netip.Addr, known bool, err error) {
	switch {
	case f.exact:
		return []netip.Addr{f.to.Addr()}, true, nil
	case f.use == handoff.UseLocalhost && f.protocol == "udp":
		return []netip.Addr{servedAt(f.to.Port())}, true, nil
	case f.use == handoff.UseLocalhost:
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, true, nil
	case f.name == "":
		if v := g.mine(f.to.Addr(), f); !v.Allowed {
			f.verdict = v
			return nil, true, errRefused
		}
		return []netip.Addr{f.to.Addr()}, true, nil
	}
	all, known, err := g.resolver.Known(f.name)
	if !known || err != nil {
		return nil, known, err
	}
	list, err = g.judged(f, all)
	return list, true, err
}

// judged are those of a name's addresses that may be dialled.
func (g *Gateway) judged(f *flow, all []netip.Addr) (list []netip.Addr, err error) {
	var refused network.Verdict
	for _, a := range all {
		a = a.Unmap().WithZone("")
		v := g.rules.Resolved(f.name, a, f.to.Port())
		if v.Allowed {
			v = g.mine(a, f)
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

// mine refuses this host's own addresses, which are another way to write its loopback.
func (g *Gateway) mine(a netip.Addr, f *flow) network.Verdict {
	if g.rules.BlocksInternal() && g.own(a, f) {
		if named := g.rules.Own(a, f.to.Port()); !named.Allowed {
			return named
		}
	}
	return f.verdict
}

// own says whether the kernel keeps what is sent to an address on this host: it has more of them than
// its interfaces show, such as whole ranges by a route of the type "local". Where that can't be
// found out (a target can use up the descriptors that it takes), every address may be.
func (g *Gateway) own(a netip.Addr, f *flow) bool {
	protocol := uint8(unix.IPPROTO_TCP)
	if f.protocol == "udp" {
		protocol = unix.IPPROTO_UDP
	}
	kind, err := g.route(a.Unmap().WithZone("").AsSlice(), protocol, f.to.Port())
	if err != nil {
		return err != unix.ENETUNREACH && err != unix.EHOSTUNREACH
	}
	return kind == unix.RTN_LOCAL || kind == unix.RTN_ANYCAST || kind == unix.RTN_BROADCAST
}

// dial connects to the first of the addresses that there is a way to: of datagrams nobody
// hears whether they arrive.
func dial(ctx context.Context, list []netip.Addr, port uint16) (conn net.Conn, err error) {
	err = errors.New("no address")
	for _, a := range list {
		var d net.Dialer
		if conn, err = d.DialContext(ctx, "udp", netip.AddrPortFrom(a, port).String()); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func hostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
