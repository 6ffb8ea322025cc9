package vm

import (
	"maps"
	"slices"

	"github.com/confine-run/confine/backend/vm/internal/wire"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// foretold is the ledger before the guest has booted.
func foretold(p *config.Policy, outer status.Ledger, own status.Enforcement) status.Ledger {
	l := maps.Clone(outer)
	for _, c := range limitsInside {
		if e, ok := l[c]; ok && (e.Enabled || c == status.WallTime && p.TimeLimit > 0 || c == status.Output && p.OutputLimit > 0) {
			e.Enabled, e.Effective, e.FallbackReason = true, true, ""
			e.Mechanism, e.Details = "guest", "by the kernel of the guest, which says how when it has booted"
			l[c] = e
		}
	}
	l[status.Isolation] = own
	ownPlace(p, l)
	return l
}

// ownPlace leaves out the place that a machine is written down in, which nobody asked for.
func ownPlace(p *config.Policy, l status.Ledger) {
	if !slices.ContainsFunc(p.Filesystem.Mounts, func(m config.Mount) bool { return m.Size > 0 }) {
		l[status.MountSize] = status.Enforcement{Requested: "none", Mechanism: "none"}
	}
}

// isolation is the line of the machine itself.
func isolation(k *kernel, a accelerator, missing *missingError) status.Enforcement {
	e := status.Enforcement{Requested: "vm", Enabled: true, Mechanism: "none"}
	if missing != nil {
		e.Details, e.FallbackReason = missing.Error(), status.NotInBuild
		return e
	}
	e.Mechanism, e.Effective = a.mechanism(), true
	e.Details = "Linux " + k.release + " " + a.details()
	return e
}

// merged is the ledger of both walls, of what the guest says of its own. What of it the host can't see it takes from the guest; what
// the host itself holds, and how, is never the guest's to say.
func (s *sandbox) merged(m *machine, inner status.Ledger) status.Ledger {
	l := status.Ledger{}
	for c, o := range s.wall() {
		i, ok := inner[c]
		switch {
		case slices.Contains(heldOutside, c) || !ok:
			l[c] = o
		case c == status.Syscalls && s.plan.calls != nil:
			i.Details = join(i.Details, "QEMU itself: "+o.Version)
			l[c] = i
		case slices.Contains(limitsInside, c):
			if o.Enabled && o.Effective && i.Enabled {
				i.Details = join(i.Details, "QEMU as a whole: "+o.Mechanism)
			}
			l[c] = i
		default:
			if i.Enabled && i.Applied && i.Effective {
				o.Details = join(o.Details, "once more in the guest: "+i.Mechanism)
			}
			l[c] = o
		}
	}
	own := isolation(s.plan.kernel, s.plan.accel, nil)
	own.Applied = m.release != ""
	l[status.Isolation] = own
	ownPlace(s.plan.spec.Policy, l)
	return l
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// statuses are those that a guest can tell.
var statuses = []status.Status{
	status.OK, status.Failed, status.Timeout, status.CPULimit, status.MemLimit, status.KilledTerm, status.KilledKill, status.KilledSignal,
	status.ForbiddenSyscall, status.SandboxDenied, status.ExecFailed, status.InternalError,
}

// plausible says whether a report of the guest's is one. Whether it is true, nobody knows.
func plausible(r *status.Report) error {
	if r == nil || !slices.Contains(statuses, r.Status) || r.RC < 0 || r.RC > 255 || r.ExitCode != nil && (*r.ExitCode < 0 || *r.ExitCode > 255) || r.DurationMS < 0 {
		return wire.Broken("a report that is none")
	}
	return nil
}
