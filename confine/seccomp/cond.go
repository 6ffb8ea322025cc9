package seccomp

// chain writes the decision on one call: its rules in order, then otherwise.
func (c *code) chain(rules []*Rule, otherwise uint32, a Action) int {
	next := c.ret(otherwise)
	for i := len(rules) - 1; i >= 0; i-- {
		hit := c.ret(rules[i].Outcome.ret(a))
		for j := len(rules[i].Args) - 1; j >= 0; j-- {
			hit = c.cond(&rules[i].Args[j], hit, next)
		}
		next = hit
	}
	return next
}

// cond writes one condition, which goes on at t when it holds and at f otherwise.
func (c *code) cond(d *Cond, t, f int) int {
	switch d.Op {
	case Ne, NotIn, Lt, Le: // the contrary, with the ends changed over
		t, f = f, t
	}
	switch d.Op {
	case Eq, Ne:
		return c.equal(d, d.Values[0], t, f)
	case In, NotIn:
		if d.Width == 32 {
			return c.oneOf(d, t, f)
		}
		for i := len(d.Values) - 1; i >= 0; i-- {
			f = c.equal(d, d.Values[i], t, f)
		}
		return f
	case Gt, Le:
		return c.more(d, opJgt, t, f)
	default:
		return c.more(d, opJge, t, f)
	}
}

// oneOf loads once and compares with all.
func (c *code) oneOf(d *Cond, t, f int) int {
	for i := len(d.Values) - 1; i >= 0; i-- {
		f = c.branch(opJeq, uint32(d.Values[i]), t, f)
	}
	return c.half(d, 0, f)
}

func (c *code) equal(d *Cond, v uint64, t, f int) int {
	t = c.half(d, 0, c.branch(opJeq, uint32(v), t, f))
	if d.bits()>>32 == 0 {
		return t
	}
	return c.half(d, 1, c.branch(opJeq, uint32(v>>32), t, f))
}

func (c *code) more(d *Cond, op uint16, t, f int) int {
	v := d.Values[0]
	low := c.half(d, 0, c.branch(op, uint32(v), t, f))
	if d.bits()>>32 == 0 {
		return low
	}
	same := c.branch(opJeq, uint32(v>>32), low, f)
	return c.half(d, 1, c.branch(opJgt, uint32(v>>32), t, same))
}

// half loads one half of the argument, masked, and goes on at next.
func (c *code) half(d *Cond, half int, next int) int {
	if mask := uint32(d.bits() >> (32 * half)); mask != ^uint32(0) {
		next = c.then(opAnd, mask, next)
	}
	return c.then(opLoad, uint32(offArgs+8*int(d.Index)+4*half), next)
}
