package netns

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
)

// Config is what a run's own network leads to, beside names and addresses.
type Config struct {
	Named     []uint16 // ports to listen on where nothing can be redirected
	Localhost []uint16 // ports of the caller's
	GID       uint32   // who may ping
	Publish   bool     // ports inside are reached from outside
	Others    bool     // there are names and addresses to be reached at all
}

// Inside is how a run's own network is prepared.
func Inside(w Config) handoff.Network {
	n := handoff.Network{Dials: w.Publish}
	if w.Others {
		n.Pings, n.Ping = true, w.GID
		n.Requests = []handoff.Netlink{
			{Name: "routes", Protocol: unix.NETLINK_ROUTE, Messages: routes4, Acks: routes4Acks},
			{Name: "IPv6 routes", Protocol: unix.NETLINK_ROUTE, Messages: routes6, Acks: routes6Acks, Role: handoff.RoleIPv6},
			{Name: "nftables", Protocol: unix.NETLINK_NETFILTER, Messages: rules4, Acks: rules4Acks, Role: handoff.RoleRedirect},
			{Name: "IPv6 nftables", Protocol: unix.NETLINK_NETFILTER, Messages: rules6, Acks: rules6Acks, Role: handoff.RoleRedirectIPv6},
		}
	}
	for i := range versions {
		v := &versions[i]
		if w.Others {
			n.Sockets = append(n.Sockets, v.redirectSockets(w.Named)...)
		}
		for _, port := range w.Localhost {
			n.Sockets = append(n.Sockets,
				v.socket(unix.SOCK_STREAM, v.localhost, port, handoff.UseLocalhost, v.base),
				v.socket(unix.SOCK_DGRAM, v.localhost, port, handoff.UseLocalhost, v.base, v.origDst...))
		}
	}
	return n
}

// version is one of the two of IP.
type version struct {
	family                uint16
	localhost, anybody    string
	only                  []handoff.SocketOption // this version
	transparent           handoff.SocketOption
	origDst               []handoff.SocketOption // tells what address a datagram was sent to, and can answer from there
	observed              []handoff.SocketOption // does so where packets are seen without their header
	base, redirect, named handoff.Role
}

var versions = [...]version{
	{
		family: unix.AF_INET, localhost: "\x7f\x00\x00\x01", anybody: "\x00\x00\x00\x00",
		transparent: handoff.SocketOption{Level: unix.SOL_IP, Name: unix.IP_TRANSPARENT, Value: 1},
		origDst:     []handoff.SocketOption{{Level: unix.SOL_IP, Name: unix.IP_RECVORIGDSTADDR, Value: 1}},
		base:        handoff.RoleBase, redirect: handoff.RoleRedirect, named: handoff.RoleNamed,
	},
	{
		family: unix.AF_INET6, localhost: "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01",
		anybody:     "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		only:        []handoff.SocketOption{{Level: unix.SOL_IPV6, Name: unix.IPV6_V6ONLY, Value: 1}},
		transparent: handoff.SocketOption{Level: unix.SOL_IPV6, Name: unix.IPV6_TRANSPARENT, Value: 1},
		// An address that is local by a route alone is none to send from, for IPv6.
		origDst:  []handoff.SocketOption{{Level: unix.SOL_IPV6, Name: unix.IPV6_RECVORIGDSTADDR, Value: 1}, {Level: unix.SOL_IPV6, Name: unix.IPV6_FREEBIND, Value: 1}},
		observed: []handoff.SocketOption{{Level: unix.SOL_IPV6, Name: unix.IPV6_RECVPKTINFO, Value: 1}},
		base:     handoff.RoleIPv6, redirect: handoff.RoleRedirectIPv6, named: handoff.RoleNamedIPv6,
	},
}

// marked is on what must not be redirected.
var marked = handoff.SocketOption{Level: unix.SOL_SOCKET, Name: unix.SO_MARK, Value: Mark}

// redirectSockets are those for everybody but localhost.
func (v *version) redirectSockets(named []uint16) []handoff.Socket {
	all := []handoff.Socket{
		v.socket(unix.SOCK_STREAM, v.anybody, ResolverPort, handoff.UseResolve, v.base),
		v.socket(unix.SOCK_DGRAM, v.anybody, ResolverPort, handoff.UseResolve, v.base, append(slices.Clip(v.origDst), marked)...),
		v.socket(unix.SOCK_STREAM, v.localhost, GatewayPort, handoff.UseConnect, v.redirect, v.transparent),
		v.socket(unix.SOCK_DGRAM, v.localhost, GatewayPort, handoff.UseConnect, v.redirect, append(slices.Clip(v.origDst), v.transparent)...),
		{Family: v.family, Type: unix.SOCK_RAW, Protocol: unix.IPPROTO_RAW, Options: []handoff.SocketOption{marked},
			Role: v.redirect, Use: handoff.UseConnect},
	}
	for _, protocol := range []uint16{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		all = append(all, handoff.Socket{Family: v.family, Type: unix.SOCK_RAW, Protocol: protocol,
			Options: v.observed, Role: v.named, Use: handoff.UseObserve})
	}
	for _, port := range named {
		if port == ResolverPort {
			continue
		}
		all = append(all,
			v.socket(unix.SOCK_STREAM, v.anybody, port, handoff.UseConnect, v.named),
			v.socket(unix.SOCK_DGRAM, v.anybody, port, handoff.UseConnect, v.named, v.origDst...))
	}
	return all
}

func (v *version) socket(kind uint16, address string, port uint16, use handoff.Use, role handoff.Role, more ...handoff.SocketOption) handoff.Socket {
	return handoff.Socket{
		Family: v.family, Type: kind, Options: append(append([]handoff.SocketOption{}, v.only...), more...),
		Address: address, Port: port, Listen: kind == unix.SOCK_STREAM, Role: role, Use: use,
	}
}
