package names

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
)

// MaxNames is how many names a run can have addresses for. Ordinary programs ask for
// tens; the bound is there for those that enumerate a wildcard.
const MaxNames = 4096

// The two ranges and what is where in them. The IPv4 one is for benchmarks of
// networks (RFC 2544), so nobody routes it; the IPv6 one is a unique local prefix
// (RFC 4193) whose 56 bits spell "confine".
const (
	range4     = 198<<24 | 18<<16 // /15
	range6     = 0xfd63_6f6e_6669_6e65
	atResolver = 1
	atHost     = 2
	atNames    = 16
)

// Pair is the two addresses that stand for the same thing.
type Pair struct{ V4, V6 netip.Addr }

// pairAt is the addresses with a number in the ranges.
func pairAt(n uint32) Pair {
	var v4 [4]byte
	var v6 [16]byte
	binary.BigEndian.PutUint32(v4[:], range4+n)
	binary.BigEndian.PutUint64(v6[:8], range6)
	binary.BigEndian.PutUint64(v6[8:], uint64(n))
	return Pair{netip.AddrFrom4(v4), netip.AddrFrom16(v6)}
}

// ResolverAddresses are where the resolver is said to be. It answers at any other
// address too.
func ResolverAddresses() Pair { return pairAt(atResolver) }

// HostAddresses are the sandbox's own.
func HostAddresses() Pair { return pairAt(atHost) }

func loopback() Pair {
	return Pair{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
}

// Ranges are the prefixes that synthetic addresses are from. What a real name
// resolves to must not be in them: nothing outside is meant by these addresses.
func Ranges() (v4, v6 netip.Prefix) {
	base := pairAt(0)
	return netip.PrefixFrom(base.V4, 15), netip.PrefixFrom(base.V6, 64)
}

// numberOf is an address's number in its range. An address with a zone is in none.
func numberOf(addr netip.Addr) (n uint64, ok bool) {
	if addr.Zone() != "" {
		return 0, false
	}
	if addr = addr.Unmap(); addr.Is4() {
		v4 := addr.As4()
		n = uint64(binary.BigEndian.Uint32(v4[:])) - range4 // wraps to something large below the range
		return n, n < 1<<17
	}
	if !addr.Is6() {
		return 0, false
	}
	v6 := addr.As16()
	return binary.BigEndian.Uint64(v6[8:]), binary.BigEndian.Uint64(v6[:8]) == range6
}

// Synthetic tells whether an address is from the ranges, given or not.
func Synthetic(addr netip.Addr) bool {
	_, ok := numberOf(addr)
	return ok
}

const (
	reverse4 = ".in-addr.arpa"
	reverse6 = ".ip6.arpa"
)

// addressOf is the address that a name of the reverse tree stands for. Only whole
// addresses have one: anything else below in-addr.arpa is a name like any other.
func addressOf(name string) (netip.Addr, bool) {
	if octets, ok := strings.CutSuffix(name, reverse4); ok {
		return addressOf4(octets)
	}
	if nibbles, ok := strings.CutSuffix(name, reverse6); ok {
		return addressOf6(nibbles)
	}
	return netip.Addr{}, false
}

func addressOf4(octets string) (netip.Addr, bool) {
	var v4 [4]byte
	for i := len(v4) - 1; i >= 0; i-- {
		octet, rest, more := strings.Cut(octets, ".")
		n, err := strconv.ParseUint(octet, 10, 8)
		if err != nil || more != (i > 0) || strconv.FormatUint(n, 10) != octet {
			return netip.Addr{}, false
		}
		v4[i], octets = byte(n), rest
	}
	return netip.AddrFrom4(v4), true
}

func addressOf6(nibbles string) (netip.Addr, bool) {
	var v6 [16]byte
	if len(nibbles) != 4*len(v6)-1 {
		return netip.Addr{}, false
	}
	for i := range 2 * len(v6) {
		at := 2 * i
		n, err := strconv.ParseUint(nibbles[at:at+1], 16, 4)
		if err != nil || at > 0 && nibbles[at-1] != '.' {
			return netip.Addr{}, false
		}
		v6[len(v6)-1-i/2] |= byte(n) << (4 * (i % 2))
	}
	return netip.AddrFrom16(v6), true
}
