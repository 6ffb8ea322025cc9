package handoff

import "unsafe"

// version changes with every change of any encoding below.
const version = 1

// Error is a frame that could not be read.
type Error string

func (e Error) Error() string { return "hand-off: " + string(e) }

// codec reads or writes: every type says the order of its fields once.
type codec struct {
	buf     []byte
	reading bool
	err     error
}

func (c *codec) fail(why string) {
	if c.err == nil {
		c.err = Error(why)
	}
	c.buf = nil
}

func (c *codec) u64(v *uint64) {
	if !c.reading {
		x := *v
		c.buf = append(c.buf, byte(x), byte(x>>8), byte(x>>16), byte(x>>24),
			byte(x>>32), byte(x>>40), byte(x>>48), byte(x>>56))
		return
	}
	if len(c.buf) < 8 {
		c.fail("cut short")
		*v = 0
		return
	}
	b := c.buf
	*v = uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
	c.buf = b[8:]
}

type integer interface {
	~int | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func num[T integer](c *codec, v *T) {
	x := uint64(*v)
	c.u64(&x)
	if c.reading {
		*v = T(x)
		if uint64(*v) != x {
			c.fail("a number is out of range")
		}
	}
}

func (c *codec) bool(v *bool) {
	x := uint8(0)
	if *v {
		x = 1
	}
	num(c, &x)
	if c.reading {
		if x > 1 {
			c.fail("a truth value is neither 0 nor 1")
		}
		*v = x == 1
	}
}

func (c *codec) str(v *string) {
	n := len(*v)
	num(c, &n)
	if !c.reading {
		c.buf = append(c.buf, *v...)
		return
	}
	if n < 0 || n > len(c.buf) {
		c.fail("cut short")
		*v = ""
		return
	}
	if n == 0 {
		*v = ""
		return
	}
	*v = unsafe.String(&c.buf[0], n) // the frame is never written again
	c.buf = c.buf[n:]
}

// list reads or writes a slice whose elements take at least one byte each.
func list[T any](c *codec, v *[]T, each func(*T)) {
	n := len(*v)
	num(c, &n)
	if c.reading {
		if n < 0 || n > len(c.buf) {
			c.fail("cut short")
			return
		}
		*v = nil
		if n > 0 {
			*v = make([]T, n)
		}
	}
	for i := range *v {
		if c.err != nil {
			return
		}
		each(&(*v)[i])
	}
}

func (c *codec) head(kind Kind) {
	v, k := uint32(version), kind
	num(c, &v)
	num(c, &k)
	if c.reading && c.err == nil {
		switch {
		case v != version:
			c.fail("another version")
		case k != kind:
			c.fail("another kind of frame")
		}
	}
}

func (p *Child) code(c *codec) {
	c.head(KindPlan)
	list(c, &p.Argv, c.str)
	list(c, &p.Env, c.str)
	c.str(&p.Dir)
	num(c, &p.UID)
	num(c, &p.GID)
	c.bool(&p.OtherIDs)
	num(c, &p.Namespaces)
	c.str(&p.TempDir)
	p.Landlock.code(c)
	c.bool(&p.DropGroups)
	c.str(&p.Hostname)
	p.Root.code(c)
	list(c, &p.Mounts, func(m *Mount) { m.code(c) })
	num(c, &p.ScratchSize)
	num(c, &p.ScratchInodes)
	c.bool(&p.JoinDir)
	num(c, &p.JoinProcs)
	c.bool(&p.Linger)
	p.Network.code(c)
	list(c, &p.Rlimits, func(r *Rlimit) {
		num(c, &r.Resource)
		num(c, &r.Soft)
		num(c, &r.Hard)
	})
	list(c, &p.CPUs, func(n *uint32) { num(c, n) })
	num(c, &p.PIDMax)
	list(c, &p.Seccomp, c.u64)
	num(c, &p.SeccompFlags)
	list(c, &p.SeccompNotify, c.u64)
	c.u64(&p.SeccompPass)
	p.Refuse.code(c)
	for i := range p.TTY {
		c.bool(&p.TTY[i])
	}
	num(c, &p.Rows)
	num(c, &p.Cols)
}

func (l *Landlock) code(c *codec) {
	num(c, &l.HandledFS)
	num(c, &l.HandledNet)
	num(c, &l.Scoped)
	c.bool(&l.Log)
	list(c, &l.Rules, func(r *LandlockRule) {
		c.str(&r.Path)
		num(c, &r.Dev)
		num(c, &r.Ino)
		num(c, &r.Access)
		c.bool(&r.Optional)
	})
}

func (m *Mount) code(c *codec) {
	num(c, &m.Kind)
	c.str(&m.Dst)
	c.str(&m.Src)
	num(c, &m.Dev)
	num(c, &m.Ino)
	c.bool(&m.ReadOnly)
	c.bool(&m.Device)
	c.bool(&m.Optional)
	c.str(&m.Text)
	num(c, &m.Mode)
	num(c, &m.Size)
}

// EncodeChild makes the one frame that goes in.
func EncodeChild(p *Child) []byte {
	c := codec{buf: make([]byte, 0, 16<<10)}
	p.code(&c)
	return c.buf
}

// DecodeChild reads it. The strings of the result share frame.
func DecodeChild(frame []byte) (*Child, error) {
	p := new(Child)
	c := codec{buf: frame, reading: true}
	p.code(&c)
	return p, c.end()
}

func (c *codec) end() error {
	if c.err == nil && len(c.buf) != 0 {
		c.fail("bytes left over")
	}
	return c.err
}
