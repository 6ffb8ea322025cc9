package target

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]uint32{"run": 0o755, "data": 0o644} {
		fd, err := unix.Open(dir+"/"+name, unix.O_CREAT|unix.O_WRONLY, mode)
		must.Do(t, err)
		unix.Close(fd)
	}
	must.Do(t, unix.Mkdir(dir+"/sub", 0o755))
	env := []string{"PATH=/nonexistent:" + dir}
	for _, c := range []struct {
		name string
		path string
		err  error
	}{
		{"run", dir + "/run", nil},
		{dir + "/run", dir + "/run", nil},
		{"absent", "absent", unix.ENOENT},
		{"sub", "sub", unix.EACCES},
		{dir + "/sub", dir + "/sub", unix.EACCES},
		{dir + "/absent", dir + "/absent", unix.ENOENT},
		{dir + "/run/x", dir + "/run/x", unix.ENOTDIR},
		{"", "", unix.ENOENT},
	} {
		path, err := lookPath(c.name, env)
		if path != c.path || err != c.err {
			t.Errorf("%q: %q %v, want %q %v", c.name, path, err, c.path, c.err)
		}
	}
	if _, err := lookPath("data", env); err != unix.EACCES {
		t.Errorf("a file that isn't executable: %v", err)
	}
}

func TestThreadsThatTheInitMakesLaterAreCounted(t *testing.T) {
	for _, tt := range []struct {
		name string
		own  uint64
		some bool
	}{
		{"no limit", 0, false},
		{"more than at the fork", 1, true}, // the runtime has two at least
		{"fewer", 1 << 20, false},
	} {
		if n := (&Target{tasks: tt.own}).NewTasks(); n > 0 != tt.some {
			t.Errorf("%s: %d", tt.name, n)
		}
	}
}
