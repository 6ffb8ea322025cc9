package ninep

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// TestMain has a process that fuzzes see a directory of its own as /, since what it asks for is done.
func TestMain(m *testing.M) {
	if slices.ContainsFunc(os.Args, func(a string) bool { return strings.HasPrefix(a, "-test.fuzzworker") }) {
		dir, err := os.MkdirTemp("", "ninep-")
		if err := errors.Join(err, os.MkdirAll(filepath.Join(dir, "tmp", "a"), 0o755), os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600), unix.Chroot(dir), os.Chdir("/")); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// said is a request.
func said(kind byte, put func(w *writer)) []byte {
	w := &writer{b: make([]byte, headerSize)}
	put(w)
	return w.end(kind, 1)
}

// stream is a guest that says all at once and hears nothing.
type stream struct {
	io.Reader
	io.Writer
}

func (s *Server) close() {
	for n := range s.fids {
		_ = s.drop(n)
	}
}

func FuzzServe(f *testing.F) {
	attach := said(tAttach, func(w *writer) { w.u32(0); w.u32(1<<32 - 1); w.str(""); w.str(""); w.u32(0) })
	walk := said(tWalk, func(w *writer) { w.u32(0); w.u32(1); w.u16(2); w.str("tmp"); w.str("..") })
	open := said(tLopen, func(w *writer) { w.u32(1); w.u32(unix.O_RDONLY | unix.O_DIRECTORY) })
	list := said(tReaddir, func(w *writer) { w.u32(1); w.u64(0); w.u32(1 << 20) })
	attributes := said(tXattrwalk, func(w *writer) { w.u32(1); w.u32(2); w.str("") })
	f.Add(said(tVersion, func(w *writer) { w.u32(1 << 30); w.str("9P2000.L") }))
	f.Add(slices.Concat(attach, walk, open, list, attributes, said(tClunk, func(w *writer) { w.u32(2) })))
	f.Add(slices.Concat(attach, said(tGetattr, func(w *writer) { w.u32(0); w.u64(0x7ff) }), said(tStatfs, func(w *writer) { w.u32(0) })))
	f.Add(said(tFlush+100, func(w *writer) { w.u16(1) }))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := New(1, "/own")
		if err := s.Serve(stream{bytes.NewReader(text), io.Discard}); err == nil {
			t.Error("it ended without an end")
		}
		if s.held > maxHeld {
			t.Errorf("%d bytes are held", s.held)
		}
		s.close()
		if s.held != 0 {
			t.Errorf("%d bytes are held by nothing", s.held)
		}
	})
}

// Whatever a guest holds has an end, and goes when it lets it go.
func TestAFloodIsBoundedInMemory(t *testing.T) {
	dir := t.TempDir()
	long := dir
	for range 12 {
		long = filepath.Join(long, strings.Repeat("x", 250))
	}
	walk := func(s *Server, n uint32) error {
		w := &writer{}
		w.u32(0)
		w.u32(n)
		w.u16(0)
		return s.answer(tWalk, &reader{b: w.b}, &writer{b: make([]byte, headerSize)})
	}
	for name, ask := range map[string]func(s *Server, n uint32) error{
		"numbers": walk,
		"attributes": func(s *Server, n uint32) error {
			if err := walk(s, n); err != nil {
				return err
			}
			w := &writer{}
			w.u32(n)
			w.str("user.x")
			w.u64(64 << 10)
			w.u32(0)
			return s.answer(tXattrcreate, &reader{b: w.b}, &writer{b: make([]byte, headerSize)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(1, "")
			defer s.close()
			_ = s.add(0, &fid{Fid: Fid{Path: long}, file: -1})
			var err error
			for n := uint32(1); n < 1<<20 && err == nil; n++ {
				err = ask(s, n)
			}
			var now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&now)
			if err != unix.ENFILE || s.held > maxHeld || now.HeapAlloc > 2*maxHeld {
				t.Errorf("%v; %d bytes are counted, and %d are there", err, s.held, now.HeapAlloc)
			}
			// The longer name of a directory above isn't a way around it.
			if err := s.movable(dir, dir+strings.Repeat("y", 4000)); name == "numbers" && err != unix.ENFILE {
				t.Errorf("a longer name: %v", err)
			}
		})
	}
}

func TestTheDirectoryOfTheServerIsNotShown(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, errors.Join(os.Mkdir(filepath.Join(dir, "own"), 0o755), os.Mkdir(filepath.Join(dir, "other"), 0o755)))
	g := attached(t, New(1, filepath.Join(dir, "own")))
	// A walk that ends before its end isn't one to a fid.
	if errno := g.walk(1, filepath.Join(dir, "own")); errno == 0 && g.open(1, unix.O_RDONLY) == 0 {
		t.Error("it is walked to")
	}
	if errno := g.walk(2, filepath.Join(dir, "other")); errno != 0 || g.open(2, unix.O_RDONLY|unix.O_DIRECTORY) != 0 {
		t.Errorf("the other: %v", errno)
	}
	if errno := g.walk(3, dir); errno != 0 || g.open(3, unix.O_RDONLY|unix.O_DIRECTORY) != 0 {
		t.Fatal(errno)
	}
	r, errno := g.ask(tReaddir, func(w *writer) { w.u32(3); w.u64(0); w.u32(4096) })
	if errno != 0 || bytes.Contains(r.b, []byte("own")) || !bytes.Contains(r.b, []byte("other")) {
		t.Errorf("%v: %q", errno, r.b)
	}
}
