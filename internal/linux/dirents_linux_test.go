package linux

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func openDir(t testing.TB, name string) int {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must.Do(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func TestDirents(t *testing.T) {
	dir := t.TempDir()
	want := []string{"..data", "file", "link", strings.Repeat("n", 255)}
	must.Do(t, os.WriteFile(dir+"/file", nil, 0o600))
	must.Do(t, os.Symlink("file", dir+"/link"))
	must.Do(t, os.Mkdir(dir+"/..data", 0o700))
	must.Do(t, os.Mkdir(dir+"/"+want[3], 0o700))
	for i := range 1000 { // more than one piece
		want = append(want, strconv.Itoa(i))
		must.Do(t, os.WriteFile(dir+"/"+want[len(want)-1], nil, 0o600))
	}
	slices.Sort(want)
	fd := openDir(t, dir)
	buf := make([]byte, 1024)
	list := func(limit int) (names []string) {
		for e, err := range Dirents(fd, buf) {
			must.Do(t, err)
			names = append(names, string(e.Name))
			if e.Name[:len(e.Name)+1][len(e.Name)] != 0 {
				t.Errorf("no zero byte follows %q", e.Name)
			}
			types := map[string]byte{"file": unix.DT_REG, "link": unix.DT_LNK, "..data": unix.DT_DIR}
			if kind := types[names[len(names)-1]]; kind != 0 && e.Type != kind && e.Type != unix.DT_UNKNOWN {
				t.Errorf("%q is of type %d", e.Name, e.Type)
			}
			if len(names) == limit {
				_, err := unix.Seek(fd, e.Next, unix.SEEK_SET)
				must.Do(t, err)
				break
			}
		}
		return names
	}
	var got []string
	for {
		some := list(77)
		if got = append(got, some...); len(some) == 0 {
			break
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d names, want %d", len(got), len(want))
	}
	none := 0
	for e, err := range Dirents(-1, buf) {
		if none++; e.Name != nil || err != unix.EBADF || none > 1 {
			t.Errorf("%q, %v", e.Name, err)
		}
	}
	allocs := testing.AllocsPerRun(10, func() {
		_, _ = unix.Seek(fd, 0, unix.SEEK_SET)
		for e, err := range Dirents(fd, buf) {
			if err == nil && len(e.Name) == 0 {
				t.Error("no name")
			}
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func FuzzNextDirent(f *testing.F) {
	f.Add([]byte("12345678abcdefgh\x18\x00\x04name\x00"))
	f.Add([]byte("12345678abcdefgh\x18\x00\x04names"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, buf []byte) {
		for rest := buf; len(rest) > 0; {
			e, after := nextDirent(rest)
			if e.Name != nil && (len(e.Name) == 0 || len(after) >= len(rest) || e.Name[:len(e.Name)+1][len(e.Name)] != 0) {
				t.Fatalf("%q of %q leaves %q", e.Name, rest, after)
			}
			if e.Name == nil && after != nil {
				t.Fatalf("no name, and %q", after)
			}
			rest = after
		}
	})
}
