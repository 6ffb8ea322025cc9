package cli

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// events are what happened in a directory since it is watched: "create NAME" and so on.
func events(t *testing.T, fd int) (all []string) {
	t.Helper()
	words := map[uint32]string{unix.IN_CREATE: "create ", unix.IN_MODIFY: "modify ", unix.IN_MOVED_FROM: "from ", unix.IN_MOVED_TO: "to ", unix.IN_DELETE: "delete "}
	buf := make([]byte, 64<<10)
	n, err := unix.Read(fd, buf)
	if errors.Is(err, unix.EAGAIN) {
		return nil
	}
	must(t, err)
	for rest := buf[:n]; len(rest) > 0; {
		e := (*unix.InotifyEvent)(unsafe.Pointer(&rest[0]))
		name := rest[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+e.Len]
		rest = rest[unix.SizeofInotifyEvent+e.Len:]
		name, _, _ = bytes.Cut(name, []byte{0})
		all = append(all, words[e.Mask]+string(name))
	}
	return all
}

// Killed at any moment, confine leaves no half of a report: until it is whole it has
// no name, and it has a temporary one only where it replaces another.
func TestAReportHasNoNameUntilItIsWhole(t *testing.T) {
	dir := inTemp(t)
	probe, err := unix.Open(dir, unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Skip("a file system without O_TMPFILE: ", err)
	}
	must(t, unix.Close(probe))
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	defer unix.Close(watch)
	_, err = unix.InotifyAddWatch(watch, dir, unix.IN_CREATE|unix.IN_MODIFY|unix.IN_MOVE|unix.IN_DELETE)
	must(t, err)
	temporary := func(all []string) (n int) {
		for _, e := range all {
			if strings.Contains(e, ".confine-") {
				n++
				if !strings.HasPrefix(e, "create ") && !strings.HasPrefix(e, "from ") {
					t.Errorf("with a temporary name: %q", e)
				}
			}
		}
		return n
	}
	must(t, os.WriteFile("control", []byte("x"), 0o600))
	if all := strings.Join(events(t, watch), ","); all != "create control,modify control" {
		t.Fatalf("the watch sees %q", all)
	}
	s, err := openReport("r.json")
	must(t, err)
	defer s.close()
	must(t, s.put([]byte("one")))
	if all := events(t, watch); temporary(all) != 0 || !strings.Contains(strings.Join(all, ","), "create r.json") {
		t.Errorf("%q", all)
	}
	must(t, s.put([]byte("two")))
	if all := events(t, watch); temporary(all) != 2 || !strings.Contains(strings.Join(all, ","), "to r.json") {
		t.Errorf("over another: %q", all)
	}
	if b, err := os.ReadFile("r.json"); err != nil || string(b) != "two" {
		t.Errorf("%q, %v", b, err)
	}
	leftovers(t, dir, "control", "r.json")
}

func TestAReportWhereEveryFileHasAName(t *testing.T) {
	dir := inTemp(t)
	s, err := openReport("r.json")
	must(t, err)
	defer s.close()
	s.named = true
	for _, text := range []string{"one", "two"} {
		must(t, s.put([]byte(text)))
		if b, err := os.ReadFile("r.json"); err != nil || string(b) != text {
			t.Errorf("%q, %v", b, err)
		}
	}
	leftovers(t, dir, "r.json")
	proc, err := unix.Open("/proc/self", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(proc)
	if fd := (&sink{dir: proc}).unnamed(); fd >= 0 {
		t.Errorf("a file without a name in /proc: %d", fd)
	}
}
