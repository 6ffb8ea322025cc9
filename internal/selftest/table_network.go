package selftest

import (
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// reach: nothing but what is named is reached.
func reach() []attempt {
	wall := walls(status.Network)
	const opened = "given connect tcp 127.0.0.1:{open} ; "
	return []attempt{
		{name: "tcp", invariant: 3, walls: wall, tries: "connects to a server on the host's loopback",
			inside:  "any connect tcp 127.0.0.1:{closed} , connect tcp [::ffff:127.0.0.1]:{closed} , connect tcp localhost:{closed}",
			outside: "connect tcp 127.0.0.1:{closed}", skip: named},
		{name: "mptcp", invariant: 3, walls: wall, tries: "the same by multipath TCP",
			inside: "mptcp 127.0.0.1:{closed}", skip: named},
		{name: "udp", invariant: 3, walls: wall, tries: "sends a datagram to a server on the host's loopback",
			inside: "datagram 127.0.0.1:{udp}", skip: named},
		{name: "icmp", invariant: 3, walls: wall, tries: "pings an address of the host",
			inside: "ping {address}", skip: listed},
		{name: "allowlist_port", invariant: 3, walls: wall, tries: "with one port of localhost allowed, connects to another",
			inside:  opened + "any connect tcp 127.0.0.1:{closed} , connect tcp [::ffff:127.0.0.1]:{closed} , connect tcp localhost:{closed} , mptcp 127.0.0.1:{closed} , datagram 127.0.0.1:{udp}",
			outside: "each connect tcp 127.0.0.1:{open} , connect tcp 127.0.0.1:{closed} , datagram 127.0.0.1:{udp}", policy: onePort},
		{name: "allowlist_address", invariant: 3, walls: wall, tries: "with one port of localhost allowed, connects to an address of the host",
			inside: opened + "connect tcp {address}:{open}", outside: "connect tcp 127.0.0.1:{open}", policy: onePort},
		{name: "allowlist_gateway", invariant: 3, walls: wall, tries: "with one port of localhost allowed, asks every port that listens to pass it on to another",
			inside: opened + "relay all 127.0.0.1:{closed}", outside: "relay {relay} 127.0.0.1:{closed}", policy: onePort},
		{name: "allowlist_names", invariant: 3, walls: wall, tries: "with one port of localhost allowed, asks for the address of another name",
			inside: opened + "resolve example.com", outside: "resolve example.com", policy: onePort},
	}
}

// onePort allows one port of localhost and nothing else.
func onePort(p *config.Policy, v values) {
	p.Network = config.Network{Allow: []string{"localhost:" + v["open"]}, BlockInternal: true}
}

// named: an attempt against what the policy names is none.
func named(p *config.Policy, v values) string {
	if p.Network.All || len(p.Network.Allow) == 0 {
		return ""
	}
	rules, err := p.Network.Rules()
	if err != nil {
		return err.Error()
	}
	if rules.Localhost(uint16(v.port("closed"))).Allowed || rules.Localhost(uint16(v.port("udp"))).Allowed {
		return "the policy names localhost"
	}
	return ""
}

func listed(p *config.Policy, _ values) string {
	if !p.Network.All && len(p.Network.Allow) > 0 {
		return "with an allowlist every address is the run's own, and answers itself"
	}
	return ""
}
