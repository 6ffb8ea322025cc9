package seccomp

import (
	"iter"
	"slices"
)

// Verdict is what a policy does with one call, and by which rule.
type Verdict struct {
	Outcome
	Rule   string // "default" when no rule decided, "unknown" when no table has the call
	Reason string
}

// Decide says what the policy does with the call of that name and with those
// arguments. The compiled filter does the same; it is tested against this.
func (p *Policy) Decide(name string, args [6]uint64) Verdict {
	for v := range p.could(name, &args, allGiven) {
		return v
	}
	return p.unknown() // never
}

// allGiven: each of the six arguments is known.
const allGiven = 1<<6 - 1

// could are the verdicts that a call may meet when only the arguments with a bit in
// given are known: in their order, up to the first that is sure if none before it holds.
func (p *Policy) could(name string, args *[6]uint64, given uint8) iter.Seq2[Verdict, bool] {
	return func(yield func(v Verdict, sure bool) bool) {
		if !known(name) {
			yield(p.unknown(), true)
			return
		}
		for i := range p.Rules {
			r := &p.Rules[i]
			if !slices.Contains(r.Calls, name) {
				continue
			}
			holds, sure := r.holds(args, given)
			if !holds {
				continue
			}
			if !yield(Verdict{r.Outcome, r.Name, r.Reason}, sure) || sure {
				return
			}
		}
		yield(Verdict{p.Default, "default", "no rule names it"}, true)
	}
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

// holds says whether the conditions hold, as far as the arguments are given; sure says
// that it is so whatever the others are.
func (r *Rule) holds(args *[6]uint64, given uint8) (holds, sure bool) {
	sure = true
	for _, c := range r.Args {
		switch {
		case given&(1<<c.Index) == 0:
			sure = false
		case !c.holds(args[c.Index]):
			return false, true
		}
	}
	return true, sure
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
