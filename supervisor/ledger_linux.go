package supervisor

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// confirmed is the ledger of a process: what was planned, and what has been written over it since by whoever found it out.
// Of that has been applied what the child confirms, which says Built only when every step is done and starts the target
// only when the last of them is.
func (j *job) confirmed() plan.Ledger { return j.ledger.Confirmed(j.targetStarted) }

// fallBack takes over what the child could not have as it was planned, and has another way for.
func (b *box) fallBack(f handoff.Fallbacks) {
	b.fellBack = f
	l := b.ledger
	if f.NoPIDMax {
		l.Fallback(status.Tasks, "tree_watchdog", status.NprocUnboundForRoot, "the newest tasks too many are killed")
	}
	if f.NoSysctls {
		l.Note(status.Containment, "the run can use up what the user may have of inotify")
	}
	if f.NestedUserns {
		l.Weaken(status.Privileges, status.ProcMasked, "against nested user namespaces only the system call filter stands")
	}
	if f.ProcOfCaller {
		l.Weaken(status.Filesystem, status.ProcMasked, "/proc is the caller's, read-only")
	}
	if f.OverlayKeepDirs {
		l.Weaken(status.Overlay, status.OverlayKeepsDirs, "directories of the tree can't be removed or replaced")
	}
	if f.OverlayReadOnly {
		b.readOnlyOverlays()
	}
	if f.RootReadOnly {
		l.Fallback(status.Rootfs, "read_only_bind", noOverlay(f.RootNested), "read-only; what the tree has no place for is left out")
	}
	if f.MountSetattr {
		l.Note(status.Filesystem, "read-only by remounts")
	}
	if f.EtcChosen {
		l.Note(status.Filesystem, "of /etc a chosen part, since there can be no overlay over it")
	}
	if f.EtcBound {
		l.Note(status.Filesystem, "/etc is bound, since there can be no overlay over it: a name that is hidden or the run's own, and replaced outside, comes back")
	}
	b.network.fallBack(b.plan, &f, l)
}

// readOnlyTrees are those of the caller's overlays that are none.
func (b *box) readOnlyTrees() (trees []string) {
	for i := range b.plan.Overlays {
		o := &b.plan.Overlays[i]
		if !slices.ContainsFunc(b.overlays.uppers, func(u handoff.Upper) bool { return u.Dst == o.Dst }) {
			trees = append(trees, o.Path)
		}
	}
	return trees
}

// readOnlyOverlays: the child could make no overlays of some trees. What is not among those
// that the caller asked for is a cache of a tool chain.
func (b *box) readOnlyOverlays() {
	l, why := b.ledger, noOverlay(b.fellBack.OverlayNested)
	l.Weaken(status.Filesystem, why, "what was to be an overlay is read-only")
	trees := b.readOnlyTrees()
	if len(trees) == 0 {
		return
	}
	if len(trees) == len(b.plan.Overlays) {
		l.Partial(status.Overlay, "read_only_bind", why, l[status.Overlay].Details)
	}
	l.Weaken(status.Overlay, why, "read-only: "+strings.Join(trees, ", "))
}

// noOverlay is why there is none.
func noOverlay(nested bool) status.FallbackReason {
	if nested {
		return status.OverlayNestedMount
	}
	return status.OverlayUnsupported
}

// leftOut takes over which optional mounts there are not, and those that hide more than they were to.
func (b *box) leftOut(skipped []uint32) {
	absent, hidden := 0, 0
	for _, i := range skipped {
		if b.plan.Box.Namespaces&unix.CLONE_NEWNS != 0 && int(i) < len(b.plan.Box.Mounts) && b.plan.Box.Mounts[i].Kind == handoff.MountMask {
			hidden++
		} else {
			absent++
		}
	}
	if absent > 0 && b.plan.Box.Root.Kind == 0 {
		b.ledger.Note(status.Filesystem, fmt.Sprintf("paths out of the user's reach, left out: %d", absent))
	}
	if hidden > 0 {
		b.ledger.Note(status.Filesystem, fmt.Sprintf("directories that the user can't search are hidden whole, for %d paths in them that were to be", hidden))
	}
}
