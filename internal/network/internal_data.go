package network

import "net/netip"

type range4 struct {
	ip   [4]byte
	bits int
	kind string
}

type range6 struct {
	ip   [16]byte
	bits int
	kind string
}

func (r *range4) prefix() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4(r.ip), r.bits) }
func (r *range6) prefix() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom16(r.ip), r.bits) }

// internal4 is every range of IPv4 that is not the internet's; the first that
// holds an address counts. Literals only: they cost nothing at start.
var internal4 = [...]range4{
	{[4]byte{169, 254, 169, 254}, 32, metadata}, // AWS, Google, Azure, OpenStack and most others
	{[4]byte{169, 254, 170, 2}, 32, metadata},   // AWS ECS: a task's credentials
	{[4]byte{169, 254, 170, 23}, 32, metadata},  // AWS EKS: a pod's credentials
	{[4]byte{169, 254, 0, 23}, 32, metadata},    // Tencent
	{[4]byte{100, 100, 100, 200}, 32, metadata}, // Alibaba
	{[4]byte{192, 0, 0, 192}, 32, metadata},     // Oracle, classic
	{[4]byte{168, 63, 129, 16}, 32, metadata},   // Azure's agent: public by number, the host's by route

	{[4]byte{0}, 8, unspecified},          // RFC 1122; Linux connects 0.0.0.0 to itself
	{[4]byte{127}, 8, loopback},           // RFC 1122
	{[4]byte{10}, 8, private},             // RFC 1918
	{[4]byte{172, 16}, 12, private},       // RFC 1918
	{[4]byte{192, 168}, 16, private},      // RFC 1918
	{[4]byte{169, 254}, 16, linkLocal},    // RFC 3927
	{[4]byte{100, 64}, 10, carrier},       // RFC 6598
	{[4]byte{198, 18}, 15, synthetic},     // RFC 2544, benchmarks: names stand for it inside
	{[4]byte{192, 0, 0}, 24, reserved},    // RFC 6890, protocol assignments
	{[4]byte{192, 0, 2}, 24, reserved},    // RFC 5737, documentation
	{[4]byte{198, 51, 100}, 24, reserved}, // RFC 5737
	{[4]byte{203, 0, 113}, 24, reserved},  // RFC 5737
	{[4]byte{192, 88, 99}, 24, reserved},  // RFC 7526, relays of 6to4 once
	{[4]byte{224}, 4, multicast},          // RFC 5771
	{[4]byte{240}, 4, reserved},           // RFC 1112; with 255.255.255.255
}

// internal6 is the same for IPv6, beside what embeds IPv4 and what lies outside 2000::/3.
var internal6 = [...]range6{
	{[16]byte{0xfd, 0x00, 0x0e, 0xc2, 14: 0x02, 15: 0x54}, 128, metadata},         // fd00:ec2::254, AWS
	{[16]byte{0xfd, 0x00, 0x0e, 0xc2, 15: 0x23}, 128, metadata},                   // fd00:ec2::23, AWS EKS
	{[16]byte{0xfd, 0x20, 0x00, 0xce, 14: 0x02, 15: 0x54}, 128, metadata},         // fd20:ce::254, Google
	{[16]byte{0xfe, 0x80, 12: 0xa9, 13: 0xfe, 14: 0xa9, 15: 0xfe}, 128, metadata}, // fe80::a9fe:a9fe, OpenStack
	{[16]byte{0xfd, 0x63, 0x6f, 0x6e, 0x66, 0x69, 0x6e, 0x65}, 64, synthetic},     // fd63:6f6e:6669:6e65::/64
	{[16]byte{}, 128, unspecified},                                                // ::
	{[16]byte{15: 1}, 128, loopback},                                              // ::1
	{[16]byte{0xfc}, 7, private},                                                  // RFC 4193
	{[16]byte{0xfe, 0x80}, 10, linkLocal},                                         // RFC 4291
	{[16]byte{0xfe, 0xc0}, 10, private},                                           // RFC 3879, site-local once
	{[16]byte{0xff}, 8, multicast},                                                // RFC 4291
	{[16]byte{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, private},                   // RFC 8215: 64:ff9b:1::/48, a site's own way to IPv4
	{[16]byte{0x20, 0x01, 0x0d, 0xb8}, 32, reserved},                              // RFC 3849, documentation
	{[16]byte{0x3f, 0xff}, 20, reserved},                                          // RFC 9637, documentation
	{[16]byte{0x20, 0x01, 0x00, 0x10}, 28, reserved},                              // RFC 4843, ORCHID
	{[16]byte{0x20, 0x01, 0x00, 0x20}, 28, reserved},                              // RFC 7343, ORCHIDv2
	{[16]byte{0x20, 0x01, 0x00, 0x02}, 48, reserved},                              // RFC 5180, benchmarks
}

// embedding6 are the forms in which IPv6 has an IPv4 address within it.
var embedding6 = [...]struct {
	range6
	at     int // where, in bytes
	client int // where a second one is, inverted; 0: none
}{
	{range6{[16]byte{10: 0xff, 11: 0xff}, 96, ""}, 12, 0},     // ::ffff:0:0/96, mapped
	{range6{[16]byte{}, 96, ""}, 12, 0},                       // ::/96, compatible
	{range6{[16]byte{0x00, 0x64, 0xff, 0x9b}, 96, ""}, 12, 0}, // 64:ff9b::/96, NAT64
	{range6{[16]byte{0x20, 0x02}, 16, ""}, 2, 0},              // 2002::/16, 6to4
	{range6{[16]byte{0x20, 0x01}, 32, ""}, 4, 12},             // 2001::/32, Teredo: its server, and its client
}
