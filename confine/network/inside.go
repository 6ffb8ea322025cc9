package network

import "net/netip"

//go:generate go run ./gen

// The addresses of a run's own network. None of them is anybody's: those of IPv4 are
// for benchmarks of routers (RFC 2544), those of IPv6 are private ones (RFC 4193).
var (
	// Names is what domain names stand for inside, one address each.
	Names4 = netip.MustParsePrefix("198.18.0.0/15")
	Names6 = netip.MustParsePrefix("fd63:6f6e:6669:6e65::/64")

	// Resolver is what resolv.conf names. Every other address is answered as well.
	Resolver4 = netip.MustParseAddr("198.18.0.1")
	Resolver6 = netip.MustParseAddr("fd63:6f6e:6669:6e65::1")

	// Own is what connections come from.
	Own4 = netip.MustParseAddr("198.18.0.2")
	Own6 = netip.MustParseAddr("fd63:6f6e:6669:6e65::2")
)

const (
	// GatewayPort is where the redirected connections arrive, on loopback: no
	// program inside can bind it.
	GatewayPort = 1
	// ResolverPort is where questions arrive, whatever address they are for.
	ResolverPort = 53
	// Mark is on packets that the gateway sends, so that they aren't redirected.
	Mark = 0x636f6e66
)
