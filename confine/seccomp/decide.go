package seccomp

import "slices"

// Verdict is what a policy does with one call, and by which rule.
type Verdict struct {
	Outcome
	Rule   string // "default" when no rule decided, "unknown" when no table has the call
	Reason string
}

// Decide says what the policy does with the call of that name and with those
// arguments. The compiled filter does the same; it is tested against this.
func (p *Policy) Decide(name string, args [6]uint64) Verdict {
	if !known(name) {
		return p.unknown()
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		if slices.Contains(r.Calls, name) && r.holds(&args) {
			return Verdict{r.Outcome, r.Name, r.Reason}
		}
	}
	return Verdict{p.Default, "default", "no rule names it"}
}

// unknown is for numbers without a name: newer than the table, or never given
// to a call. A policy that refuses by default answers ENOSYS, as a kernel
// without the call does, because C libraries then fall back on an older call.
func (p *Policy) unknown() Verdict {
	switch p.Default.Do {
	case Allow, Log:
		return Verdict{p.Default, "default", "no rule names it"}
	}
	return Verdict{Outcome{Errno, enosys}, "unknown", "newer than the table; as on a kernel without it"}
}

// foreign is for calls of another architecture, and of x32. The numbers mean
// other calls there, so no rule can speak about them, and none does.
func foreign() Verdict {
	return Verdict{Outcome{Do: Refuse}, "foreign", "rules are about the native system call table"}
}

// number decides as the kernel sees a call: by architecture and number.
func (p *Policy) number(t *table, audit, nr uint32, args [6]uint64) Verdict {
	switch {
	case audit != t.audit, t.x32 && nr >= x32Bit:
		return foreign()
	case nr >= uint32(len(t.names)) || t.names[nr] == "":
		return p.unknown()
	}
	return p.Decide(t.names[nr], args)
}

func (r *Rule) holds(args *[6]uint64) bool {
	for _, c := range r.Args {
		if !c.holds(args[c.Index]) {
			return false
		}
	}
	return true
}

func (c Cond) holds(arg uint64) bool {
	arg &= c.bits()
	switch v := c.Values[0]; c.Op {
	case Eq:
		return arg == v
	case Ne:
		return arg != v
	case Lt:
		return arg < v
	case Le:
		return arg <= v
	case Gt:
		return arg > v
	case Ge:
		return arg >= v
	case In:
		return slices.Contains(c.Values, arg)
	default:
		return !slices.Contains(c.Values, arg)
	}
}
