package seccomp

// Classic BPF as the kernel's seccomp_check_filter takes it.
const (
	opLoad = 0x20 // ld  [k]     BPF_LD|BPF_W|BPF_ABS
	opAnd  = 0x54 // and #k      BPF_ALU|BPF_AND|BPF_K
	opJump = 0x05 // ja  k       BPF_JMP|BPF_JA
	opJeq  = 0x15 // jeq #k      BPF_JMP|BPF_JEQ|BPF_K
	opJgt  = 0x25 // jgt #k      BPF_JMP|BPF_JGT|BPF_K
	opJge  = 0x35 // jge #k      BPF_JMP|BPF_JGE|BPF_K
	opRet  = 0x06 // ret #k      BPF_RET|BPF_K

	maxInstructions = 4096 // BPF_MAXINSNS
)

// Offsets in struct seccomp_data. Both architectures are little-endian, so the
// lower half of an argument comes first.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

// insn is an instruction of which the successors are known.
type insn struct {
	op   uint16
	k    uint32
	t, f int // positions, see code; -1: none
}

// code writes a program from its end to its start. Classic BPF jumps only
// forward, so whatever an instruction leads to is there before it is, and equal
// tails are found equal and written once.
//
// Positions count from the end of the program.
type code struct {
	list []insn
	seen map[insn]int
}

func newCode() *code { return &code{seen: make(map[insn]int)} }

func (c *code) emit(i insn) int {
	c.list = append(c.list, i)
	return len(c.list) - 1
}

func (c *code) share(i insn, write func() int) int {
	if at, ok := c.seen[i]; ok {
		return at
	}
	at := write()
	c.seen[i] = at
	return at
}

func (c *code) ret(k uint32) int {
	i := insn{opRet, k, -1, -1}
	return c.share(i, func() int { return c.emit(i) })
}

// then writes a load or an and, which go on with the instruction behind them.
func (c *code) then(op uint16, k uint32, next int) int {
	i := insn{op, k, next, -1}
	return c.share(i, func() int {
		if next != len(c.list)-1 {
			i.t = c.emit(insn{opJump, 0, next, -1})
		}
		return c.emit(i)
	})
}

// branch writes a conditional jump.
func (c *code) branch(op uint16, k uint32, t, f int) int {
	if t == f {
		return t
	}
	i := insn{op, k, t, f}
	return c.share(i, func() int {
		i.t = c.reachable(t, 254) // one less: bringing f near may put an instruction between
		i.f = c.reachable(f, 255)
		return c.emit(i)
	})
}

// reachable gives a position that does what the one at does, and that the
// instruction written next reaches with a jump of limit at most.
func (c *code) reachable(at, limit int) int {
	if len(c.list)-at-1 <= limit {
		return at
	}
	if i := c.list[at]; i.op == opRet {
		c.seen[i] = c.emit(i)
		return c.seen[i]
	}
	return c.emit(insn{opJump, 0, at, -1})
}

// pack gives the program in the order in which it runs, starting at start.
func (c *code) pack(start int) ([]uint64, error) {
	if start != len(c.list)-1 {
		c.emit(insn{opJump, 0, start, -1})
	}
	n := len(c.list)
	if n > maxInstructions {
		return nil, &SizeError{n}
	}
	program := make([]uint64, 0, n)
	for at := n - 1; at >= 0; at-- {
		i := c.list[at]
		var jt, jf uint64
		switch i.op {
		case opJump:
			i.k = uint32(at - i.t - 1)
		case opJeq, opJgt, opJge:
			jt, jf = uint64(at-i.t-1), uint64(at-i.f-1)
		}
		program = append(program, uint64(i.op)<<48|jt<<40|jf<<32|uint64(i.k))
	}
	return program, nil
}

// chain writes the decision on one call: its rules in order, then otherwise.
func (c *code) chain(rules []*Rule, otherwise uint32, a Action) int {
	for len(rules) > 0 && rules[len(rules)-1].Outcome.ret(a) == otherwise {
		rules = rules[:len(rules)-1] // it changes nothing
	}
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
	if d.Bits()>>32 == 0 {
		return t
	}
	return c.half(d, 1, c.branch(opJeq, uint32(v>>32), t, f))
}

func (c *code) more(d *Cond, op uint16, t, f int) int {
	v := d.Values[0]
	low := c.half(d, 0, c.branch(op, uint32(v), t, f))
	if d.Bits()>>32 == 0 {
		return low
	}
	same := c.branch(opJeq, uint32(v>>32), low, f)
	return c.half(d, 1, c.branch(opJgt, uint32(v>>32), t, same))
}

// half loads one half of the argument, masked, and goes on at next.
func (c *code) half(d *Cond, half int, next int) int {
	if mask := uint32(d.Bits() >> (32 * half)); mask != ^uint32(0) {
		next = c.then(opAnd, mask, next)
	}
	return c.then(opLoad, uint32(offArgs+8*int(d.Index)+4*half), next)
}
