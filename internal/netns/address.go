package netns

//go:generate go run ./gen

// Hostname is the name of every sandbox, which its resolver knows.
const Hostname = "confine"

// The addresses of a run's own network. Those of IPv4 are for benchmarks of networks
// (RFC 2544), which nobody routes; those of IPv6 are private ones (RFC 4193).
const (
	// Range4 and Range6 are what names stand for inside.
	Range4, Range6 = "198.18.0.0/15", "fd63:6f6e:6669:6e65::/64"
	// Resolver4 is what resolv.conf names. Every other address is answered as well.
	Resolver4 = "198.18.0.1"
	// Own4 and Own6 are what connections come from.
	Own4, Own6 = "198.18.0.2", "fd63:6f6e:6669:6e65::2"

	// GatewayPort is where redirected flows arrive, on loopback: one that no program
	// inside can bind.
	GatewayPort = 1
	// ResolverPort is where questions arrive, whatever address they are for.
	ResolverPort = 53
	// Mark is on packets that the gateway sends, so that they aren't redirected.
	Mark = 0x636f6e66
)
