package disk

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// treeOf is a forest of one directory, as if the run had begun at start.
func treeOf(t *testing.T, dir string, start unix.StatxTimestamp) *forest {
	t.Helper()
	f, err := newForest([]int{opath(t, dir)})
	must.Do(t, err)
	t.Cleanup(func() { _ = f.close() })
	f.start = start
	return f
}

var (
	longAgo = unix.StatxTimestamp{Sec: 1}
	later   = unix.StatxTimestamp{Sec: 1 << 40}
)

// What can't be opened hides something only if that was made so since the start: what
// was closed before belongs to somebody else.
func TestDirectoriesClosedSinceTheStartAreReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start    unix.StatxTimestamp
		err      error
		obscured bool
		ends     bool
	}{
		"since the start":   {longAgo, unix.EACCES, true, false},
		"not permitted":     {longAgo, unix.EPERM, true, false},
		"before":            {later, unix.EACCES, false, false},
		"gone meanwhile":    {longAgo, unix.ENOENT, false, false},
		"no directory":      {longAgo, unix.ENOTDIR, false, false},
		"no descriptors":    {longAgo, unix.EMFILE, false, true},
		"no memory":         {longAgo, unix.ENOMEM, false, true},
		"not of the kernel": {longAgo, unix.ENOSYS, false, true},
	} {
		dir := t.TempDir()
		mkdir(t, dir, "sub")
		f := treeOf(t, dir, c.start)
		err := f.closed(c.err, f.roots[0].fd, &[]byte("sub\x00")[0])
		if c.ends != errors.Is(err, c.err) || !c.ends && err != nil || f.found.obscured != c.obscured {
			t.Errorf("%s: %v, obscured %v", name, err, f.found.obscured)
		}
	}
}

// Who may not look into a directory sees that it was closed; root sees what is in it.
func TestAClosedDirectoryIsWalkedPast(t *testing.T) {
	if unix.Geteuid() == 0 {
		t.Skip("root may look into every directory")
	}
	for mode, all := range map[uint32]int64{0o000: 3, 0o400: 3, 0o700: 4} { // 0o400: names, and no more
		dir := t.TempDir()
		put(t, mkdir(t, dir, "sub")+"/hidden", 0)
		put(t, dir+"/seen", 0)
		must.Do(t, unix.Chmod(dir+"/sub", mode))
		t.Cleanup(func() { _ = unix.Chmod(dir+"/sub", 0o700) })
		for start, obscured := range map[unix.StatxTimestamp]bool{longAgo: mode != 0o700, later: false} {
			s, err := treeOf(t, dir, start).walk(order{})
			if err != nil || s.all.files != all || s.obscured != obscured {
				t.Errorf("%#o, since %d: %+v, %v", mode, start.Sec, s, err)
			}
		}
	}
}

// A file system that keeps no time of birth has that of the last change.
func TestWithoutATimeOfBirthTheLastChangeCounts(t *testing.T) {
	t.Parallel()
	f := &forest{start: unix.StatxTimestamp{Sec: 10, Nsec: 5}}
	for _, c := range []struct {
		mask       uint32
		birth, chg unix.StatxTimestamp
		born       bool
	}{
		{unix.STATX_BTIME, unix.StatxTimestamp{Sec: 10, Nsec: 4}, later, false},
		{unix.STATX_BTIME, unix.StatxTimestamp{Sec: 10, Nsec: 5}, longAgo, true},
		{0, later, unix.StatxTimestamp{Sec: 10, Nsec: 4}, false},
		{0, longAgo, unix.StatxTimestamp{Sec: 10, Nsec: 5}, true},
	} {
		f.st.Mask, f.st.Btime, f.st.Ctime = c.mask, c.birth, c.chg
		if f.born() != c.born {
			t.Errorf("%+v", c)
		}
	}
}

// Descriptors that are none don't make a watchdog.
func TestNewFailsOnOtherDescriptors(t *testing.T) {
	good := opath(t, t.TempDir())
	before := descriptors(t)
	for name, dirs := range map[string][]int{"none": {-1}, "the second": {good, -1}} {
		if w, err := New(dirs, Limits{Bytes: 1}); err == nil || w != nil || !errors.Is(err, unix.EBADF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if now := descriptors(t); now != before {
		t.Errorf("%d descriptors, %d before", now, before)
	}
	// One that was closed under a walk ends it.
	f := treeOf(t, t.TempDir(), longAgo)
	fd := f.roots[0].fd
	f.roots[0].fd = -1
	defer closeFD(fd)
	if _, err := f.walk(order{}); !errors.Is(err, unix.EBADF) {
		t.Errorf("a walk: %v", err)
	}
	if _, err := f.level(); !errors.Is(err, unix.EBADF) {
		t.Errorf("the file systems: %v", err)
	}
	if err := f.descend(-1, &[]byte("sub\x00")[0], beneath); !errors.Is(err, unix.EBADF) {
		t.Errorf("a directory: %v", err)
	}
	if err := f.read(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("its names: %v", err)
	}
}
