package process

import (
	"github.com/confine-run/confine/internal/seccomp"
	"github.com/confine-run/confine/supervisor/denials"
)

// judge answers for the filter of a plan: the same policy that it was compiled from.
type judge struct {
	filter *seccomp.Filter
	// Calls that are only looked at, and of which architecture: they are most of all.
	audit uint32
	free  map[uint32]bool
}

// judge knows the filter that is loaded first.
func (p *Plan) judge() judge {
	if p.watched == nil {
		return judge{filter: p.Seccomp}
	}
	j := judge{filter: p.watched}
	j.audit, j.free = p.watched.Free()
	return j
}

func (j judge) Answer(c *denials.Call, text func(addr uint64) string) denials.Answer {
	if j.free[c.Nr] && c.Arch == j.audit {
		return denials.Answer{Rule: seccomp.Watched, Supervised: true}
	}
	r := j.filter.Refusal(c.Arch, c.Nr, c.Args, text)
	return denials.Answer{What: r.What, Rule: r.Rule, Kill: r.Kill, Errno: r.Errno, Supervised: r.Supervised, Untold: r.Untold, Let: r.Let}
}

func (j judge) Hint(c *denials.Call) string { return j.filter.Hint(c.Arch, c.Nr, c.Args) }
