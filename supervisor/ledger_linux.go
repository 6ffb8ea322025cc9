package supervisor

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/status"
)

// ledger is the planned one with what was confirmed: by the child, which says
// Ready only when every step is done and starts the target only when the last
// of them is, and by the watches on this side.
func (r *run) ledger() map[status.Capability]status.Enforcement {
	ledger := make(map[status.Capability]status.Enforcement, len(r.plan.Ledger))
	for c, e := range r.plan.Ledger {
		e.Applied = e.Enabled && e.Mechanism != "none" && r.targetStarted
		e.Effective = e.Effective && e.Applied
		ledger[c] = e
	}
	if !r.ready {
		return ledger
	}
	r.listenerLost(ledger)
	r.auditLost(ledger)
	if r.fellBack.NoPIDMax {
		e := ledger[status.Tasks]
		e.Mechanism, e.Details = "tree_watchdog", "the newest tasks too many are killed"
		e.FallbackReason = status.NprocUnboundForRoot
		ledger[status.Tasks] = e
	}
	if r.fellBack.NestedUserns {
		weaken(ledger, status.Privileges, status.ProcMasked, "; against nested user namespaces only the system call filter stands")
	}
	if r.fellBack.ProcOfCaller {
		weaken(ledger, status.Filesystem, status.ProcMasked, "; /proc is the caller's, read-only")
	}
	if r.fellBack.OverlayReadOnly {
		weaken(ledger, status.Filesystem, status.OverlayUnsupported, "; what was to be an overlay is read-only")
		if ledger[status.Overlay].Enabled {
			weaken(ledger, status.Overlay, status.OverlayUnsupported, "; read-only")
		}
	}
	if r.fellBack.OverlayKeepDirs && ledger[status.Overlay].Enabled {
		weaken(ledger, status.Overlay, status.OverlayKeepsDirs, "; directories of the tree can't be removed or replaced")
	}
	if r.fellBack.RootReadOnly {
		e := ledger[status.Rootfs]
		e.Mechanism, e.FallbackReason = "read_only_bind", status.OverlayUnsupported
		e.Details = "read-only; what the tree has no place for is left out"
		ledger[status.Rootfs] = e
	}
	if r.network.gateway != nil {
		r.enterNetwork(ledger)
	}
	if len(r.left) > 0 {
		weaken(ledger, status.Filesystem, "", "; a protected path that did not exist before could not be removed")
	}
	fs := ledger[status.Filesystem]
	if r.fellBack.MountSetattr {
		fs.Details += "; read-only by remounts"
	}
	out, shut := r.outOfReach()
	if out > 0 && r.plan.Child.Root.Kind == 0 {
		fs.Details += fmt.Sprintf("; %d paths out of the user's reach left out", out)
	}
	if shut > 0 {
		fs.Details += fmt.Sprintf("; directories that the user can't search are hidden whole, for %d paths in them that were to be", shut)
	}
	ledger[status.Filesystem] = fs
	return ledger
}

// outOfReach counts what was left out, and what is hidden with all that is around it.
func (r *run) outOfReach() (out, shut int) {
	for _, i := range r.skipped {
		if r.plan.Child.Namespaces&unix.CLONE_NEWNS != 0 && int(i) < len(r.plan.Child.Mounts) && r.plan.Child.Mounts[i].Kind == handoff.MountMask {
			shut++
		} else {
			out++
		}
	}
	return out, shut
}

// enterNetwork notes what the run's own network could not have.
func (r *run) enterNetwork(ledger map[status.Capability]status.Enforcement) {
	e := ledger[status.Network]
	if r.fellBack.NoRedirect && e.Mechanism == "network_redirect" {
		e.Mechanism, e.FallbackReason = "network_listeners", status.NftablesMissing
		e.Details = "every address is lo's own, and a gateway outside listens on the ports that rules name; names are its own"
		if r.plan.Network.AnyPort {
			// Less is reachable than was asked for, never more.
			e.Effective = false
			e.Details += "; a rule that names no port holds for those ports alone"
		}
	}
	if r.fellBack.NoIPv6 {
		e.Details += "; IPv4 only"
	}
	if r.fellBack.NoPing && r.plan.Child.Network.Pings {
		e.Details += "; ping is not answered"
	}
	ledger[status.Network] = e
}

// weaken notes that a capability holds less than was planned, and why.
func weaken(ledger map[status.Capability]status.Enforcement, c status.Capability, why status.FallbackReason, details string) {
	e := ledger[c]
	e.Effective = false
	if why != "" {
		e.FallbackReason = why
	}
	e.Details += details
	ledger[c] = e
}
