package output

import (
	"os"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// destination is one kind of the caller's stdout: the descriptor, and what arrived there.
type destination struct {
	name string
	open func(t *testing.T) (w *os.File, got func() []byte)
}

func fileWith(flags int) func(t *testing.T) (*os.File, func() []byte) {
	return func(t *testing.T) (*os.File, func() []byte) {
		name := tempFile(t, nil)
		f, err := os.OpenFile(name, os.O_WRONLY|flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		keep(t, f)
		return f, func() []byte {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
}

func pipeDst(t *testing.T) (*os.File, func() []byte) {
	r, w := osPipe(t)
	c := collect(r)
	return w, func() []byte { w.Close(); return within(t, c, "reader") }
}

func nonblockingPipe(t *testing.T) (*os.File, func() []byte) {
	r, w := osPipe(t)
	if err := unix.SetNonblock(int(w.Fd()), true); err != nil {
		t.Fatal(err)
	}
	unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
	c := collect(r)
	return w, func() []byte { w.Close(); return within(t, c, "reader") }
}

func socketDst(t *testing.T) (*os.File, func() []byte) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	keep(t, r, w)
	c := collect(r)
	return w, func() []byte { w.Close(); return within(t, c, "reader") }
}

func rawTerminal(t *testing.T) (*os.File, func() []byte) {
	m, s, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	tio, _ := unix.IoctlGetTermios(int(s.Fd()), unix.TCGETS)
	tio.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(int(s.Fd()), unix.TCSETS, tio); err != nil {
		t.Fatal(err)
	}
	keep(t, m, s)
	c := collect(m)
	return s, func() []byte { s.Close(); return within(t, c, "terminal") }
}

var destinations = []destination{
	{"pipe", pipeDst},
	{"non-blocking pipe of one page", nonblockingPipe},
	{"file", fileWith(0)},
	{"file, append", fileWith(os.O_APPEND)},
	{"socket", socketDst},
	{"terminal", rawTerminal},
}
