package confine

import (
	"strings"

	"github.com/confine-run/confine/status"
)

// nestedHint is what to do about a mount below a tree that is to be an overlay.
const nestedHint = "unmount it, or make overlays (--overlay) of directories that have no mounts below them"

// nested notes overlays that are read-only because of what is mounted below them. They
// are accepted like others that the kernel refuses: less can be done than was asked for,
// not more. Who insists is refused.
func (p *planner) nested() error {
	var trees []string
	root, asked := false, false
	for _, n := range p.plan.table.Nested {
		switch {
		case n.Path == p.plan.Box.Root.Src && p.plan.Box.Root.ReadOnly:
			root = true
			continue
		case n.Asked:
			asked = true
			trees = append(trees, n.Path+" ("+n.Mount+" is mounted below)")
		default:
			trees = append(trees, n.Path)
		}
	}
	var weaker []status.Capability
	if len(trees) > 0 {
		weaker = append(weaker, status.Filesystem)
		p.weaken(status.Filesystem, "; what was to be an overlay is read-only")
	}
	if asked {
		weaker = append(weaker, status.Overlay)
		p.weaken(status.Overlay, "; read-only: "+strings.Join(trees, ", "))
	}
	if root {
		weaker = append(weaker, status.Rootfs)
		p.weaken(status.Rootfs, "")
	}
	for _, c := range weaker {
		if requires(p.policy, c) {
			e := p.plan.Ledger[c]
			return &Unenforceable{Capability: c, Requested: e.Requested, Reason: e.FallbackReason, Details: strings.TrimPrefix(e.Details, "; "),
				Hint: nestedHint, Ledger: p.plan.Ledger}
		}
	}
	return nil
}

func (p *planner) weaken(c status.Capability, details string) {
	e := p.plan.Ledger[c]
	e.Effective, e.FallbackReason = false, status.OverlayNestedMount
	e.Details += details
	p.plan.Ledger[c] = e
}

// nestedTrees are those that the caller wanted as overlays.
func (p *planner) nestedTrees() (trees []string) {
	for _, n := range p.plan.table.Nested {
		if n.Asked && n.Path != p.plan.Box.Root.Src {
			trees = append(trees, n.Path)
		}
	}
	return trees
}
