//go:build linux

package child

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
)

func TestCalledAs(t *testing.T) {
	for cmdline, want := range map[string]bool{
		"confine\x00__child\x00":          true,
		"/usr/bin/confine\x00__child\x00": true,
		"confine\x00__child\x00more\x00":  false,
		"confine\x00run\x00__child\x00":   false,
		"__child\x00":                     false,
		"":                                false,
		"confine\x00":                     false,
		"confine\x00__child":              false,
		"confine\x00--\x00__child\x00":    false,
		"confine\x00__child\x00\x00":      false,
		"sh\x00-c\x00confine __child\x00": false,
		strings.Repeat("x", 256):          false,
	} {
		if got := calledAs([]byte(cmdline)); got != want {
			t.Errorf("%q: %v", cmdline, got)
		}
	}
}

func TestParseMountinfo(t *testing.T) {
	table, ok := parseMountinfo("22 28 0:20 / /proc rw,nosuid shared:1 - proc proc rw\n" +
		"29 28 8:1 /a /with\\040blank\\134 ro,nodev - ext4 /dev/x rw\n")
	if !ok || len(table) != 2 {
		t.Fatal(table, ok)
	}
	if table[1].point != `/with blank\` || !table[1].has("ro") || !table[1].has("nodev") || table[1].has("nosuid") || table[1].has("no") {
		t.Errorf("%+v", table[1])
	}
	for _, bad := range []string{"22 28 0:20 /\n", "x\n", "22 28 0:20 / proc rw - x\n"} {
		if _, ok := parseMountinfo(bad); ok {
			t.Errorf("%q passed", bad)
		}
	}
}

func FuzzParseMountinfo(f *testing.F) {
	f.Add("22 28 0:20 / /proc rw,nosuid shared:1 - proc proc rw\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, ok := parseMountinfo(text)
		for i := range table {
			if ok && !strings.HasPrefix(table[i].point, "/") {
				t.Errorf("%q", table[i].point)
			}
		}
	})
}

func TestVerifyHoldsTheTableAgainstThePlan(t *testing.T) {
	s := &state{plan: &handoff.Child{Mounts: []handoff.Mount{
		{Kind: handoff.MountBind, Dst: "/usr", ReadOnly: true},
		{Kind: handoff.MountBind, Dst: "/work", ReadOnly: false},
		{Kind: handoff.MountReadOnly, Dst: "/work/.git"},
		{Kind: handoff.MountBind, Dst: "/dev/null", Device: true},
		{Kind: handoff.MountMask, Dst: "/usr/secret"},
	}}}
	good := []mountEntry{
		{"/", "ro,nosuid,nodev"},
		{"/usr", "ro,nosuid,nodev,relatime"},
		{"/usr/local", "ro,nosuid,nodev"}, // mounted there by the caller
		{"/work", "rw,nosuid,nodev"},
		{"/work/.git", "ro,nosuid,nodev"},
		{"/dev/null", "rw,nosuid"},
		{"/usr/secret", "ro,nosuid,nodev,noexec"},
	}
	if err := s.check(good); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []mountEntry{
		{"/", "rw,nosuid,nodev"},
		{"/usr", "rw,nosuid,nodev"},
		{"/usr/local", "rw,nosuid,nodev"},
		{"/usr", "ro,nodev"},
		{"/work", "rw,nosuid"},
		{"/work/.git", "rw,nosuid,nodev"},
		{"/work/.git/x", "rw,nosuid,nodev"},
		{"/dev/null", "rw"},
		{"/usr/secret", "rw,nosuid,nodev"},
		{"/home", "ro,nosuid,nodev"},
		{"/usrx", "ro,nosuid,nodev"},
	} {
		if s.check([]mountEntry{bad}) == nil {
			t.Errorf("%+v passed", bad)
		}
	}
}

func TestFaultKeepsTheErrno(t *testing.T) {
	err := fault("openat2", "/x", unix.ELOOP)
	var f *failure
	if !errors.As(err, &f) || f.errno != unix.ELOOP || f.path != "/x" {
		t.Errorf("%#v", err)
	}
	if fault("x", "", nil) != nil {
		t.Error("no error became one")
	}
	if err := fault("x", "", errors.New("odd")); err.(*failure).errno != unix.EIO {
		t.Errorf("%#v", err)
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]uint32{"run": 0o755, "data": 0o644} {
		fd, err := unix.Open(dir+"/"+name, unix.O_CREAT|unix.O_WRONLY, mode)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
	}
	if err := unix.Mkdir(dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
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
