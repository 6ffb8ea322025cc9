package outputs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// asIs is for names that lead through no link.
func asIs(name string) (string, error) { return filepath.Abs(name) }

// The name of a directory was looked at, and then somebody put a link in its place.
func TestALinkThatComesTooLateIsNotFollowed(t *testing.T) {
	for _, dir := range []string{"d", "d/e"} {
		t.Chdir(t.TempDir())
		must(t, errors.Join(os.MkdirAll("d/e", 0o700), os.MkdirAll("elsewhere/e", 0o700)))
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

// Killed at any moment, confine leaves no half of a report: until it is whole it has no name, and a
// temporary one only where it replaces another.
func TestAReportHasNoNameUntilItIsWhole(t *testing.T) {
	dir := t.TempDir()
	probe, err := unix.Open(dir, unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Skip("a file system without O_TMPFILE: ", err)
	}
	unix.Close(probe)
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	defer unix.Close(watch)
	if _, err = unix.InotifyAddWatch(watch, dir, unix.IN_MODIFY); err != nil {
		t.Fatal(err)
	}
	named := func() bool { // something of ours was written to by its name
		events := make([]byte, 4096)
		if _, err := unix.Read(watch, events); err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
		return bytes.Contains(events, []byte(".confine-")) || bytes.Contains(events, []byte("r.json"))
	}
	s, err := OpenWhole("--report", dir+"/r.json", asIs)
	must(t, err)
	defer s.Close()
	for range 2 {
		if err := s.Put([]byte("x")); err != nil || named() {
			t.Errorf("it had a name before it was whole, or %v", err)
		}
	}
	if err := os.WriteFile(dir+"/r.json", []byte("x"), 0o600); err != nil || !named() {
		t.Errorf("the control, %v", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
