package network

import (
	"net/netip"
	"testing"
)

func TestInternal(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1": loopback, "127.255.255.255": loopback, "::1": loopback, "::ffff:127.0.0.1": loopback,
		"10.0.0.0": private, "10.255.255.255": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.0.1": private, "fc00::1": private, "fdff::1": private, "fec0::1": private,
		"169.254.1.1": linkLocal, "fe80::1": linkLocal, "febf::1": linkLocal, "fe80::1%eth0": linkLocal,
		"169.254.169.254": metadata, "169.254.170.2": metadata, "100.100.100.200": metadata, "168.63.129.16": metadata, "192.0.0.192": metadata, "fd00:ec2::254": metadata, "fd20:ce::254": metadata, "fe80::a9fe:a9fe": metadata,
		"100.64.0.1": carrier, "100.127.255.255": carrier,
		"0.0.0.0": unspecified, "0.1.2.3": unspecified, "::": unspecified,
		"224.0.0.1": multicast, "239.255.255.255": multicast, "ff02::1": multicast,
		"255.255.255.255": reserved, "240.0.0.1": reserved, "192.0.2.1": reserved, "198.51.100.1": reserved, "203.0.113.1": reserved, "192.0.0.8": reserved, "192.88.99.1": reserved,
		"2001:db8::1": reserved, "3fff::1": reserved, "4000::1": reserved, "100::1": reserved, "::ffff:0:8.8.8.8": reserved, "2001:20::1": reserved,
		"198.18.0.1": synthetic, "198.19.255.255": synthetic, "fd63:6f6e:6669:6e65::1": synthetic, "::ffff:198.18.0.1": synthetic,

		// IPv6 that stands for IPv4.
		"::10.0.0.1": private, "::127.0.0.1": loopback, "64:ff9b::10.0.0.1": private, "64:ff9b::169.254.169.254": metadata, "64:ff9b::127.0.0.1": loopback,
		"64:ff9b:1::8.8.8.8": private, "64:ff9b:1:ffff::1": private,
		"2002:a00:1::1": private, "2002:7f00:1::": loopback, "2002:a9fe:a9fe::": metadata,
		"2001:0:a00:1::":                  private,  // the server of Teredo
		"2001:0:808:808:0:0:5601:5601":    metadata, // its client, 169.254.169.254 inverted
		"2001:0:808:808:0:ffff:f5ff:fffe": private,  // 10.0.0.1
		"64:ff9b::198.18.0.1":             synthetic,

		"8.8.8.8": "", "1.1.1.1": "", "9.255.255.255": "", "11.0.0.0": "", "172.15.255.255": "", "172.32.0.0": "", "192.167.255.255": "", "192.169.0.0": "", "169.253.255.255": "", "169.255.0.0": "",
		"100.63.255.255": "", "100.128.0.0": "", "126.255.255.255": "", "128.0.0.0": "", "198.17.255.255": "", "198.20.0.0": "", "223.255.255.255": "", "1.0.0.0": "",
		"2606:4700::1111": "", "2a00::1": "", "64:ff9b::8.8.8.8": "", "2002:808:808::1": "", "2001:0:808:808::f7f7:f7f7": "", "2001:4860::8888": "", "::ffff:8.8.8.8": "",
	} {
		kind, ok := Internal(netip.MustParseAddr(addr))
		if kind != want || ok != (want != "") {
			t.Errorf("%s is %q, %v; want %q", addr, kind, ok, want)
		}
	}
	if _, ok := Internal(netip.Addr{}); !ok {
		t.Error("what is no address is none of the internet's")
	}
}

// Whatever Go knows of as internal is internal, in each form.
func TestInternalIsNoLessThanGoKnows(t *testing.T) {
	for i := range 1 << 16 {
		four := netip.AddrFrom4([4]byte{byte(i >> 8), byte(i), byte(i * 7), byte(i * 13)})
		b := four.As4()
		forms := []netip.Addr{
			four,
			netip.AddrFrom16(four.As16()),
			netip.AddrFrom16([16]byte{0x00, 0x64, 0xff, 0x9b, 12: b[0], 13: b[1], 14: b[2], 15: b[3]}),
			netip.AddrFrom16([16]byte{0x20, 0x02, b[0], b[1], b[2], b[3], 15: 1}),
			netip.AddrFrom16([16]byte{0x20, 0x01, 0, 0, b[0], b[1], b[2], b[3], 12: 0xf7, 13: 0xf7, 14: 0xf7, 15: 0xf7}),
			netip.AddrFrom16([16]byte{0x20, 0x01, 0, 0, 8, 8, 8, 8, 12: ^b[0], 13: ^b[1], 14: ^b[2], 15: ^b[3]}),
		}
		want, _ := Internal(four)
		if known := four.IsPrivate() || four.IsLoopback() || four.IsMulticast() || four.IsUnspecified() || four.IsLinkLocalUnicast(); known && want == "" {
			t.Fatalf("%v is not internal", four)
		}
		for _, a := range forms {
			if kind, _ := Internal(a); kind != want {
				t.Fatalf("%v is %q, and %v %q", four, want, a, kind)
			}
		}
		six := netip.AddrFrom16([16]byte{byte(i >> 8), byte(i), 5, 5, 15: 9})
		if kind, _ := Internal(six); kind == "" && (!six.IsGlobalUnicast() || six.IsPrivate()) {
			t.Fatalf("%v is not internal", six)
		}
	}
}

// The first range that holds an address counts, so a narrower one stands before a wider.
func TestRangesAreInOrder(t *testing.T) {
	var all []netip.Prefix
	for i := range internal4 {
		all = append(all, internal4[i].prefix())
	}
	for i := range internal6 {
		all = append(all, internal6[i].prefix())
	}
	for i, p := range all {
		if p != p.Masked() {
			t.Errorf("%v has bits beyond its mask", p)
		}
		for _, earlier := range all[:i] {
			if earlier.Contains(p.Addr()) && earlier.Bits() <= p.Bits() {
				t.Errorf("%v is hidden by %v", p, earlier)
			}
		}
	}
}
