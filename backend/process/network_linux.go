package process

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/landlock"
	"github.com/confine-run/confine/internal/netns"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/internal/seccomp"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
)

// networkCompiler compiles who may be reached, and the way out: a network of the run's own and a gateway, or without
// namespaces a supervisor that makes the calls.
type networkCompiler struct {
	*planner
	unreached string // why without namespaces nothing of what is allowed is reached, or heard of
}

func (p *networkCompiler) compile() (err error) {
	l, n := p.plan.Ledger, &p.policy.Network
	if p.plan.rules, err = n.Rules(); err != nil {
		return err
	}
	switch {
	case n.All:
		l.Missing(status.Publish, "", "on the caller's network every port inside is one of the caller's")
		if n.Log {
			l.Missing(status.Network, status.NotInBuild,
				`what goes over the caller's own network is not seen; --allow-network "*" leads all names through the gateway`)
		}
	case p.tier == tierNoNS:
		l.Missing(status.Publish, p.why.reason, "there is no network namespace")
		p.supervise()
	case !n.Heard() && len(n.Publish) == 0:
		l.Enforced(status.Network, "network_namespace", "lo only")
	default:
		return p.gateway()
	}
	return nil
}

// gateway plans the way out of the run's own network.
func (p *networkCompiler) gateway() error {
	l, n, rules := p.plan.Ledger, &p.policy.Network, p.plan.rules
	w := netns.Config{GID: p.gid, Publish: len(n.Publish) > 0}
	var anyPort bool
	w.Named, anyPort = rules.NamedPorts()
	ports, any := rules.LocalhostPorts()
	if any {
		ports = append(ports, listening()...)
	}
	// The gateway also hears of what no rule names, so that it can be reported. That takes ports of the
	// run's own lo, so it is left out where only these ports of the caller's are allowed.
	w.Others = len(w.Named) > 0 || anyPort || n.Heard() && !slices.ContainsFunc(ports, taken)
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
	switch {
	case !n.Heard():
		l.Enforced(status.Network, "network_namespace", "lo only")
	case len(p.plan.Box.Network.Requests) == 0:
		l.Enforced(status.Network, "network_namespace",
			"lo only, whose ports that rules name lead to the caller's; port "+strconv.Itoa(netns.ResolverPort)+" or "+strconv.Itoa(netns.GatewayPort)+
				" is one of them, so names are not answered, and what else is tried is refused by the kernel and not told")
	default:
		l.Enforced(status.Network, "network_redirect", "every address is lo's own, nftables leads all flows to a gateway outside, names are its own")
	}
	for _, word := range n.Publish {
		outside, inside, _ := strings.Cut(word, ":")
		a, errA := strconv.ParseUint(outside, 10, 16)
		b, errB := strconv.ParseUint(inside, 10, 16)
		if errA != nil || errB != nil {
			return &config.UsageError{Msg: "publish " + strconv.Quote(word) + " is not HOSTPORT:PORT"}
		}
		p.plan.Network.Publish = append(p.plan.Network.Publish, plan.Publish{Outside: uint16(a), Inside: uint16(b)})
	}
	l.Enforced(status.Publish, "gateway", "on the caller's loopback alone")
	return nil
}

// taken says whether names and addresses need a port of the inside.
func taken(port uint16) bool { return port == netns.ResolverPort || port == netns.GatewayPort }

// reachable are the rules and limits that the gateway holds a run to.
func reachable(n *config.Network, rules *network.Rules) plan.Network {
	return plan.Network{Rules: *rules, Log: n.Log, MaxBytes: n.MaxBytes, MaxConnections: int(n.MaxConnections)}
}

// supervise plans the way out without a network namespace: the filter hands the calls that name a peer to the supervisor,
// which makes them. Where it can't, nothing is reached.
func (p *networkCompiler) supervise() {
	why := ""
	switch {
	case !p.policy.Network.Heard():
		return
	case p.policy.Seccomp == "off" || p.policy.Seccomp == "":
		why = "there is no filter of system calls that could hand them on"
	case slices.Contains(p.policy.Require, string(status.Syscalls)+"="+silent):
		why = "its calls may not be handed on (--require " + string(status.Syscalls) + "=" + silent + ")"
	default:
		why = p.host.CantSupervise(p.plan.Box.OtherIDs)
	}
	if why != "" {
		p.unsupervised(why)
		return
	}
	p.plan.Network = reachable(&p.policy.Network, p.plan.rules)
	p.plan.Network.Supervised = true
	l, rules := p.plan.Ledger, p.plan.ruleset
	details := "a supervisor makes the calls that say whom to reach, on sockets of the target's; names are its own; no TCP port is listened on, and datagrams arrive from those alone to whom the target has sent some"
	if rules.HandledNet != 0 {
		details += "; Landlock keeps the target's own from every TCP port"
	}
	l.Fallback(status.Network, "seccomp_connect", p.why.reason, details)
	if !rules.Held() {
		l.Weaken(status.Network, "", "without Landlock a target can make the caller's other processes reach what it may not")
	}
}

// unsupervised notes why the supervisor makes no calls, so that nothing is reached.
func (p *networkCompiler) unsupervised(why string) {
	p.plan.Network, p.unreached = plan.Network{}, why
}

// filtered writes the line of the network where there is no namespace and no supervisor makes its calls: the filter, if
// there is one, and Landlock refuse sockets.
func (p *networkCompiler) filtered(f *seccomp.Filter) {
	if p.tier != tierNoNS || p.policy.Network.All || p.plan.Network.Supervised {
		return
	}
	l, rules := p.plan.Ledger, p.plan.ruleset
	reached := "those of the host are reached by their path"
	if rules.HoldsSockets() {
		reached = "those of the host only if named"
	}
	switch {
	case f == nil && rules.HandledNet != 0:
		l.Partial(status.Network, "landlock_tcp", p.why.reason, "no plain TCP; MPTCP, UDP and everything else is open without a filter of system calls")
		return
	case f == nil:
		l.Missing(status.Network, p.why.reason, "no filter of system calls")
		return
	case rules.Scoped&landlock.ScopeAbstractSockets != 0:
		l.Partial(status.Network, "seccomp_socket", p.why.reason, "unix sockets only: "+reached+"; Landlock keeps abstract ones inside")
	default:
		l.Partial(status.Network, "seccomp_socket", p.why.reason, "unix sockets only: "+reached+", and abstract ones")
	}
	if rules.HandledNet != 0 {
		l.Note(status.Network, "Landlock refuses TCP once more")
	}
	if p.unreached != "" {
		l.Note(status.Network, "what is allowed isn't reached, and what is tried isn't told: "+p.unreached)
	}
}

// networked says whether sockets lead anywhere but to lo.
func (p *planner) networked() bool {
	n := &p.policy.Network
	return n.All || p.tier != tierNoNS && (n.Heard() || len(n.Publish) > 0)
}

// resolver is who answers for names inside.
func (p *planner) resolver() string {
	if n := &p.policy.Network; n.All || !n.Heard() || p.tier == tierNoNS {
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

// Network changes whom the processes inside may reach, where a gateway decides that.
func (s *sandbox) Network(ctx context.Context, n *config.Network) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	s.work.RLock()
	defer s.work.RUnlock()
	at, spec := s.now(), *s.asked()
	policy := *spec.Policy
	was := policy.Network
	policy.Network = *n
	spec.Policy, spec.PolicyDigest, spec.Resolved = &policy, "", nil
	if err := policy.Validate(); err != nil {
		return err
	}
	rules, err := policy.Network.Rules()
	if err != nil {
		return err
	}
	if err := at.plan.canSwap(&was, &policy.Network, rules); err != nil {
		return err
	}
	to := reachable(&policy.Network, rules)
	to.Publish, to.Supervised = at.plan.Network.Publish, at.plan.Network.Supervised
	requested := backend.Asked(&policy)[status.Network].Requested
	err = at.box.Network(&to, requested)
	var port supervisor.PortError
	var gone *supervisor.SetupError
	switch {
	case errors.As(err, &port):
		return &config.UsageError{Msg: "network: " + err.Error(), Hint: reopen}
	case errors.As(err, &gone):
		return backend.ErrClosed
	case err != nil:
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted, s.ledger = newWanted(&spec), maps.Clone(s.ledger)
	supervisor.SayChanged(s.ledger, requested, !s.changed)
	s.changed = true
	return nil
}

const reopen = "open a sandbox with it"

// canSwap refuses by name what a box can't be given that was built for other rules.
func (p *Plan) canSwap(was, n *config.Network, rules *network.Rules) error {
	refuse := func(msg, hint string) error { return &config.UsageError{Msg: "network: " + msg, Hint: hint} }
	added, removed := missing(n.Publish, was.Publish), missing(was.Publish, n.Publish)
	switch {
	case was.All && n.All:
		return refuse("the sandbox is on the caller's own network, where there are no rules to change", `--allow-network "*" leads all names through a gateway`)
	case was.All:
		return refuse("the sandbox is on the caller's own network, which it was opened with", reopen)
	case n.All:
		return refuse("a sandbox that has a network of its own can't be put on the caller's", `--allow-network "*" allows all names`)
	case len(added)+len(removed) > 0:
		return refuse("ports are published when a sandbox is opened: "+strings.Join(slices.Concat(added, removed), ", "), reopen)
	case p.Network.Supervised:
		return nil // every call is judged, and made outside
	case p.tier == tierNoNS:
		return refuse("there is no network namespace, and the sandbox was opened with none of the supervisor's calls", `open it with --allow-network "*" --deny-network "*": it reaches nothing then, until --allow-network HOST --deny-network none gives it something`)
	}
	if named, any := rules.NamedPorts(); (any || len(named) > 0) && len(p.Box.Network.Requests) == 0 {
		return refuse("the sandbox was opened with nothing that leads to names or addresses", `open it with --allow-network "*" --deny-network "*": it reaches nothing then, until --allow-network HOST --deny-network none gives it something`)
	}
	ports, any := rules.LocalhostPorts()
	if _, before := p.rules.LocalhostPorts(); any && !before {
		return refuse("which ports of the caller's own lead out is decided when a sandbox is opened: localhost", reopen)
	}
	for _, port := range ports {
		if rules.Localhost(port).Allowed && !p.leadsOut(port) {
			return refuse("which ports of the caller's own lead out is decided when a sandbox is opened: localhost:"+strconv.Itoa(int(port)), reopen)
		}
	}
	return nil
}

// leadsOut says whether a port inside is one of the caller's.
func (p *Plan) leadsOut(port uint16) bool {
	return slices.ContainsFunc(p.Box.Network.Sockets, func(s handoff.Socket) bool { return s.Use == handoff.UseLocalhost && s.Port == port })
}

// missing are those of some words that are not among others.
func missing(some, of []string) (all []string) {
	for _, w := range some {
		if !slices.Contains(of, w) {
			all = append(all, w)
		}
	}
	return all
}
