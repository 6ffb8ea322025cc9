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

func (r *Rule) verdict() Verdict { return Verdict{r.Outcome, r.Name, r.Reason} }

func (p *Policy) otherwise() Verdict { return Verdict{p.Default, "default", "no rule names it"} }

// Decide says what the policy does with the call of that name and with those
// arguments. The compiled filter does the same; it is tested against this.
func (p *Policy) Decide(name string, args [6]uint64) Verdict {
	for v := range p.candidates(name, &args, allGiven) {
		return v
	}
	return p.unknown() // never
}

// allGiven: each of the six arguments is known.
const allGiven = 1<<6 - 1

// candidates are the verdicts that a call may get when only the arguments with a bit in
// given are known: in their order, up to the first that is sure if none before it holds.
func (p *Policy) candidates(name string, args *[6]uint64, given uint8) iter.Seq2[Verdict, bool] {
	return func(yield func(v Verdict, sure bool) bool) {
		if !Known(name) {
			yield(p.unknown(), true)
			return
		}
		for r := range rulesFor(p.Rules, name) {
			if holds, sure := r.holds(args, given); holds && (!yield(r.verdict(), sure) || sure) {
				return
			}
		}
		yield(p.otherwise(), true)
	}
}

// unknown is for numbers without a name: newer than the table, or never given
// to a call. A policy that refuses by default answers ENOSYS, as a kernel
// without the call does, because C libraries then fall back on an older call.
func (p *Policy) unknown() Verdict {
	if p.Default.LetsThrough() {
		return p.otherwise()
	}
	return Verdict{Outcome{Errno, enosys}, "unknown", "newer than the table; as on a kernel without it"}
}

// foreign is for calls of another architecture, and of x32. The numbers mean
// other calls there, so no rule can speak about them, and none does.
func foreign() Verdict {
	return Verdict{Outcome{Do: Refuse}, "foreign", "rules are about the native system call table"}
}

// Others are the answers to numbers that no table has, and to calls of another
// architecture.
func (p *Policy) Others() (newer, other Verdict) { return p.unknown(), foreign() }

// number decides as the kernel sees a call: by architecture and number.
func (p *Policy) number(t *Table, audit, nr uint32, args [6]uint64) Verdict {
	switch {
	case audit != t.audit, t.x32 && nr >= x32Bit:
		return foreign()
	case t.name(nr) == "":
		return p.unknown()
	}
	return p.Decide(t.name(nr), args)
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
	arg &= c.Bits()
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

// Case is what a policy does with a call when some conditions hold.
type Case struct {
	Verdict
	Conds []Cond // all must hold; none: otherwise
}

// Cases are the policy's answers to one call, the first that holds decides. The last
// one has no conditions. What changes nothing under the action is left out.
func (p *Policy) Cases(name string, a Action) []Case {
	if !Known(name) {
		return []Case{{Verdict: p.unknown()}}
	}
	var all []Case
	last := Case{Verdict: p.otherwise()}
	for r := range rulesFor(p.Rules, name) {
		c := Case{r.verdict(), r.Args}
		if len(r.Args) == 0 {
			last = c
			break
		}
		all = append(all, c)
	}
	for n := len(all); n > 0 && all[n-1].ret(a) == last.ret(a); n-- {
		all = all[:n-1]
	}
	return append(all, last)
}
