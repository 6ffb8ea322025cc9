package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/supervisor/internal/egress/names"
)

var errRefused = errors.New("refused by the rules")

// policy is what may be reached, and where that is.
type policy struct {
	plan     *plan.Network
	rules    *network.Rules
	pool     names.Pool
	resolver names.Resolver
	route    func(to []byte, protocol uint8, port uint16) (kind uint8, err error)
}

// addresses are those of the flow's other side that may be dialled. They are asked
// for and judged once, and nothing is asked again by name.
func (p *policy) addresses(ctx context.Context, f *flow) ([]netip.Addr, error) {
	if list, known, err := p.atHand(f); known {
		return list, err
	}
	all, err := p.resolver.Addresses(ctx, f.name)
	if err != nil {
		return nil, err
	}
	return p.judged(f, all)
}

// atHand is the same where nobody has to be asked.
func (p *policy) atHand(f *flow) (list []netip.Addr, known bool, err error) {
	switch {
	case f.exact:
		return []netip.Addr{f.to.Addr()}, true, nil
	case f.use == handoff.UseLocalhost && f.protocol == "udp":
		return []netip.Addr{servedAt(f.to.Port())}, true, nil
	case f.use == handoff.UseLocalhost:
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, true, nil
	case f.name == "":
		if v := p.mine(f.to.Addr(), f); !v.Allowed {
			f.verdict = v
			return nil, true, errRefused
		}
		return []netip.Addr{f.to.Addr()}, true, nil
	}
	all, known, err := p.resolver.Known(f.name)
	if !known || err != nil {
		return nil, known, err
	}
	list, err = p.judged(f, all)
	return list, true, err
}

// judged are those of a name's addresses that may be dialled.
func (p *policy) judged(f *flow, all []netip.Addr) (list []netip.Addr, err error) {
	var refused network.Verdict
	for _, a := range all {
		a = a.Unmap().WithZone("")
		v := p.rules.Resolved(f.name, a, f.to.Port())
		if v.Allowed {
			v = p.mine(a, f)
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
func (p *policy) mine(a netip.Addr, f *flow) network.Verdict {
	if p.rules.BlocksInternal() && p.own(a, f) {
		if named := p.rules.Own(a, f.to.Port()); !named.Allowed {
			return named
		}
	}
	return f.verdict
}

// own says whether the kernel keeps what is sent to an address on this host: it has more of them than
// its interfaces show, such as whole ranges by a route of the type "local". Where that can't be
// found out (a target can use up the descriptors that it takes), every address may be.
func (p *policy) own(a netip.Addr, f *flow) bool {
	protocol := uint8(unix.IPPROTO_TCP)
	if f.protocol == "udp" {
		protocol = unix.IPPROTO_UDP
	}
	kind, err := p.route(a.Unmap().WithZone("").AsSlice(), protocol, f.to.Port())
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

// servedAt is where on the caller's loopback datagrams to a port are taken. Of those nobody
// hears whether they arrive, so it is the kernel's list that says which of the two it is.
func servedAt(port uint16) netip.Addr {
	v4, v6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	// Addresses are words of 32 bits, as they lie in memory.
	if !takes("/proc/self/net/udp", port, "00000000", "0100007F") &&
		takes("/proc/self/net/udp6", port, "00000000000000000000000000000000", "00000000000000000000000001000000") {
		return v6
	}
	return v4
}

// takes says whether a table of the kernel's has a socket that takes datagrams of anybody's
// on a port of one of the addresses.
func takes(table string, port uint16, addresses ...string) bool {
	const unconnected = "07"
	text, err := os.ReadFile(table)
	if err != nil {
		return false
	}
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 4 || string(fields[3]) != unconnected {
			continue
		}
		for _, address := range addresses {
			if string(fields[1]) == fmt.Sprintf("%s:%04X", address, port) {
				return true
			}
		}
	}
	return false
}
