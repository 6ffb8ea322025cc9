package seccomp

import (
	"slices"
	"strconv"
	"strings"
)

// Case is what a policy does with a call when some conditions hold.
type Case struct {
	Verdict
	Conds []Cond // all must hold; none: otherwise
}

// Cases are the policy's answers to one call, the first that holds decides. The last
// one has no conditions. What changes nothing under the action is left out.
func (p *Policy) Cases(name string, a Action) []Case {
	if !known(name) {
		return []Case{{Verdict: p.unknown()}}
	}
	all := []Case{}
	last := Case{Verdict: Verdict{p.Default, "default", "no rule names it"}}
	for i := range p.Rules {
		r := &p.Rules[i]
		if !slices.Contains(r.Calls, name) {
			continue
		}
		c := Case{Verdict{r.Outcome, r.Name, r.Reason}, r.Args}
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

// Others are the answers to numbers that no table has, and to calls of another
// architecture.
func (p *Policy) Others() (newer, other Verdict) { return p.unknown(), foreign() }

// LetsThrough says whether the call is made.
func (o Outcome) LetsThrough() bool { return o.Do == Allow || o.Do == Log }

// Number gives the number of a call on an architecture.
func Number(arch, name string) (nr int, ok bool) {
	t, err := tableOf(arch)
	if err != nil {
		return 0, false
	}
	return t.lookup(name)
}

// Words are a call as a person would write it, as in reports of denials.
func Words(arch, name string, args [6]uint64) string {
	t, err := tableOf(arch)
	if err != nil {
		return name
	}
	nr, ok := t.lookup(name)
	if !ok {
		return name
	}
	return t.words(t.audit, uint32(nr), args, nil)
}

// Words are the condition as a person would write it, for a call:
//
//	arg 0 is AF_UNIX or AF_INET
//	arg 2 & 06000 is not 0
//
// Where all 64 bits are compared, that is said.
func (c Cond) Words(call string) string {
	var b strings.Builder
	b.WriteString("arg " + strconv.Itoa(int(c.Index)))
	if c.Width == 64 {
		b.WriteString(" (64 bits)")
	}
	kind := byte(argNone)
	if kinds := argumentsOf(call); int(c.Index) < len(kinds) {
		kind = kinds[c.Index]
	}
	if c.Mask != 0 {
		b.WriteString(" & " + c.valueWord(kind, c.Mask, true))
	}
	b.WriteString(" " + opWords[c.Op] + " ")
	for i, v := range c.Values {
		switch {
		case i > 0 && i == len(c.Values)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(c.valueWord(kind, v, c.Mask != 0))
	}
	return b.String()
}

var opWords = [...]string{Eq: "is", Ne: "is not", Lt: "<", Le: "<=", Gt: ">", Ge: ">=", In: "is", NotIn: "is not"}

// valueWord is a value by the name that it has for that kind of argument.
func (c Cond) valueWord(kind byte, v uint64, masked bool) string {
	word := ""
	switch {
	case kind == argOctal && v != 0:
		return "0" + strconv.FormatUint(v, 8)
	case kind == argClone, kind == argUnshare:
		if v != 0 && masked {
			word = flagsOf(v)
		}
	case kind != argNone && kind != argText:
		word = constantOf(kind, v)
	}
	switch {
	case word != "" && !strings.Contains(word, "…"):
		return word
	case v < 10:
		return strconv.FormatUint(v, 10)
	}
	return "0x" + strconv.FormatUint(v, 16)
}
