package hostfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func TestKernelResolves(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must := func(err error) {
		t.Helper()
		must.Do(t, err)
	}
	must(err)
	must(os.MkdirAll(dir+"/a b/c", 0o755))
	must(os.WriteFile(dir+"/x (deleted)", nil, 0o600))
	must(os.Symlink("a b", dir+"/l"))
	must(os.Symlink(dir+"/x (deleted)", dir+"/ld"))
	must(os.Symlink("loop", dir+"/loop"))
	must(os.Symlink("nowhere", dir+"/dangling"))
	must(unix.Mkfifo(dir+"/fifo", 0o600))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(err)
	defer unix.Close(fd)
	must(os.Chdir(dir))
	must(unix.Bind(fd, &unix.SockaddrUnix{Name: "sock"}))

	for _, c := range []struct {
		name, want string
		kind       fs.FileMode
		err        error
	}{
		{"/a b", "/a b", fs.ModeDir, nil},
		{"/l/c", "/a b/c", fs.ModeDir, nil},
		{"/l/c/..", "/a b", fs.ModeDir, nil},
		{"/l///", "/a b", fs.ModeDir, nil},
		{"/fifo", "/fifo", fs.ModeNamedPipe, nil}, // and doesn't hang
		{"/sock", "/sock", fs.ModeSocket, nil},
		{"/x (deleted)", "/x (deleted)", 0, nil},
		{"/ld", "/x (deleted)", 0, nil},
		{"/loop", "", 0, syscall.ELOOP},
		{"/dangling", "", 0, fs.ErrNotExist},
		{"/fifo/x", "", 0, syscall.ENOTDIR},
	} {
		f, err := This().Resolve(dir + c.name)
		if c.err != nil {
			if !errors.Is(err, c.err) {
				t.Errorf("%s: error %v, want %v", c.name, err, c.err)
			}
			continue
		}
		if err != nil || f.Path != dir+c.want || f.Mode.Type() != c.kind || f.Ino == 0 {
			t.Errorf("%s: %+v, %v", c.name, f, err)
		}
	}
	entries, err := This().ReadDir(dir)
	must(err)
	kinds := map[string]fs.FileMode{}
	for _, e := range entries {
		kinds[e.Name] = e.Type
	}
	if len(entries) != 8 || kinds["a b"] != fs.ModeDir || kinds["l"] != fs.ModeSymlink || kinds["fifo"] != fs.ModeNamedPipe {
		t.Errorf("ReadDir %v", entries)
	}
	if _, err := This().ReadFile(dir+"/fifo", 10); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("ReadFile of a FIFO: %v", err)
	}
}
