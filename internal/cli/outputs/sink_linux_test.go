package outputs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
	"golang.org/x/sys/unix"
)

// asIs is for names that lead through no link.
func asIs(name string) (string, error) { return filepath.Abs(name) }

// The name of a directory was looked at, and then somebody put a link in its place.
func TestALinkThatComesTooLateIsNotFollowed(t *testing.T) {
	for _, dir := range []string{"d", "d/e"} {
		t.Chdir(t.TempDir())
		must.Do(t, errors.Join(os.MkdirAll("d/e", 0o700), os.MkdirAll("elsewhere/e", 0o700)))
		swap := func(name string) (string, error) {
			abs, err := filepath.Abs(name)
			return abs, errors.Join(err, os.RemoveAll("d"), os.Symlink("elsewhere", "d"))
		}
		if s, err := OpenWhole("--report", dir+"/r.json", asIs); err != nil { // the control
			t.Fatal(err)
		} else {
			s.Close()
		}
		if s, err := OpenWhole("--report", dir+"/r.json", swap); !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("%s: %v", dir, err)
			s.Close()
		}
		if found, err := filepath.Glob("elsewhere/*/*"); err != nil || found != nil {
			t.Errorf("%q, %v", found, err)
		}
	}
}

// A command can make a report longer than a pipe, and the caller may read only when confine has ended.
func TestAReportThatNobodyReadsYet(t *testing.T) {
	for size, whole := range map[int]bool{500_000: true, 3 << 20: false} {
		r, w, err := os.Pipe()
		must.Do(t, err)
		defer r.Close()
		s := &Sink{option: "--report", spec: "fd:3", fd: int(w.Fd()), patience: 100 * time.Millisecond}
		if err := s.Put(bytes.Repeat([]byte("x"), size)); whole != (err == nil) || !whole && !errors.Is(err, errUnread) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if whole {
			w.Close()
			if b, err := io.ReadAll(r); len(b) != size {
				t.Errorf("%d bytes of %d, %v", len(b), size, err)
			}
		}
	}
}

// A signal that ends confine before it listens would leave the file that was made to see whether one can be.
func TestATryLeavesNoNameForAMoment(t *testing.T) {
	dir := t.TempDir()
	if f, err := os.OpenFile(dir, os.O_WRONLY|nameless, 0o600); err != nil {
		t.Skipf("files have a name here: %v", err)
	} else {
		f.Close()
	}
	seen, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must.Do(t, err)
	defer unix.Close(seen)
	_, err = unix.InotifyAddWatch(seen, dir, unix.IN_CREATE)
	must.Do(t, err)
	s, err := OpenWhole("--report", filepath.Join(dir, "r.json"), asIs)
	must.Do(t, err)
	s.Close()
	if n, err := unix.Read(seen, make([]byte, 4096)); err != unix.EAGAIN {
		t.Errorf("%d bytes of events, %v", n, err)
	}
}
