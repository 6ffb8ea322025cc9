//go:build linux

package child

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
)

func TestOnlyOneCommandLineIsAChilds(t *testing.T) {
	for cmdline, want := range map[string]bool{
		"confine __child":          true,
		"/usr/bin/confine __child": true,
		"confine __child more":     false,
		"confine run __child":      false,
		"__child":                  false,
		"":                         false,
		"confine":                  false,
		"confine -- __child":       false,
		"confine __child ":         false,
	} {
		if got := Called(strings.Split(cmdline, " ")); got != want {
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
	if table[1].id != "29" || table[1].parent != "28" || table[1].point != `/with blank\` || !table[1].has("ro") || !table[1].has("nodev") || table[1].has("nosuid") || table[1].has("no") {
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
	s := &state{box: &handoff.Box{Mounts: []handoff.Mount{
		{Kind: handoff.MountBind, Dst: "/usr", ReadOnly: true},
		{Kind: handoff.MountBind, Dst: "/work", ReadOnly: false},
		{Kind: handoff.MountReadOnly, Dst: "/work/.git"},
		{Kind: handoff.MountBind, Dst: "/dev/null", Device: true},
		{Kind: handoff.MountMask, Dst: "/usr/secret"},
		{Kind: handoff.MountDevpts, Dst: "/dev/pts", Size: 32},
	}}}
	good := []mountEntry{
		{point: "/", options: "ro,nosuid,nodev"},
		{point: "/usr", options: "ro,nosuid,nodev,relatime"},
		{point: "/usr/local", options: "ro,nosuid,nodev"}, // mounted there by the caller
		{point: "/work", options: "rw,nosuid,nodev"},
		{point: "/work/.git", options: "ro,nosuid,nodev"},
		{point: "/dev/null", options: "rw,nosuid"},
		{point: "/usr/secret", options: "ro,nosuid,nodev,noexec"},
		{point: "/dev/pts", options: "rw,nosuid,noexec", super: "rw,mode=620,ptmxmode=666,max=32"},
	}
	if err := s.check(good); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []mountEntry{
		{point: "/", options: "rw,nosuid,nodev"},
		{point: "/usr", options: "rw,nosuid,nodev"},
		{point: "/usr/local", options: "rw,nosuid,nodev"},
		{point: "/usr", options: "ro,nodev"},
		{point: "/work", options: "rw,nosuid"},
		{point: "/work/.git", options: "rw,nosuid,nodev"},
		{point: "/work/.git/x", options: "rw,nosuid,nodev"},
		{point: "/dev/null", options: "rw"},
		{point: "/usr/secret", options: "rw,nosuid,nodev"},
		{point: "/dev/pts", options: "rw,nosuid,noexec", super: "rw,mode=620,ptmxmode=666"},
		{point: "/dev/pts", options: "rw,nosuid,noexec", super: "rw,mode=620,ptmxmode=666,max=320"},
		{point: "/home", options: "ro,nosuid,nodev"},
		{point: "/usrx", options: "ro,nosuid,nodev"},
	} {
		if s.check([]mountEntry{bad}) == nil {
			t.Errorf("%+v passed", bad)
		}
	}
}

// What is mounted over all of another mount hides it; then the flags of that count. And
// an overlay that could not be made is held to be read-only, and no other.
func TestVerifyKnowsWhatIsCovered(t *testing.T) {
	s := &state{box: &handoff.Box{Mounts: []handoff.Mount{
		{Kind: handoff.MountOverlay, Dst: "/home/u"},
		{Kind: handoff.MountMask, Dst: "/home/u"},
		{Kind: handoff.MountOverlay, Dst: "/cache"},
		{Kind: handoff.MountOverlay, Dst: "/work"},
	}}, flat: []string{"/work"}}
	good := []mountEntry{
		{"1", "0", "/", "ro,nosuid,nodev", ""},
		{"2", "1", "/home/u", "rw,nosuid,nodev", ""},
		{"3", "2", "/home/u", "ro,nosuid,nodev", ""},
		{"4", "1", "/cache", "rw,nosuid,nodev", ""},
		{"5", "1", "/work", "ro,nosuid,nodev", ""},
		{"6", "5", "/work/mounted", "ro,nosuid,nodev", ""},
	}
	if err := s.check(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(table []mountEntry){
		"by itself":    func(table []mountEntry) { table[2] = mountEntry{"3", "3", "/home/u", "rw,nosuid,nodev", ""} },
		"beside":       func(table []mountEntry) { table[2].parent = "1" },
		"the upper":    func(table []mountEntry) { table[2].options = "rw,nosuid,nodev" },
		"set-id below": func(table []mountEntry) { table[1].options = "rw,nodev" },
		"no overlay":   func(table []mountEntry) { table[4].options = "rw,nosuid,nodev" },
		"below it":     func(table []mountEntry) { table[5].options = "rw,nosuid,nodev" },
	} {
		table := slices.Clone(good)
		change(table)
		if s.check(table) == nil {
			t.Errorf("%s: passed", name)
		}
	}
}

// A tree that somebody else made brings as many mounts as there are links in what is
// protected: twice as many are twice the work, which for want of a clock is what is made on
// the way.
func TestVerifyOfManyMountsIsNoMoreThanTheirNumber(t *testing.T) {
	made := func(n int) float64 {
		s, table := &state{box: &handoff.Box{}}, make([]mountEntry, 0, n)
		for i := range n {
			at := "/a/directory/with/quite/a/long/name/" + strconv.Itoa(i)
			s.box.Mounts = append(s.box.Mounts, handoff.Mount{Kind: handoff.MountReadOnly, Dst: at})
			table = append(table, mountEntry{strconv.Itoa(i + 2), "1", at, "ro,nosuid,nodev", ""})
		}
		return testing.AllocsPerRun(1, func() {
			if err := s.check(table); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := made(100), made(400); many > 8*few {
		t.Errorf("%g for 100 mounts, and %g for 400", few, many)
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
		if n := (&target{tasks: tt.own}).newTasks(); n > 0 != tt.some {
			t.Errorf("%s: %d", tt.name, n)
		}
	}
}
