package egress

import (
	"bytes"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// ownAddress says whether the kernel keeps what is sent to an address on this host: it has more of them than
// its interfaces show, such as whole ranges by a route of the type "local". Where that can't be
// found out (a target can use up the descriptors that it takes), every address may be.
func ownAddress(a netip.Addr, f *flow) bool {
	protocol := uint8(unix.IPPROTO_TCP)
	if f.protocol == "udp" {
		protocol = unix.IPPROTO_UDP
	}
	return staysHere(linux.RouteType(a.Unmap().WithZone("").AsSlice(), protocol, f.to.Port()))
}

// staysHere says it of the kernel's answer for an address.
func staysHere(kind uint8, err error) bool {
	if err != nil {
		return err != unix.ENETUNREACH && err != unix.EHOSTUNREACH
	}
	return kind == unix.RTN_LOCAL || kind == unix.RTN_ANYCAST || kind == unix.RTN_BROADCAST
}

// servedAt is where on the caller's loopback datagrams to a port are taken. Of those nobody
// hears whether they arrive, so it is the kernel's list that says which of the two it is.
func servedAt(port uint16) netip.Addr {
	v4, v6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	if !takes("/proc/self/net/udp", port, v4, netip.IPv4Unspecified()) && takes("/proc/self/net/udp6", port, v6, netip.IPv6Unspecified()) {
		return v6
	}
	return v4
}

// takes says whether a table of the kernel's has a socket that takes datagrams of anybody's
// on a port of one of the addresses.
func takes(table string, port uint16, addresses ...netip.Addr) bool {
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
		for _, a := range addresses {
			if string(fields[1]) == local(a.AsSlice(), port) {
				return true
			}
		}
	}
	return false
}
