package process

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/status"
)

// ground is what a run stands on: how much of its isolation the kernel grants to
// this caller. It is found by trying, from the top; the plan and its ledger are
// made for one ground, and what the policy doesn't accept there is refused.
type ground int

const (
	inUserns ground = iota // all namespaces, in a user namespace of the run's own
	asRoot                 // all but that one: root, where user namespaces are denied
	bare                   // none: what every process may do to itself and its children
)

// denial is why a run doesn't stand on higher ground, and what to do about it.
type denial struct {
	reason status.FallbackReason
	hint   string
}

// below is the next lower ground after a set-up that failed because the kernel
// denied its namespaces, and why; false where that isn't so, or there is none. What stands
// in a tree that is shown, an image perhaps, must not lead there.
func (g ground) below(f *host.Facts, e *status.SetupError, image bool) (lower ground, why denial, ok bool) {
	if e == nil || e.Errno == 0 || g == bare {
		return g, why, false
	}
	why = diagnose(f, e)
	switch {
	case e.Step == "mounts" && e.Op == "openat2" && e.Errno == int(unix.EACCES):
		return g, why, false // the mode of a directory of the caller's, on any ground
	case !cloning(e) && !why.ofNamespaces():
		return g, why, false
	case g == asRoot && (e.Step == "mounts" || e.Step == "root" && image):
		return g, why, false // what is denied to root is denied before there are such trees
	case why.reason == "":
		why.reason = status.UsernsDenied
	}
	if g == inUserns && f.Capable(unix.CAP_SYS_ADMIN) {
		return asRoot, why, true
	}
	return bare, why, true
}

// cloning: it failed before anything was done inside.
func cloning(e *status.SetupError) bool {
	return e.Step == "start" && e.Op == "clone" || e.Step == "maps"
}

func (d denial) ofNamespaces() bool {
	return d.reason == status.UsernsDenied || d.reason == status.UsernsDeniedAppArmor
}

// diagnose says why a set-up failed, as far as that is the host's doing. That it denies
// namespaces is tried once more, apart from the run: the same error can come of what stands
// in a tree.
func diagnose(f *host.Facts, e *status.SetupError) (why denial) {
	why.reason, why.hint = host.Diagnose(f, failureOf(e))
	if why.ofNamespaces() && !cloning(e) {
		if g, _ := standing(f); g == inUserns {
			return denial{}
		}
	}
	return why
}

// standing is the ground that probes find, for a plan that isn't carried out.
func standing(f *host.Facts) (ground, denial) {
	denied := denial{reason: status.UsernsDenied, hint: "confine doctor says what to do"}
	for _, probe := range []string{"userns", "uid_map", "mountns", "tmpfs"} {
		ok, err := host.Has(probe)
		switch {
		case ok && err == nil:
		case f.Capable(unix.CAP_SYS_ADMIN):
			return asRoot, denied
		default:
			return bare, denied
		}
	}
	return inUserns, denial{}
}

// namespaces that the child is cloned into: all that the ground has, but for the
// caller's network if that is asked for.
func (g ground) namespaces(policy *config.Policy) uintptr {
	if g == bare {
		return 0
	}
	flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS)
	if g == inUserns {
		flags |= unix.CLONE_NEWUSER
	}
	if !policy.Network.All {
		flags |= unix.CLONE_NEWNET
	}
	return flags
}

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
		if config.Requires(p.policy, c) {
			e := p.plan.Ledger[c]
			return &config.Unenforceable{Capability: c, Requested: e.Requested, Reason: e.FallbackReason, Details: strings.TrimPrefix(e.Details, "; "),
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
