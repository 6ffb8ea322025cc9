package process

import (
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/status"
)

// tier is how much of a run's isolation the kernel grants to this caller. It is found by trying, from the top; the plan
// and its ledger are made for one tier, and what the policy doesn't accept there is refused.
type tier int

const (
	tierUserNS tier = iota // all namespaces, in a user namespace of the run's own
	tierRoot               // all but that one: root, where user namespaces are denied
	tierNoNS               // none: what every process may do to itself and its children
)

// downgrade is why a run isn't on a higher tier, and what to do about it.
type downgrade struct {
	reason status.FallbackReason
	hint   string
}

// next is the tier to try after a set-up on t that failed, and why: ok is false unless the kernel denied the namespaces of
// t and there is a lower tier. Nothing that lies in a tree that is shown, as an image is, may bring a run there.
func (t tier) next(f *host.Facts, e *status.SetupError, image bool) (lower tier, why downgrade, ok bool) {
	if e == nil || e.Errno == 0 || t == tierNoNS || scarce(unix.Errno(e.Errno)) {
		return t, why, false
	}
	why = diagnose(f, e)
	switch {
	case e.Step == "mounts" && e.Op == "openat2" && e.Errno == int(unix.EACCES):
		return t, why, false // the mode of a directory of the caller's, on any tier
	case !cloning(e) && !why.ofNamespaces():
		return t, why, false
	case t == tierRoot && (e.Step == "mounts" || e.Step == "root" && image):
		return t, why, false // what is denied to root is denied before there are such trees
	case why.reason == "":
		why.reason = status.UsernsDenied
	}
	if t == tierUserNS && f.Capable(unix.CAP_SYS_ADMIN) {
		return tierRoot, why, true
	}
	return tierNoNS, why, true
}

// scarce says whether an error is of something that there is too little of at the moment: it says nothing of what the kernel grants.
func scarce(e unix.Errno) bool {
	return e == unix.EMFILE || e == unix.ENFILE || e == unix.ENOMEM || e == unix.EAGAIN
}

// cloning says whether a set-up failed before anything was done inside.
func cloning(e *status.SetupError) bool {
	return e.Step == "start" && e.Op == "clone" || e.Step == "maps"
}

func (d downgrade) ofNamespaces() bool {
	return d.reason == status.UsernsDenied || d.reason == status.UsernsDeniedAppArmor
}

// diagnose says why a set-up failed, if the host is the reason. Before it says that the host denies namespaces it tries
// them apart from the run, since what lies in a tree can cause the same error.
func diagnose(f *host.Facts, e *status.SetupError) (why downgrade) {
	why.reason, why.hint = host.Diagnose(f, failureOf(e))
	if why.ofNamespaces() && !cloning(e) {
		if t, _ := probeTier(f); t == tierUserNS {
			return downgrade{}
		}
	}
	return why
}

// probeTier is the tier that probes find, for a plan that isn't carried out.
func probeTier(f *host.Facts) (tier, downgrade) {
	denied := downgrade{reason: status.UsernsDenied, hint: "confine doctor says what to do"}
	for _, probe := range []string{"userns", "uid_map", "mountns", "tmpfs"} {
		ok, err := host.Has(probe)
		switch {
		case ok && err == nil:
		case f.Capable(unix.CAP_SYS_ADMIN):
			return tierRoot, denied
		default:
			return tierNoNS, denied
		}
	}
	return tierUserNS, downgrade{}
}

// namespaces that the child is cloned into: all that the tier has, but for the
// caller's network if that is asked for.
func (t tier) namespaces(policy *config.Policy) uintptr {
	if t == tierNoNS {
		return 0
	}
	flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS)
	if t == tierUserNS {
		flags |= unix.CLONE_NEWUSER
	}
	if !policy.Network.All {
		flags |= unix.CLONE_NEWNET
	}
	return flags
}
