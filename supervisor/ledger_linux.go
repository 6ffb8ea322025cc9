package supervisor

import (
	"fmt"
	"slices"
	"strings"

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
	if r.fellBack.OverlayKeepDirs && ledger[status.Overlay].Enabled {
		weaken(ledger, status.Overlay, status.OverlayKeepsDirs, "; directories of the tree can't be removed or replaced")
	}
	if r.fellBack.OverlayReadOnly {
		r.readOnlyOverlays(ledger)
	}
	if r.fellBack.RootReadOnly {
		e := ledger[status.Rootfs]
		e.Mechanism, e.FallbackReason = "read_only_bind", noOverlay(r.fellBack.RootNested)
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
		fs.Details += fmt.Sprintf("; paths out of the user's reach, left out: %d", out)
	}
	if shut > 0 {
		fs.Details += fmt.Sprintf("; directories that the user can't search are hidden whole, for %d paths in them that were to be", shut)
	}
	ledger[status.Filesystem] = fs
	return ledger
}

// readOnlyOverlays notes which trees the child could make no overlays of. What is not
// among those that the caller asked for is a cache of a tool chain.
func (r *run) readOnlyOverlays(ledger map[status.Capability]status.Enforcement) {
	why := noOverlay(r.fellBack.OverlayNested)
	weaken(ledger, status.Filesystem, why, "; what was to be an overlay is read-only")
	var flat []string
	for i := range r.plan.Overlays {
		o := &r.plan.Overlays[i]
		if !slices.ContainsFunc(r.overlays.uppers, func(u handoff.Upper) bool { return u.Dst == o.Dst }) {
			flat = append(flat, o.Path)
		}
	}
	if len(flat) == 0 || !ledger[status.Overlay].Enabled {
		return
	}
	weaken(ledger, status.Overlay, why, "; read-only: "+strings.Join(flat, ", "))
	if len(flat) == len(r.plan.Overlays) {
		e := ledger[status.Overlay]
		e.Mechanism = "read_only_bind"
		ledger[status.Overlay] = e
	}
}

// noOverlay is why there is none.
func noOverlay(nested bool) status.FallbackReason {
	if nested {
		return status.OverlayNestedMount
	}
	return status.OverlayUnsupported
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
