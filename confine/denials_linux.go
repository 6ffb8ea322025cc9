package confine

import (
	"github.com/confine-run/confine/confine/seccomp"
	"github.com/confine-run/confine/supervisor/denials"
)

// judge answers for the filter of a plan: the same policy that it was compiled from.
type judge struct{ filter *seccomp.Filter }

func (j judge) Answer(c *denials.Call, text func(addr uint64) string) denials.Answer {
	r := j.filter.Refusal(c.Arch, c.Nr, c.Args, text)
	return denials.Answer{What: r.What, Rule: r.Rule, Kill: r.Kill, Errno: r.Errno, Supervised: r.Supervised}
}

func (j judge) Hint(c *denials.Call) string { return j.filter.Hint(c.Arch, c.Nr, c.Args) }
