package confine

import (
	"golang.org/x/sys/unix"

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
func (g ground) namespaces(policy *Policy) uintptr {
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
