package process

import (
	"bytes"
	"encoding/hex"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/netns"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// gateway plans the way out of the run's own network, if there is to be one.
func (p *planner) gateway() error {
	n := &p.policy.Network
	rules, err := n.Rules()
	if err != nil {
		return err
	}
	p.plan.rules = rules
	if n.All || len(n.Allow) == 0 && len(n.Publish) == 0 {
		return nil
	}
	if p.ground == bare {
		p.supervise()
		return nil
	}
	w := netns.Config{GID: p.gid, Publish: len(n.Publish) > 0}
	var anyPort bool
	w.Named, anyPort = rules.NamedPorts()
	ports, any := rules.LocalhostPorts()
	if any {
		ports = append(ports, listening()...)
	}
	// With the caller's own ports alone, too, what else is tried is told: unless these
	// are ports that this takes.
	w.Others = len(w.Named) > 0 || anyPort || len(n.Allow) > 0 && !slices.ContainsFunc(ports, taken)
	for _, port := range ports {
		own := w.Others && taken(port)
		if own && !any {
			return &config.UsageError{
				Msg:  "localhost:" + strconv.Itoa(int(port)) + ": inside, that port is the run's own",
				Hint: "names are resolved in the caller's network without it",
			}
		}
		if !own && rules.Localhost(port).Allowed && !slices.Contains(w.Localhost, port) {
			w.Localhost = append(w.Localhost, port)
		}
	}
	if len(w.Localhost) > maxLocalhost {
		w.Localhost = w.Localhost[:maxLocalhost]
		p.notice("network: of the caller's own ports only " + strconv.Itoa(maxLocalhost) + " can be reached at a time")
	}
	p.plan.Box.Network = netns.Inside(w)
	p.plan.Box.Refuse.NoRedirect = config.Requires(p.policy, status.Network)
	p.plan.Network = reachable(n, rules)
	for _, word := range n.Publish {
		outside, inside, _ := strings.Cut(word, ":")
		a, errA := strconv.ParseUint(outside, 10, 16)
		b, errB := strconv.ParseUint(inside, 10, 16)
		if errA != nil || errB != nil {
			return &config.UsageError{Msg: "publish " + strconv.Quote(word) + " is not HOSTPORT:PORT"}
		}
		p.plan.Network.Publish = append(p.plan.Network.Publish, plan.Publish{Outside: uint16(a), Inside: uint16(b)})
	}
	return nil
}

// taken says whether names and addresses need a port of the inside.
func taken(port uint16) bool { return port == netns.ResolverPort || port == netns.GatewayPort }

// reachable is what a gateway holds a run to.
func reachable(n *config.Network, rules *network.Rules) plan.Network {
	return plan.Network{Rules: *rules, Log: n.Log, MaxBytes: n.MaxBytes, MaxConnections: int(n.MaxConnections)}
}

// supervise plans the way out without a network of the run's own: the supervisor makes
// the calls that say whom to reach. Where it can't there is no way.
func (p *planner) supervise() {
	switch {
	case len(p.policy.Network.Allow) == 0:
		return
	case p.policy.Seccomp == "off" || p.policy.Seccomp == "":
		p.unsupervised = "there is no filter of system calls that could hand them on"
	case slices.Contains(p.policy.Require, string(status.Syscalls)+"="+silent):
		p.unsupervised = "its calls may not be handed on (--require " + string(status.Syscalls) + "=" + silent + ")"
	default:
		p.unsupervised = p.host.CantSupervise(p.plan.Box.OtherIDs)
	}
	if p.unsupervised == "" {
		p.plan.Network = reachable(&p.policy.Network, p.plan.rules)
		p.plan.Network.Supervised = true
	}
}

// supervised is how the network is entered where its calls are.
func (p *planner) supervised() status.Enforcement {
	details := "a supervisor makes the calls that say whom to reach, on sockets of the target's; names are its own; no TCP port is listened on, and datagrams arrive from those alone to whom the target has sent some"
	if p.ruleset.HandledNet != 0 {
		details += "; Landlock keeps the target's own from every TCP port"
	}
	e := on(strings.Join(p.policy.Network.Allow, ","), "seccomp_connect", details)
	e.FallbackReason = p.lowered.reason
	if !p.ruleset.Held() {
		e.Effective = false
		e.Details += "; without Landlock a target can make the caller's other processes reach what it may not"
	}
	return e
}

// networked says whether sockets lead anywhere but to lo.
func (p *planner) networked() bool {
	n := &p.policy.Network
	return n.All || p.ground != bare && (len(n.Allow) > 0 || len(n.Publish) > 0)
}

// resolver is who answers for names inside.
func (p *planner) resolver() string {
	if n := &p.policy.Network; n.All || len(n.Allow) == 0 || p.ground == bare {
		return ""
	}
	return netns.Resolver4
}

// maxLocalhost bounds the ports of the caller's that lead out, each of which is four sockets.
const maxLocalhost = 200

// listening are the ports of the caller's loopback that something listens on, lowest
// first: what "localhost" without a port is when a run starts.
func listening() (ports []uint16) {
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		table, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(table) {
			if port, ok := listener(bytes.Fields(line)); ok && !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	slices.Sort(ports)
	return ports
}

// listener reads a line of /proc/net/tcp: one that listens on loopback, or everywhere.
func listener(fields [][]byte) (port uint16, ok bool) {
	const listens = "0A"
	if len(fields) < 4 || string(fields[3]) != listens {
		return 0, false
	}
	address, number, ok := strings.Cut(string(fields[1]), ":")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(number, 16, 16)
	if err != nil {
		return 0, false
	}
	raw, err := hex.DecodeString(address)
	if err != nil {
		return 0, false
	}
	// Words of 32 bits, the lowest byte first.
	any := !slices.ContainsFunc(raw, func(b byte) bool { return b != 0 })
	four := len(raw) >= 4 && raw[len(raw)-1] == 127
	six := len(raw) == 16 && raw[12] == 1 && !slices.ContainsFunc(slices.Concat(raw[:12], raw[13:]), func(b byte) bool { return b != 0 })
	return uint16(n), any || four || six
}

// network says what is reachable.
func (p *planner) network() status.Enforcement {
	n := &p.policy.Network
	switch {
	case n.All && n.Log:
		e := notEnforceable("all, logged", `what goes over the caller's own network is not seen; --allow-network "*" leads all names through the gateway`)
		return e
	case n.All:
		return status.Enforcement{Requested: "all", Mechanism: "none", Details: "the caller's network"}
	case len(n.Allow) == 0:
		return on("none", "network_namespace", "lo only")
	case p.plan.Network.Supervised:
		return p.supervised()
	case p.ground == bare:
		e := notEnforceable(strings.Join(n.Allow, ","), "there is no network namespace, and "+p.unsupervised+"; no network instead")
		e.FallbackReason = p.lowered.reason
		return e
	}
	if len(p.plan.Box.Network.Requests) == 0 {
		return on(strings.Join(n.Allow, ","), "network_namespace",
			"lo only, whose ports that rules name lead to the caller's; port "+strconv.Itoa(netns.ResolverPort)+" or "+strconv.Itoa(netns.GatewayPort)+
				" is one of them, so names are not answered, and what else is tried is refused by the kernel and not told")
	}
	return on(strings.Join(n.Allow, ","), "network_redirect", "every address is lo's own, nftables leads all flows to a gateway outside, names are its own")
}

// published says what of the inside is reached from outside.
func (p *planner) published() status.Enforcement {
	n := &p.policy.Network
	asked := strings.Join(n.Publish, ",")
	switch {
	case len(n.Publish) == 0:
		return status.Enforcement{Requested: "none", Mechanism: "none"}
	case n.All:
		return status.Enforcement{Requested: asked, Enabled: true, Mechanism: "none", Details: "on the caller's network every port inside is one of the caller's"}
	case p.ground == bare:
		return status.Enforcement{Requested: asked, Enabled: true, Mechanism: "none", Details: "there is no network namespace", FallbackReason: p.lowered.reason}
	}
	return on(asked, "gateway", "on the caller's loopback alone")
}
