package linux

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// A socket keeps the numbers of the file that it was bound to, whatever that is called now.
func TestUnixSocketsHaveTheNumbersOfTheirFiles(t *testing.T) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	defer unix.Close(fd)
	dir := t.TempDir()
	name, moved := filepath.Join(dir, "a\nb"), filepath.Join(dir, "moved")
	must.Do(t, unix.Bind(fd, &unix.SockaddrUnix{Name: name}))
	must.Do(t, os.Rename(name, moved))
	var st unix.Stat_t
	must.Do(t, unix.Lstat(moved, &st))
	all, err := UnixSockets()
	if err != nil {
		t.Skip(err)
	}
	for i := range all {
		if u := &all[i]; u.Path() == name {
			if !u.File || u.Ino != uint32(st.Ino) || u.Kind != unix.SOCK_STREAM {
				t.Errorf("%+v, and the file is %d", u, st.Ino)
			}
			return
		}
	}
	t.Error("it isn't listed")
}

func FuzzSocketsOfTheKernel(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x14\x00\x00\x00\x03\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add(append([]byte("\x30\x00\x00\x00\x14\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01\x0a\x00"), make([]byte, 28)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var list []UnixSocket
		_, _ = parseSockets(b, &list)
		if len(list) > len(b)/16 {
			t.Error("more than there is room for")
		}
	})
}
