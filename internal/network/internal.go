package network

import "net/netip"

// Kinds of addresses that are not the internet's.
const (
	loopback    = "loopback"
	private     = "private"
	linkLocal   = "link_local"
	carrier     = "carrier"
	metadata    = "metadata"
	multicast   = "multicast"
	unspecified = "unspecified"
	reserved    = "reserved"
	synthetic   = "synthetic" // a name's, inside
)

// Internal says which kind of internal address it is. It is ok for whatever is not
// the internet's, and for IPv6 addresses that stand for an IPv4 address of that sort.
func Internal(addr netip.Addr) (kind string, ok bool) {
	kind, _ = classify(plain(addr))
	return kind, kind != ""
}

// plain is the form in which addresses are compared.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// classify gives the kind of a plain address, and the range that has it: "" for
// one of the internet's. What names an address has to lie within its range.
func classify(a netip.Addr) (kind string, within netip.Prefix) {
	switch {
	case !a.IsValid():
		return reserved, netip.Prefix{}
	case a.Is4():
		for i := range internal4 {
			if p := internal4[i].prefix(); p.Contains(a) {
				return internal4[i].kind, p
			}
		}
		return "", netip.Prefix{}
	}
	for i := range internal6 {
		if p := internal6[i].prefix(); p.Contains(a) {
			return internal6[i].kind, p
		}
	}
	if four, n := embedded(a); n > 0 {
		for _, f := range four[:n] {
			if kind, _ := classify(f); kind != "" {
				return kind, netip.PrefixFrom(a, 128)
			}
		}
		return "", netip.Prefix{}
	}
	if unicast := netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20}), 3); !unicast.Contains(a) {
		return reserved, netip.PrefixFrom(a, 128)
	}
	return "", netip.Prefix{}
}

// within says whether a range lies in one of a kind.
func within(p netip.Prefix, kind string) bool {
	k, wide := classify(p.Addr())
	return k == kind && p.Bits() >= wide.Bits()
}

// embedded gives the IPv4 addresses that an IPv6 address stands for.
func embedded(a netip.Addr) (four [2]netip.Addr, n int) {
	b := a.As16()
	at := func(i int, flip byte) netip.Addr {
		return netip.AddrFrom4([4]byte{b[i] ^ flip, b[i+1] ^ flip, b[i+2] ^ flip, b[i+3] ^ flip})
	}
	for i := range embedding6 {
		e := &embedding6[i]
		if !e.prefix().Contains(a) {
			continue
		}
		four[0], n = at(e.at, 0), 1
		if e.client > 0 {
			four[1], n = at(e.client, 0xff), 2 // Teredo has it inverted
		}
		return four, n
	}
	return four, 0
}
