package egress

import (
	"net"
	"net/netip"
	"testing"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/plan"
)

// Datagrams to localhost go to whichever of its two addresses a server is at.
func TestDatagramsGoWhereTheServerIs(t *testing.T) {
	g := gateway(t, plan.Network{Rules: allow("localhost")}, nil)
	for _, c := range []struct{ network, at, want string }{
		{"udp4", "127.0.0.1:0", "127.0.0.1"}, {"udp4", "0.0.0.0:0", "127.0.0.1"}, {"udp6", "[::1]:0", "::1"}, {"udp6", "[::]:0", "::1"},
	} {
		s, err := net.ListenPacket(c.network, c.at)
		if err != nil {
			t.Logf("%s: %v", c.at, err) // no IPv6
			continue
		}
		port := uint16(s.LocalAddr().(*net.UDPAddr).Port)
		f := &flow{protocol: "udp", use: handoff.UseLocalhost, to: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)}
		list, known, err := g.atHand(f)
		if err != nil || !known || len(list) != 1 || list[0].String() != c.want {
			t.Errorf("%s: %v, %v", c.at, list, err)
		}
		f.protocol = "tcp"
		if list, _, _ := g.atHand(f); len(list) != 2 {
			t.Errorf("%s, TCP: %v", c.at, list)
		}
		_ = s.Close()
		if got := servedAt(port).String(); got != "127.0.0.1" {
			t.Errorf("%s, closed: %s", c.at, got)
		}
	}
}
