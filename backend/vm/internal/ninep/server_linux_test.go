package ninep

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// guest asks a server.
type guest struct {
	t    *testing.T
	conn net.Conn
}

func newGuest(t *testing.T, s *Server) *guest {
	t.Helper()
	own, other := net.Pipe()
	go s.Serve(other)
	t.Cleanup(func() { own.Close() })
	return &guest{t, own}
}

// ask gives the answer, or its errno.
func (g *guest) ask(kind byte, put func(w *writer)) (*reader, unix.Errno) {
	g.t.Helper()
	w := &writer{b: make([]byte, headerSize)}
	put(w)
	if _, err := g.conn.Write(w.end(kind, 1)); err != nil {
		g.t.Fatal(err)
	}
	header := make([]byte, headerSize)
	if _, err := g.conn.Read(header); err != nil {
		g.t.Fatal(err)
	}
	body := make([]byte, binary.LittleEndian.Uint32(header)-headerSize)
	for n := 0; n < len(body); {
		m, err := g.conn.Read(body[n:])
		must.Do(g.t, err)
		n += m
	}
	r := &reader{b: body}
	if header[4] == rLerror {
		return nil, unix.Errno(r.u32())
	}
	return r, 0
}

func (g *guest) walk(to uint32, path string) unix.Errno {
	names := strings.Split(strings.Trim(path, "/"), "/")
	_, errno := g.ask(tWalk, func(w *writer) {
		w.u32(0)
		w.u32(to)
		w.u16(uint16(len(names)))
		for _, n := range names {
			w.str(n)
		}
	})
	return errno
}

func (g *guest) open(n uint32, flags int) unix.Errno {
	_, errno := g.ask(tLopen, func(w *writer) { w.u32(n); w.u32(uint32(flags)) })
	return errno
}

func (g *guest) read(n uint32) string {
	r, errno := g.ask(tRead, func(w *writer) { w.u32(n); w.u64(0); w.u32(100) })
	if errno != 0 {
		return errno.Error()
	}
	return string(r.take(int(r.u32())))
}

func attached(t *testing.T, s *Server) *guest {
	t.Helper()
	g := newGuest(t, s)
	if _, errno := g.ask(tAttach, func(w *writer) { w.u32(0); w.u32(1<<32 - 1); w.str(""); w.str(""); w.u32(0) }); errno != 0 {
		t.Fatal(errno)
	}
	return g
}

func TestWhatAGuestHoldsIsOpenedAgainByAnotherServer(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	must.Do(t, os.WriteFile(name, []byte("content"), 0o644))
	s := New(1, "")
	g := attached(t, s)
	if errno := g.walk(1, name); errno != 0 || g.open(1, unix.O_RDONLY) != 0 || g.read(1) != "content" {
		t.Fatal(errno, g.read(1))
	}
	// It is found by the name that it has by now.
	if errno := g.walk(2, dir); errno != 0 {
		t.Fatal(errno)
	}
	if _, errno := g.ask(tRenameat, func(w *writer) { w.u32(2); w.str("a"); w.u32(2); w.str("b") }); errno != 0 {
		t.Fatal(errno)
	}
	all, err := s.Save()
	must.Do(t, err)
	other := New(2, "")
	must.Do(t, other.Load(all))
	if got := newGuest(t, other).read(1); got != "content" {
		t.Errorf("the other one reads %q", got)
	}
	// What is another file by now isn't taken for it, and what has no name can't be written down.
	must.Do(t, os.WriteFile(filepath.Join(dir, "b"), []byte("something else"), 0o644))
	if err := New(3, "").Load(all); err == nil || !strings.Contains(err.Error(), "isn't the file any more") {
		t.Errorf("%v", err)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "b")))
	if _, err := s.Save(); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("%v", err)
	}
}

func TestFilesAreMadeWrittenListedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	g := attached(t, New(1, ""))
	if errno := g.walk(1, dir); errno != 0 {
		t.Fatal(errno)
	}
	if errno := g.walk(2, dir); errno != 0 {
		t.Fatal(errno)
	}
	if _, errno := g.ask(tLcreate, func(w *writer) { w.u32(2); w.str("new"); w.u32(unix.O_RDWR); w.u32(0o640); w.u32(0) }); errno != 0 {
		t.Fatal(errno)
	}
	if _, errno := g.ask(tWrite, func(w *writer) { w.u32(2); w.u64(0); w.u32(3); w.b = append(w.b, "abc"...) }); errno != 0 {
		t.Fatal(errno)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "new")); err != nil || string(text) != "abc" {
		t.Errorf("%q, %v", text, err)
	}
	if errno := g.open(1, unix.O_RDONLY|unix.O_DIRECTORY); errno != 0 {
		t.Fatal(errno)
	}
	r, errno := g.ask(tReaddir, func(w *writer) { w.u32(1); w.u64(0); w.u32(4096) })
	if errno != 0 || !bytes.Contains(r.b, []byte("new")) {
		t.Errorf("%v, %+v", errno, r)
	}
	if _, errno := g.ask(tUnlinkat, func(w *writer) { w.u32(1); w.str("new"); w.u32(0) }); errno != 0 {
		t.Error(errno)
	}
	// No name leads elsewhere, and nothing but files and directories is opened.
	for _, name := range []string{"..", ".", "", "a/b", "a\x00"} {
		if _, errno := g.ask(tMkdir, func(w *writer) { w.u32(1); w.str(name); w.u32(0o755); w.u32(0) }); errno != unix.EINVAL {
			t.Errorf("mkdir %q: %v", name, errno)
		}
	}
	if errno := g.walk(3, "/dev/null"); errno != 0 || g.open(3, unix.O_RDONLY) != unix.EINVAL {
		t.Errorf("a device: %v", errno)
	}
}

// The server's own memory, and what else it has, lies in file systems of the kernel's; nothing there has a name, nor behind a link.
func TestNothingOfTheServersIsReached(t *testing.T) {
	dir := t.TempDir()
	g := attached(t, New(1, ""))
	for n, name := range []string{"/proc/self/mem", "/proc/self/root/etc", "/proc/version", "/sys/kernel"} {
		if _, err := os.Stat(name); err != nil {
			t.Fatal(err)
		}
		if errno := g.walk(uint32(10+n), name); errno == 0 && g.open(uint32(10+n), unix.O_RDONLY) == 0 {
			t.Errorf("%s is opened", name)
		}
	}
	// What was a directory is a link by now.
	must.Do(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
	for _, name := range []string{"mem", "passwd"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "d", name), nil, 0o644))
	}
	for n, to := range map[uint32]string{1: "/proc/self", 2: "/etc"} {
		name := filepath.Join(dir, "d", map[uint32]string{1: "mem", 2: "passwd"}[n])
		if errno := g.walk(n, name); errno != 0 {
			t.Fatal(errno)
		}
		must.Do(t, os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "aside")))
		must.Do(t, os.Symlink(to, filepath.Join(dir, "d")))
		if errno := g.open(n, unix.O_RDONLY); errno == 0 {
			t.Errorf("%s is opened, which leads to %s", name, to)
		}
		if _, errno := g.ask(tGetattr, func(w *writer) { w.u32(n); w.u64(0x7ff) }); errno == 0 {
			t.Errorf("%s is described, which leads to %s", name, to)
		}
		must.Do(t, os.Remove(filepath.Join(dir, "d")))
		must.Do(t, os.Rename(filepath.Join(dir, "aside"), filepath.Join(dir, "d")))
		if errno := g.open(n, unix.O_RDONLY); errno != 0 {
			t.Errorf("the control: %v", errno)
		}
	}
}

// What is open can be cut, and its attributes be read from anywhere, however the numbers lie.
func TestAnOpenFileWithoutANameIsCut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	must.Do(t, os.WriteFile(name, []byte("content"), 0o644))
	g := attached(t, New(1, ""))
	if errno := g.walk(1, name); errno != 0 || g.walk(2, name) != 0 || g.open(1, unix.O_RDWR) != 0 {
		t.Fatal(errno)
	}
	if _, errno := g.ask(tXattrwalk, func(w *writer) { w.u32(2); w.u32(3); w.str("") }); errno != 0 {
		t.Fatal(errno)
	}
	if r, errno := g.ask(tRead, func(w *writer) { w.u32(3); w.u64(1<<64 - 1); w.u32(100) }); errno != 0 || r.u32() != 0 {
		t.Errorf("attributes from far behind their end: %v", errno)
	}
	must.Do(t, os.Remove(name))
	if _, errno := g.ask(tSetattr, func(w *writer) {
		w.u32(1)
		w.u32(8)
		w.b = append(w.b, make([]byte, 12)...)
		w.u64(3)
		w.b = append(w.b, make([]byte, 32)...)
	}); errno != 0 || g.read(1) != "con" {
		t.Errorf("%v, %q", errno, g.read(1))
	}
}

// Whatever is cut short, or of a fid that there isn't, is an error, and nothing else happens.
func TestMessagesThatAreNoneAreRefused(t *testing.T) {
	for kind := range 256 {
		for n := range 40 {
			s, out := New(1, ""), &writer{b: make([]byte, headerSize, MaxMessage)}
			r := &reader{b: bytes.Repeat([]byte{0xfe}, n)}
			err := s.answer(byte(kind), r, out)
			switch {
			case kind == tVersion || kind == tAttach || kind == tFlush:
			case err == nil && !r.bad:
				t.Errorf("kind %d with %d bytes is answered", kind, n)
			}
		}
	}
	own, other := net.Pipe()
	defer own.Close()
	done := make(chan error, 1)
	go func() { done <- New(1, "").Serve(other) }()
	_, _ = own.Write([]byte{0xff, 0xff, 0xff, 0xff, tRead, 0, 0})
	if err := <-done; err != errMessage {
		t.Errorf("a message of 4 GiB: %v", err)
	}
}
