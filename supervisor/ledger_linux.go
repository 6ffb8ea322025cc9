package supervisor

import "github.com/confine-run/confine/status"

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
	if r.fellBack.NoPIDMax {
		e := ledger[status.Tasks]
		e.Mechanism, e.Details = "tree_watchdog", "the newest tasks too many are killed"
		e.FallbackReason = status.NprocUnboundForRoot
		ledger[status.Tasks] = e
	}
	fs := ledger[status.Filesystem]
	switch {
	case r.fellBack.OverlayReadOnly:
		fs.FallbackReason, fs.Effective = status.OverlayUnsupported, false
		fs.Details += "; what was to be an overlay is read-only"
	case r.fellBack.ProcOfCaller:
		fs.FallbackReason, fs.Effective = status.ProcMasked, false
		fs.Details += "; /proc is the caller's, read-only"
	case r.fellBack.MountSetattr:
		fs.FallbackReason = status.MountAttrUnsupported
		fs.Details += "; read-only by remounts"
	}
	ledger[status.Filesystem] = fs
	return ledger
}
