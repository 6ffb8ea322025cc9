package child

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/child/internal/target"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
)

const (
	fsRead  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fsWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE
)

func needsLandlock(t testing.TB) {
	t.Helper()
	if ok, err := host.Has("landlock"); err != nil || !ok {
		must.Do(t, host.MustRun("landlock"))
		t.Skip("no Landlock")
	}
}

// restricted makes the ruleset, and does something in a thread that has it on.
func restricted(t *testing.T, l handoff.Landlock, do func()) error {
	t.Helper()
	s := &state{box: &handoff.Box{Landlock: l}, starter: target.Starter{Ruleset: -1}}
	err := s.makeRuleset()
	if s.starter.Ruleset >= 0 {
		defer unix.Close(s.starter.Ruleset)
	}
	if err != nil || do == nil {
		return err
	}
	done := make(chan unix.Errno)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with us
		_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		_, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(s.starter.Ruleset), 0, 0)
		if errno == 0 {
			do()
		}
		done <- errno
	}()
	if errno := <-done; errno != 0 {
		t.Fatal("landlock_restrict_self:", errno)
	}
	return nil
}

func rule(t testing.TB, path string, access uint64) handoff.LandlockRule {
	t.Helper()
	var st unix.Stat_t
	must.Do(t, unix.Lstat(path, &st))
	return handoff.LandlockRule{Path: path, Dev: uint64(st.Dev), Ino: st.Ino, Access: access}
}

func TestRulesetHolds(t *testing.T) {
	needsLandlock(t)
	dir := canonical(t)
	for _, name := range []string{"in", "out"} {
		must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(dir, name, "f"), []byte("x"), 0o644))
	}
	in, out := filepath.Join(dir, "in", "f"), filepath.Join(dir, "out", "f")
	open := func(path string, flags int) error {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
	tries := func() [4]error {
		return [4]error{open(in, unix.O_RDONLY), open(in, unix.O_WRONLY), open(out, unix.O_RDONLY), open(filepath.Dir(out), unix.O_RDONLY)}
	}
	if got := tries(); got != [4]error{} {
		t.Fatalf("without it: %v", got)
	}
	l := handoff.Landlock{HandledFS: fsRead | fsWrite, Rules: []handoff.LandlockRule{rule(t, filepath.Dir(in), fsRead)}}
	var got [4]error
	must.Do(t, restricted(t, l, func() { got = tries() }))
	if want := [4]error{nil, unix.EACCES, unix.EACCES, unix.EACCES}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// canonical is a directory whose name leads through no link.
func canonical(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	return dir
}

func TestRulesetIsForWhatThePlanResolved(t *testing.T) {
	needsLandlock(t)
	dir := canonical(t)
	file, other, link := filepath.Join(dir, "file"), filepath.Join(dir, "other"), filepath.Join(dir, "link")
	for _, f := range []string{file, other} {
		must.Do(t, os.WriteFile(f, nil, 0o644))
	}
	must.Do(t, os.Symlink(dir, link))
	replaced := rule(t, other, fsWrite)
	replaced.Path = file
	behindLink := rule(t, file, fsWrite)
	behindLink.Path = filepath.Join(link, "file")
	isLink := rule(t, link, fsRead)
	gone := handoff.LandlockRule{Path: filepath.Join(dir, "gone"), Access: fsRead}
	optional := func(r handoff.LandlockRule) handoff.LandlockRule { r.Optional = true; return r }
	for name, c := range map[string]struct {
		rule handoff.LandlockRule
		want unix.Errno
	}{
		"as resolved":                   {rule(t, file, fsWrite), 0},
		"made for the run":              {handoff.LandlockRule{Path: file, Access: fsWrite}, 0},
		"gone":                          {gone, unix.ENOENT},
		"gone, and optional":            {optional(gone), 0},
		"replaced":                      {replaced, unix.ESTALE},
		"replaced, though optional":     {optional(replaced), unix.ESTALE},
		"behind a link":                 {optional(behindLink), unix.ELOOP},
		"a link itself":                 {optional(isLink), unix.EINVAL},
		"a right that files can't have": {rule(t, file, fsRead), unix.EINVAL},
		"a right that isn't handled":    {rule(t, dir, unix.LANDLOCK_ACCESS_FS_EXECUTE), unix.EINVAL},
	} {
		err := restricted(t, handoff.Landlock{HandledFS: fsRead | fsWrite, Rules: []handoff.LandlockRule{c.rule}}, nil)
		got := unix.Errno(0)
		if f, ok := err.(*fault.Error); ok {
			got = f.Errno
		}
		if got != c.want || (err == nil) != (c.want == 0) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestWhatTheKernelDoesNotKnowEndsTheRun(t *testing.T) {
	needsLandlock(t)
	if err := restricted(t, handoff.Landlock{HandledFS: 1 << 60}, nil); err == nil {
		t.Error("a right of no kernel is taken for held")
	}
	if err := restricted(t, handoff.Landlock{}, nil); err != nil {
		t.Errorf("nothing to be held: %v", err)
	}
}

// BenchmarkRuleset is what a ruleset costs before the fork, for so many rules.
func BenchmarkRuleset(b *testing.B) {
	needsLandlock(b)
	dir := canonical(b)
	for _, n := range []int{10, 100, 1000} {
		l := handoff.Landlock{HandledFS: fsRead | fsWrite}
		for i := range n {
			sub := filepath.Join(dir, "directory", strconv.Itoa(i))
			must.Do(b, os.MkdirAll(sub, 0o755))
			l.Rules = append(l.Rules, rule(b, sub, fsRead))
		}
		s := &state{box: &handoff.Box{Landlock: l}}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				must.Do(b, s.makeRuleset())
				_ = unix.Close(s.starter.Ruleset)
			}
		})
	}
}
