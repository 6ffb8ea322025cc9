package linux

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// With openat2 and without, the same is opened and refused.
func TestOpenPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	for _, err := range []error{
		os.MkdirAll(dir+"/a/b", 0o755), os.WriteFile(dir+"/a/b/f", nil, 0o600), os.Symlink("a", dir+"/l"), os.Symlink("f", dir+"/a/b/g"),
	} {
		must.Do(t, err)
	}
	for _, c := range []struct {
		path  string
		flags int
		want  error
	}{
		{"/a/b/f", 0, nil}, {"/a/b", 0, nil}, {"/a/b", unix.O_DIRECTORY, nil}, {"/a/b/f", unix.O_DIRECTORY, unix.ENOTDIR}, {"/l/b/f", 0, unix.ELOOP},
		{"/a/b/g", 0, nil}, {"/a/none/f", 0, unix.ENOENT}, {"/a/b/f/x", 0, unix.ENOTDIR},
	} {
		for name, open := range map[string]func(string, int) (int, error){
			"openat2": OpenPath,
			"walk": func(path string, flags int) (int, error) {
				return walk(path, flags|unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW)
			},
		} {
			fd, err := open(dir+c.path, c.flags)
			if err != c.want {
				t.Errorf("%s %s: %v, want %v", name, c.path, err, c.want)
			}
			if err != nil {
				continue
			}
			var got, want unix.Stat_t
			if unix.Fstat(fd, &got) != nil || unix.Lstat(dir+c.path, &want) != nil || got.Ino != want.Ino {
				t.Errorf("%s %s: another file", name, c.path)
			}
			unix.Close(fd)
		}
	}
	if fd, err := walk("/", unix.O_PATH); err != nil {
		t.Error(err)
	} else {
		unix.Close(fd)
	}
}
