package seccomp

import (
	"slices"
	"strconv"
)

// ociCase is an entry under conditions.
type ociCase struct {
	rule Rule
	at   int
}

// agree refuses entries for one call that can hold together and say different things.
// Which of them decides then depends on how libseccomp builds its tree.
func (r *ociReader) agree() error {
	plain := map[string]bool{}
	for i := range r.plain {
		for _, name := range r.plain[i].Calls {
			plain[name] = true
		}
	}
	byCall := map[string][]int{}
	for i := range r.cases {
		for _, name := range r.cases[i].rule.Calls {
			if plain[name] {
				continue // that decides, whatever the conditions are
			}
			for _, j := range byCall[name] {
				a, b := &r.cases[j].rule, &r.cases[i].rule
				if a.Outcome != b.Outcome && !apart(a.Args, b.Args) {
					return r.mistake(r.cases[i].at, strconv.Quote(name)+" gets different answers from this entry and from "+a.Name+
						", and their conditions can hold together", "write conditions that can't, or one entry without any")
				}
			}
			byCall[name] = append(byCall[name], i)
		}
	}
	return nil
}

// apart says whether two lists of conditions can't both hold. It may miss that they
// can't, never that they can.
func apart(a, b []Cond) bool {
	return slices.ContainsFunc(a, func(c Cond) bool {
		return slices.ContainsFunc(b, func(d Cond) bool { return c.Index == d.Index && c.excludes(d) })
	})
}

// excludes is for conditions as condition makes them: 64 bits wide, of one value.
func (c Cond) excludes(d Cond) bool {
	cLow, cHigh, cRange := c.between()
	dLow, dHigh, dRange := d.between()
	switch {
	case c.Op == Ne || d.Op == Ne:
		return c.Op == Eq && c.Mask == 0 && c.Values[0] == d.Values[0] && d.Mask == 0 ||
			d.Op == Eq && d.Mask == 0 && c.Values[0] == d.Values[0] && c.Mask == 0
	case cRange && dRange:
		return cLow > cHigh || dLow > dHigh || cHigh < dLow || dHigh < cLow
	case c.Op == Eq && d.Op == Eq: // at least one has a mask
		both := c.bits() & d.bits()
		return c.Values[0]&both != d.Values[0]&both
	}
	return false
}

// between gives the arguments for which the condition holds, where they are a run.
func (c Cond) between() (low, high uint64, is bool) {
	const most = ^uint64(0)
	v := c.Values[0]
	switch {
	case c.Mask != 0:
		return 0, 0, false
	case c.Op == Eq:
		return v, v, true
	case c.Op == Le:
		return 0, v, true
	case c.Op == Ge:
		return v, most, true
	case c.Op == Lt && v == 0, c.Op == Gt && v == most:
		return 1, 0, true // never
	case c.Op == Lt:
		return 0, v - 1, true
	case c.Op == Gt:
		return v + 1, most, true
	}
	return 0, 0, false
}
