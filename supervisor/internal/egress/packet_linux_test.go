package egress

import (
	"bytes"
	"net/netip"
	"testing"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/confine-run/confine/internal/must"
)

var (
	a4, b4 = netip.MustParseAddrPort("93.184.216.34:443"), netip.MustParseAddrPort("198.18.0.2:40001")
	a6, b6 = netip.MustParseAddrPort("[2606:2800::34]:443"), netip.MustParseAddrPort("[fd63:6f6e:6669:6e65::2]:40001")
)

// whole says whether the ones' complement sum over everything is all ones, as a receiver
// checks it.
func whole(start uint32, b []byte) bool { return checksum(start, b) == 0 }

// opened takes the header of IP off a packet.
func opened(t *testing.T, b []byte, from, to netip.Addr, protocol int) (body []byte) {
	t.Helper()
	if from.Is4() {
		h, err := ipv4.ParseHeader(b)
		must.Do(t, err)
		if !whole(0, b[:h.Len]) || h.TotalLen != len(b) || h.Protocol != protocol || h.Src.String() != from.String() || h.Dst.String() != to.String() || h.TTL == 0 {
			t.Errorf("the header is %v", h)
		}
		return b[h.Len:]
	}
	h, err := ipv6.ParseHeader(b)
	must.Do(t, err)
	if h.PayloadLen != len(b)-ipv6.HeaderLen || h.NextHeader != protocol || h.Src.String() != from.String() || h.Dst.String() != to.String() || h.HopLimit == 0 {
		t.Errorf("the header is %v", h)
	}
	return b[ipv6.HeaderLen:]
}

func TestDatagram(t *testing.T) {
	for _, ends := range [][2]netip.AddrPort{{a4, b4}, {a6, b6}} {
		for _, size := range []int{0, 1, 2, 511, 1200, 65000} {
			payload := bytes.Repeat([]byte{0xa5}, size)
			b := opened(t, datagram(ends[0], ends[1], payload), ends[0].Addr(), ends[1].Addr(), protocolUDP)
			if !whole(pseudo(ends[0].Addr(), ends[1].Addr(), protocolUDP, len(b)), b) {
				t.Errorf("%v, %d bytes: the checksum is wrong", ends, size)
			}
			if !bytes.Equal(b[:6], []byte{byte(443 >> 8), byte(443 & 0xff), byte(40001 >> 8), byte(40001 & 0xff), byte((8 + size) >> 8), byte(8 + size)}) || !bytes.Equal(b[8:], payload) {
				t.Errorf("%v, %d bytes: %x", ends, size, b[:8])
			}
		}
	}
}

// TestDatagramHasAChecksum: the one that comes out as 0 would say that there is none.
func TestDatagramHasAChecksum(t *testing.T) {
	for i := range 1 << 16 {
		b := datagram(a6, b6, []byte{byte(i >> 8), byte(i)})
		if sum := b[ipv6.HeaderLen+6 : ipv6.HeaderLen+8]; sum[0] == 0 && sum[1] == 0 {
			t.Fatalf("payload %04x has no checksum", i)
		}
	}
}

func TestUnreachable(t *testing.T) {
	for _, c := range []struct {
		from, to netip.AddrPort
		protocol int
		kind     icmp.Type
		code     int
		header   int
	}{
		{b4, a4, protocolICMP, ipv4.ICMPTypeDestinationUnreachable, 3, ipv4.HeaderLen},
		{b6, a6, protocolICMPv6, ipv6.ICMPTypeDestinationUnreachable, 4, ipv6.HeaderLen},
	} {
		b := opened(t, unreachable(c.from, c.to, 100), c.to.Addr(), c.from.Addr(), c.protocol)
		start := uint32(0)
		if c.protocol == protocolICMPv6 {
			start = pseudo(c.to.Addr(), c.from.Addr(), protocolICMPv6, len(b))
		}
		if !whole(start, b) {
			t.Error("the checksum is wrong")
		}
		m, err := icmp.ParseMessage(c.protocol, b)
		if err != nil || m.Type != c.kind || m.Code != c.code {
			t.Fatalf("%+v, %v", m, err)
		}
		// What it is about, by which the kernel finds the socket.
		about := m.Body.(*icmp.DstUnreach).Data
		about = about[c.header:]
		if !bytes.Equal(about[:6], []byte{byte(40001 >> 8), byte(40001 & 0xff), byte(443 >> 8), byte(443 & 0xff), 0, 108}) {
			t.Errorf("it is about %x", about)
		}
	}
}
