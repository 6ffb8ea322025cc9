package seccomp

import "slices"

// span is a run of system call numbers, up to where the next one starts, that
// are all decided alike.
type span struct {
	first uint32
	at    int // where their decision is written
}

// assemble compiles the policy:
//
//	ld [arch]; other than ours → refuse
//	ld [nr];   x32             → refuse
//	binary tree over spans of numbers, which ends in returns and in the
//	conditions of calls whose arguments matter; equal ones are written once
//
// The tree matters twice. The kernel emulates a filter for each system call
// number when it is loaded (since Linux 5.11), to learn which are always
// allowed: a list of 400 comparisons costs 0.3 ms there. And calls that depend
// on arguments go through the filter each time.
func (p *Policy) assemble(t *Table, a Action) ([]uint64, error) {
	c := newCode()
	refuse := c.ret(foreign().ret(a))
	at := c.tree(p.spans(c, t, a))
	if t.x32 {
		at = c.branch(opJge, x32Bit, refuse, at)
	}
	at = c.then(opLoad, offNr, at)
	at = c.branch(opJeq, t.audit, at, refuse)
	return c.pack(c.then(opLoad, offArch, at))
}

// spans decides every number there is.
func (p *Policy) spans(c *code, t *Table, a Action) []span {
	var all []span
	add := func(first uint32, at int) {
		if len(all) == 0 || all[len(all)-1].at != at {
			all = append(all, span{first, at})
		}
	}
	unknown := c.ret(p.unknown().ret(a))
	rules, last := p.byNumber(t)
	for nr, name := range t.names {
		if name == "" {
			add(uint32(nr), unknown)
			continue
		}
		otherwise := p.Default
		if last[nr] != nil {
			otherwise = last[nr].Outcome
		}
		add(uint32(nr), c.chain(rules[nr], otherwise.ret(a), a))
	}
	add(uint32(len(t.names)), unknown)
	return all
}

// byNumber gives for each number the rules with conditions, in order, and the
// first rule without, after which no other matters.
func (p *Policy) byNumber(t *Table) (rules [][]*Rule, last []*Rule) {
	rules, last = make([][]*Rule, len(t.names)), make([]*Rule, len(t.names))
	for i := range p.Rules {
		r := &p.Rules[i]
		for _, name := range r.Calls {
			nr, found := t.Number(name)
			switch {
			case !found || last[nr] != nil:
			case len(r.Args) == 0:
				last[nr] = r
			case !slices.Contains(rules[nr], r):
				rules[nr] = append(rules[nr], r)
			}
		}
	}
	return rules, last
}

// tree writes the search for the span that holds a number.
func (c *code) tree(all []span) int {
	switch n := len(all); {
	case n == 1:
		return all[0].at
	case n == 3 && all[0].at == all[2].at && all[2].first-all[1].first == 1:
		return c.branch(opJeq, all[1].first, all[1].at, all[0].at)
	}
	mid := len(all) / 2
	above := c.tree(all[mid:])
	below := c.tree(all[:mid])
	return c.branch(opJge, all[mid].first, above, below)
}
