package network

import "testing"

func TestAstrayCounters(t *testing.T) {
	const snmp = "Ip: Forwarding OutDiscards OutNoRoutes\nIp: 2 9 3\nIcmp: NoPorts\nIcmp: 8\nUdp: InDatagrams NoPorts\nUdp: 7 4\nUdpLite: InDatagrams NoPorts\nUdpLite: 5 6\n"
	for _, c := range []struct {
		got, want uint32
	}{
		{column(snmp, "Ip:", "OutNoRoutes"), 3},
		{column(snmp, "Udp:", "NoPorts"), 4},
		{column(snmp, "Udp:", "OutNoRoutes"), 0},
		{column("Ip: a OutNoRoutes\nIp: 1\n", "Ip:", "OutNoRoutes"), 0},
		{column("", "Ip:", "OutNoRoutes"), 0},
		{line("Ip6InNoRoutes \t1\nIp6OutNoRoutes   \t5\n", "Ip6OutNoRoutes"), 5},
		{number("99999999999999999999"), 1 << 24},
		{number("-1"), 0},
	} {
		if c.got != c.want {
			t.Errorf("%d, want %d", c.got, c.want)
		}
	}
}
