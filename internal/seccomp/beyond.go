package seccomp

import "slices"

// Beyond is the rule of BeyondStrict: what strict refuses and default doesn't.
const Beyond = "beyond-strict"

// beyondStrict lets through what default does, and hands on what strict would have refused
// of that, to be told and let through. Strict lets nothing through that default doesn't: a
// test holds that.
func beyondStrict() *Policy {
	noted := Outcome{Errno, eacces}
	p := &Policy{Kind: "default", Version: Builtin("default").Version + "+" + string(BeyondStrict), Default: noted, beyond: true}
	for _, r := range Builtin("strict").Rules {
		if !r.Outcome.LetsThrough() {
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
	common, strict := Builtin("default"), Builtin("strict")
	if !Known(name) || !common.Decide(name, args).LetsThrough() || strict.Decide(name, args).LetsThrough() {
		return Rule{}, false
	}
	r := Rule{Name: "learned-" + name, Calls: []string{name}, Outcome: Outcome{Do: Allow}}
	for _, p := range []*Policy{strict, common} {
		for looked := range rulesFor(p.Rules, name) {
			for _, c := range looked.Args {
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
	return Cond{Index: c.Index, Width: c.Width, Op: Eq, Mask: c.Mask, Values: []uint64{arg & c.Bits()}}
}

var opposite = [...]Op{Eq: Ne, Ne: Eq, Lt: Ge, Le: Gt, Gt: Le, Ge: Lt, In: NotIn, NotIn: In}

// OfNetwork says whether the addition Network lets a call through.
func OfNetwork(name string, args [6]uint64) bool {
	v := Network.policy().Decide(name, args)
	return v.LetsThrough() && v.Rule != "default"
}
