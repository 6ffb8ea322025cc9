package seccomp

import (
	"slices"
	"strings"
)

// Beyond is the rule of BeyondStrict: what strict refuses and default doesn't.
const Beyond = "beyond-strict"

// beyondStrict lets through what default does, and hands on what strict would have refused
// of that, to be told and let through. Strict lets nothing through that default doesn't: a
// test holds that.
func beyondStrict() *Policy {
	noted := Outcome{Errno, eacces}
	p := &Policy{Kind: "default", Version: builtinDefault.policy.Version + "+" + string(BeyondStrict), Default: noted, beyond: true}
	for _, r := range builtinStrict.policy.Rules {
		if !goesThrough(Verdict{Outcome: r.Outcome}) {
			r.Name, r.Outcome = Beyond, noted
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

// isBeyond says whether a verdict is only that strict would have refused.
func (p *Policy) isBeyond(v Verdict) bool {
	return p.beyond && (v.Rule == Beyond || v.Rule == "default")
}

// Narrow is a rule that allows a call as it was made, as far as the policies that ship
// look at its arguments, for a file that extends strict. It is false for what default
// refuses, and for what strict allows.
func Narrow(name string, args [6]uint64) (Rule, bool) {
	if !known(name) || !goesThrough(builtinDefault.policy.Decide(name, args)) || goesThrough(builtinStrict.policy.Decide(name, args)) {
		return Rule{}, false
	}
	r := Rule{Name: "learned-" + name, Calls: []string{name}, Outcome: Outcome{Do: Allow}}
	for _, p := range []*Policy{&builtinStrict.policy, &builtinDefault.policy} {
		for i := range p.Rules {
			if !slices.Contains(p.Rules[i].Calls, name) {
				continue
			}
			for _, c := range p.Rules[i].Args {
				if c = c.as(args[c.Index]); !slices.ContainsFunc(r.Args, c.same) {
					r.Args = append(r.Args, c)
				}
			}
		}
	}
	return r, true
}

// as is a condition that holds for an argument: of a number that says what is wanted, that
// one; of an address or a size, on which side it is.
func (c Cond) as(arg uint64) Cond {
	if c.Width == 64 && c.Mask == 0 {
		if !c.holds(arg) {
			c.Op = opposite[c.Op]
		}
		return c
	}
	return Cond{Index: c.Index, Width: c.Width, Op: Eq, Mask: c.Mask, Values: []uint64{arg & c.bits()}}
}

var opposite = [...]Op{Eq: Ne, Ne: Eq, Lt: Ge, Le: Gt, Gt: Le, Ge: Lt, In: NotIn, NotIn: In}

func (c Cond) same(d Cond) bool {
	return c.Index == d.Index && c.Width == d.Width && c.Op == d.Op && c.Mask == d.Mask && slices.Equal(c.Values, d.Values)
}

// NetworkRules are those that the planner lays over strict where hosts may be reached, for
// a file that extends it and has to have them itself.
func NetworkRules() []Rule { return slices.Clone(additionNetwork.Rules) }

// OfNetwork says whether those rules let a call through.
func OfNetwork(name string, args [6]uint64) bool {
	v := additionNetwork.Decide(name, args)
	return goesThrough(v) && v.Rule != "default"
}

// TOML prints the rule as it stands in a policy file.
func (r *Rule) TOML() string {
	var b strings.Builder
	r.toml(&b)
	return b.String()
}
