package handoff

import "unsafe"

// version changes with every change of any encoding below.
const version = 8

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

// u64 is for what mostly takes all of its bytes.
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

// varint is 7 bits to a byte, the lowest first; all bytes but the last have the highest bit set. There is one
// way to write a number.
func (c *codec) varint(v *uint64) {
	if !c.reading {
		x := *v
		for ; x >= 0x80; x >>= 7 {
			c.buf = append(c.buf, byte(x)|0x80)
		}
		c.buf = append(c.buf, byte(x))
		return
	}
	*v = 0
	for i, b := range c.buf {
		*v |= uint64(b&0x7f) << (7 * i)
		if b >= 0x80 && i < 9 {
			continue
		}
		if i == 9 && b > 1 || i > 0 && b == 0 {
			c.fail("a number is out of range, or longer than it needs to be")
			return
		}
		c.buf = c.buf[i+1:]
		return
	}
	c.fail("cut short")
}

type integer interface {
	~int | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func num[T integer](c *codec, v *T) {
	x := uint64(*v)
	c.varint(&x)
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

// Kind is the kind of a frame.
type Kind uint8

// The kinds of frames: what goes in, and then what comes out.
const (
	KindBox Kind = iota + 1
	KindBounds
	KindExec
	KindClose
	KindSetupError
	KindSockets
	KindBuilt
	KindExecError
	KindStarted
	KindStopped
	KindExited
	KindClosed
	KindPing // either way
)

// Frame is a pointer to one of the types of this package that have a Kind.
type Frame interface {
	kind() Kind
	code(*codec)
}

// empty is a frame of a kind, to be filled. Nil: there is no such kind.
func empty(k Kind) Frame {
	switch k {
	case KindBox:
		return new(Box)
	case KindBounds:
		return new(Bounds)
	case KindExec:
		return new(Exec)
	case KindClose:
		return new(Close)
	case KindSetupError:
		return new(SetupError)
	case KindSockets:
		return new(Sockets)
	case KindBuilt:
		return new(Built)
	case KindExecError:
		return new(ExecError)
	case KindStarted:
		return new(Started)
	case KindStopped:
		return new(Stopped)
	case KindExited:
		return new(Exited)
	case KindClosed:
		return new(Closed)
	case KindPing:
		return new(Ping)
	}
	return nil
}

// Encode makes the bytes of a frame.
func Encode(f Frame) []byte {
	size := 256
	switch f := f.(type) {
	case *Exec:
		size = 8 << 10
	case *Box:
		size = 8 << 10
		for i := range f.Mounts { // the files of /etc: to double the room for them touches twice as many pages, and copies
			size += len(f.Mounts[i].Text)
		}
	}
	c := codec{buf: make([]byte, 0, size)}
	c.head(f.kind())
	f.code(&c)
	return c.buf
}

// kindAt is where the kind stands in every frame.
const kindAt = 1

// Decode reads a frame. The strings of the result share its bytes.
func Decode(frame []byte) (Frame, error) {
	if len(frame) <= kindAt {
		return nil, Error("cut short")
	}
	f := empty(Kind(frame[kindAt]))
	if f == nil {
		return nil, Error("a frame of no kind that there is")
	}
	c := codec{buf: frame, reading: true}
	c.head(f.kind())
	f.code(&c)
	return f, c.end()
}

func (c *codec) end() error {
	if c.err == nil && len(c.buf) != 0 {
		c.fail("bytes left over")
	}
	return c.err
}
