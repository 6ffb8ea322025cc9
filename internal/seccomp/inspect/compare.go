package inspect

import (
	"fmt"
	"slices"

	"github.com/confine-run/confine/internal/seccomp"
)

// Kind is how a call fares under another policy.
type Kind string

const (
	Allowed   Kind = "allowed"   // it was refused whatever its arguments, and isn't any more
	Refused   Kind = "refused"   // it was let through, at least sometimes, and never is any more
	Wider     Kind = "wider"     // more of it is let through
	Narrower  Kind = "narrower"  // less of it is let through
	Otherwise Kind = "otherwise" // some of it is and some isn't, or it is refused in another way
	Rewritten Kind = "rewritten" // the conditions are others, and no call was found that tells them apart
)

// Change is a call that two policies don't treat alike.
type Change struct {
	Call    string `json:"call"`
	Kind    Kind   `json:"kind"`
	Before  []Case `json:"before"`
	After   []Case `json:"after"`
	Example string `json:"example,omitempty"` // a call that tells them apart
}

// Difference is what becomes other from one policy to the next.
type Difference struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Arch    string   `json:"arch"`
	Action  string   `json:"action"`
	Changes []Change `json:"changes"`
}

// Compare gives the calls of an architecture that two policies don't treat alike,
// and as one more, "(newer calls)", numbers that have no name.
func Compare(p, q *seccomp.Policy, a seccomp.Action, arch string) (*Difference, error) {
	for _, policy := range []*seccomp.Policy{p, q} {
		if _, err := policy.Compile(a, arch); err != nil {
			return nil, err
		}
	}
	t, err := seccomp.TableOf(arch)
	if err != nil {
		return nil, err
	}
	d := &Difference{From: p.Version, To: q.Version, Arch: arch, Action: string(a), Changes: []Change{}}
	for _, name := range t.Calls() {
		before, after := answers(p, name, a), answers(q, name, a)
		if slices.EqualFunc(before, after, sameAnswer) {
			continue
		}
		c := Change{Call: name, Before: before, After: after}
		c.Kind, c.Example = classify(p, q, a, t, name, before, after)
		d.Changes = append(d.Changes, c)
	}
	before, _ := p.Others()
	after, _ := q.Others()
	if x, y := answer("", seccomp.Case{Verdict: before}, a), answer("", seccomp.Case{Verdict: after}, a); !sameAnswer(x, y) {
		d.Changes = append(d.Changes, Change{Call: "(newer calls)", Kind: kind(x.passes && !y.passes, y.passes && !x.passes, []Case{x}, []Case{y}),
			Before: []Case{x}, After: []Case{y}})
	}
	return d, nil
}

// sameAnswer: the same answer under the same conditions. Names of rules and reasons don't
// count.
func sameAnswer(c, d Case) bool {
	return c.Verdict == d.Verdict && slices.Equal(c.Conditions, d.Conditions)
}

// classify looks for calls that the policies decide differently.
func classify(p, q *seccomp.Policy, a seccomp.Action, t *seccomp.Table, name string, before, after []Case) (k Kind, example string) {
	less, more, other := false, false, false
	for _, args := range representatives(name, a, p, q) {
		x, y := p.Decide(name, args), q.Decide(name, args)
		if x.Under(a) == y.Under(a) {
			continue
		}
		less = less || passes(x, a) && !passes(y, a)
		more = more || passes(y, a) && !passes(x, a)
		if other = true; example == "" {
			example = fmt.Sprintf("%s: %s, then %s", describeCall(t, name, args), x.Under(a), y.Under(a))
		}
	}
	if len(before) == 1 && len(after) == 1 {
		example = "" // there is nothing to say about arguments
	}
	if !other {
		return Rewritten, ""
	}
	return kind(less, more, before, after), example
}

func kind(less, more bool, before, after []Case) Kind {
	passes := func(c Case) bool { return c.passes }
	switch was, is := slices.ContainsFunc(before, passes), slices.ContainsFunc(after, passes); {
	case !was && is:
		return Allowed
	case was && !is:
		return Refused
	case more && !less:
		return Wider
	case less && !more:
		return Narrower
	}
	return Otherwise
}

// describeCall is a call with the arguments that are not 0.
func describeCall(t *seccomp.Table, name string, args [6]uint64) string {
	s := t.Words(name, args)
	for i, v := range args {
		if v != 0 {
			s += fmt.Sprintf(" arg%d=%#x", i, v)
		}
	}
	return s
}

// mostArguments bounds the search.
const mostArguments = 4000

// representatives are arguments that either policy may tell apart for a call: what is
// compared with, what is beside it, and what differs from it in one bit of a mask or
// in the upper half.
func representatives(name string, a seccomp.Action, policies ...*seccomp.Policy) [][6]uint64 {
	var per [6][]uint64
	for _, p := range policies {
		for _, c := range p.Cases(name, a) {
			for _, cond := range c.Conds {
				per[cond.Index] = append(per[cond.Index], neighbours(cond)...)
			}
		}
	}
	all := [][6]uint64{{}}
	for i, values := range per {
		slices.Sort(values)
		values = slices.Compact(values)
		for _, base := range slices.Clone(all) {
			for _, v := range values {
				if len(all) >= mostArguments {
					return all
				}
				if base[i] = v; v != 0 {
					all = append(all, base)
				}
			}
		}
	}
	return all
}

func neighbours(c seccomp.Cond) (values []uint64) {
	for _, v := range c.Values {
		values = append(values, v, v+1, v-1, v|upper, v|c.Mask)
	}
	for b := uint64(1); c.Mask != 0 && b != 0; b <<= 1 {
		if c.Mask&b != 0 {
			values = append(values, b)
		}
	}
	return append(values, 0, 1, 1<<31, ^uint64(0))
}
