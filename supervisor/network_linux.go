package supervisor

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress"
)

// network is the gateway of a run whose own network leads somewhere.
type network struct {
	gateway *egress.Gateway
	served  int // of the sockets that the plan has for this kernel
	summary *egress.Summary
	swapped bool // the rules are not those that it began with
}

// PortError is a port that new rules name and nobody listens on.
type PortError = egress.PortError

// changedRules is in the ledger from the first change on.
const changedRules = "the rules were changed while it stood"

// SayChanged has a ledger say what is requested of the network by now, and with the first change that it was something else.
func SayChanged[L ~map[status.Capability]status.Enforcement](l L, requested string, first bool) {
	e := l[status.Network]
	e.Requested = requested
	if first && e.Details != "" {
		e.Details += "; "
	}
	if first {
		e.Details += changedRules
	}
	l[status.Network] = e
}

// swap has other rules hold from now on.
func (n *network) swap(b *box, to *plan.Network, requested string) error {
	if n.gateway == nil {
		return errors.New("there is no gateway")
	}
	if err := n.gateway.Swap(to, b.fellBack.NoRedirect); err != nil {
		return err
	}
	SayChanged(b.ledger, requested, !n.swapped)
	for _, j := range b.jobs {
		SayChanged(j.ledger, requested, !n.swapped)
	}
	n.swapped = true
	return nil
}

// supervise begins to serve a run that has no network of its own, if this is one.
func (b *box) supervise() *SetupError {
	if !b.plan.Network.Supervised {
		return nil
	}
	g, err := egress.New(&b.plan.Network, b.opts.Attempt)
	if err == nil {
		b.network.gateway = g // closed at the end, in any case
		err = g.Supervise()
	}
	if err != nil {
		return failed("network", err)
	}
	return nil
}

// sockets gives the gateway what was made inside.
func (b *box) sockets(m *handoff.Sockets, fds []int) *SetupError {
	n := &b.network
	if n.gateway == nil {
		g, err := egress.New(&b.plan.Network, b.opts.Attempt)
		if err != nil {
			linux.CloseAll(fds)
			return &SetupError{Step: "network", Op: err.Error()}
		}
		n.gateway = g
	}
	made := b.plan.Box.Network.Made(m.Fallbacks)[n.served:]
	if len(made) == 0 && b.plan.Box.Network.Dials && len(fds) == 1 {
		return published(n.gateway.ServeDials(fds[0], b.child.pidfd))
	}
	if len(fds) == 0 || len(fds) > len(made) {
		linux.CloseAll(fds)
		return &SetupError{Step: "network", Op: "not the sockets that were planned"}
	}
	n.served += len(fds)
	if err := n.gateway.Serve(made[:len(fds)], fds); err != nil {
		return failed("network", err)
	}
	return nil
}

// fallBack writes down what the run's own network could not have.
func (n *network) fallBack(p *plan.Plan, f *handoff.Fallbacks, l plan.Ledger) {
	if n.gateway == nil {
		return
	}
	if f.NoRedirect && l[status.Network].Mechanism == "network_redirect" {
		l.Fallback(status.Network, "network_listeners", status.NftablesMissing,
			"every address is lo's own, and a gateway outside listens on the ports that rules name; names are its own")
		if p.Network.Rules.AnyPort() {
			// Less is reachable than was asked for, never more.
			l.Weaken(status.Network, "", "a rule that names no port holds for those ports alone")
		}
	}
	if f.NoIPv6 {
		l.Note(status.Network, "IPv4 only")
	}
	if f.NoPing && p.Box.Network.Pings {
		l.Note(status.Network, "ping is not answered")
	}
}

// published says which port could not be had.
func published(err error) *SetupError {
	if err == nil {
		return nil
	}
	e := failed("publish", err)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		e.Op, e.Whole = op.Op, false
		if op.Addr != nil {
			e.Path = op.Addr.String()
		}
	}
	return e
}

// nameProcesses lets the gateway say who attempted what.
func (n *network) nameProcesses(proc int) {
	if n.gateway == nil {
		return
	}
	own := -1
	if proc >= 0 {
		if fd, err := unix.FcntlInt(uintptr(proc), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			own = fd
		}
	}
	n.gateway.Inside(own)
}

// end closes the gateway, when nothing is left inside.
func (n *network) end() {
	if n.gateway == nil {
		return
	}
	n.gateway.Close()
	s := n.gateway.Summary()
	n.summary = &s
}

// report is what went out, and what did not.
func (n *network) report() *status.Traffic {
	if n.summary == nil {
		return nil
	}
	return n.summary.Traffic()
}

// now is that until now. The gateway of a box that stands is no other any more.
func (n *network) now() *status.Traffic {
	if n.gateway == nil {
		return nil
	}
	s := n.gateway.Summary()
	return s.Traffic()
}

// refused is how often the rules refused something.
func (n *network) refused() (times int64) {
	if n.summary == nil {
		return 0
	}
	return n.summary.Refused()
}

// violations are the attempts that the rules refused.
func (n *network) violations() (list []status.Violation) {
	if n.summary == nil {
		return nil
	}
	return n.summary.Violations()
}
