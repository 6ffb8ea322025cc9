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
// Built only when every step is done and starts the target only when the last
// of them is, and by the watches on this side.
func (j *job) ledger() map[status.Capability]status.Enforcement {
	ledger := make(map[status.Capability]status.Enforcement, len(j.plan.Ledger))
	for c, e := range j.plan.Ledger {
		e.Applied = e.Enabled && e.Mechanism != "none" && j.targetStarted
		e.Effective = e.Effective && e.Applied
		ledger[c] = e
	}
	if !j.ready {
		return ledger
	}
	j.refused.listenerLost(ledger)
	j.refused.auditLost(ledger)
	if j.fellBack.NoPIDMax {
		e := ledger[status.Tasks]
		e.Mechanism, e.Details = "tree_watchdog", "the newest tasks too many are killed"
		e.FallbackReason = status.NprocUnboundForRoot
		ledger[status.Tasks] = e
	}
	if j.fellBack.NoSysctls {
		e := ledger[status.Containment]
		e.Details += "; the run can use up what the user may have of inotify"
		ledger[status.Containment] = e
	}
	if j.fellBack.NestedUserns {
		weaken(ledger, status.Privileges, status.ProcMasked, "; against nested user namespaces only the system call filter stands")
	}
	if j.fellBack.ProcOfCaller {
		weaken(ledger, status.Filesystem, status.ProcMasked, "; /proc is the caller's, read-only")
	}
	if j.fellBack.OverlayKeepDirs && ledger[status.Overlay].Enabled {
		weaken(ledger, status.Overlay, status.OverlayKeepsDirs, "; directories of the tree can't be removed or replaced")
	}
	if j.fellBack.OverlayReadOnly {
		j.readOnlyOverlays(ledger)
	}
	if j.fellBack.RootReadOnly {
		e := ledger[status.Rootfs]
		e.Mechanism, e.FallbackReason = "read_only_bind", noOverlay(j.fellBack.RootNested)
		e.Details = "read-only; what the tree has no place for is left out"
		ledger[status.Rootfs] = e
	}
	if j.network.gateway != nil {
		j.enterNetwork(ledger)
	}
	if j.stays != "" || j.remains.Left() {
		weaken(ledger, status.Filesystem, status.ProtectedLeft, "; a protected path that did not exist before could not be removed")
	}
	fs := ledger[status.Filesystem]
	if j.fellBack.MountSetattr {
		fs.Details += "; read-only by remounts"
	}
	if j.fellBack.EtcChosen {
		fs.Details += "; of /etc a chosen part, since there can be no overlay over it"
	}
	if j.fellBack.EtcBound {
		fs.Details += "; /etc is bound, since there can be no overlay over it: a name that is hidden or the run's own, and replaced outside, comes back"
	}
	out, shut := j.outOfReach()
	if out > 0 && j.plan.Box.Root.Kind == 0 {
		fs.Details += fmt.Sprintf("; paths out of the user's reach, left out: %d", out)
	}
	if shut > 0 {
		fs.Details += fmt.Sprintf("; directories that the user can't search are hidden whole, for %d paths in them that were to be", shut)
	}
	ledger[status.Filesystem] = fs
	return ledger
}

// flatOverlays are the trees that the caller has read-only for overlays.
func (b *box) flatOverlays() (flat []string) {
	for i := range b.plan.Overlays {
		o := &b.plan.Overlays[i]
		if !slices.ContainsFunc(b.overlays.uppers, func(u handoff.Upper) bool { return u.Dst == o.Dst }) {
			flat = append(flat, o.Path)
		}
	}
	return flat
}

// readOnlyOverlays notes which trees the child could make no overlays of. What is not
// among those that the caller asked for is a cache of a tool chain.
func (b *box) readOnlyOverlays(ledger map[status.Capability]status.Enforcement) {
	why := noOverlay(b.fellBack.OverlayNested)
	weaken(ledger, status.Filesystem, why, "; what was to be an overlay is read-only")
	flat := b.flatOverlays()
	if len(flat) == 0 || !ledger[status.Overlay].Enabled {
		return
	}
	weaken(ledger, status.Overlay, why, "; read-only: "+strings.Join(flat, ", "))
	if len(flat) == len(b.plan.Overlays) {
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
func (b *box) outOfReach() (out, shut int) {
	for _, i := range b.skipped {
		if b.plan.Box.Namespaces&unix.CLONE_NEWNS != 0 && int(i) < len(b.plan.Box.Mounts) && b.plan.Box.Mounts[i].Kind == handoff.MountMask {
			shut++
		} else {
			out++
		}
	}
	return out, shut
}

// enterNetwork notes what the run's own network could not have.
func (b *box) enterNetwork(ledger map[status.Capability]status.Enforcement) {
	e := ledger[status.Network]
	if b.fellBack.NoRedirect && e.Mechanism == "network_redirect" {
		e.Mechanism, e.FallbackReason = "network_listeners", status.NftablesMissing
		e.Details = "every address is lo's own, and a gateway outside listens on the ports that rules name; names are its own"
		if b.plan.Network.Rules.AnyPort() {
			// Less is reachable than was asked for, never more.
			e.Effective = false
			e.Details += "; a rule that names no port holds for those ports alone"
		}
	}
	if b.fellBack.NoIPv6 {
		e.Details += "; IPv4 only"
	}
	if b.fellBack.NoPing && b.plan.Box.Network.Pings {
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
