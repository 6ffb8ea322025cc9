package disk

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func TestEachInodeCountsOnce(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/one", mib)
	must.Do(t, os.Link(dir+"/one", dir+"/two"))
	must.Do(t, os.Link(dir+"/one", mkdir(t, dir, "sub")+"/three"))
	s := surveyOf(t, dir)
	want := blocks(t, dir) + blocks(t, dir+"/sub") + blocks(t, dir+"/one")
	if s.all.files != 3 || s.all.bytes != want {
		t.Errorf("%d bytes in %d inodes, want %d in 3", s.all.bytes, s.all.files, want)
	}
	if twice := surveyOf(t, dir, dir, dir+"/sub", dir+"/one"); twice.all != s.all {
		t.Errorf("given again, as a tree, a subtree and a file: %+v, want %+v", twice.all, s.all)
	}
	if file := surveyOf(t, dir+"/one"); file.all != (amount{blocks(t, dir+"/one"), 1}) {
		t.Errorf("a file alone: %+v", file.all)
	}
}

func TestAHoleCostsNothingAndAPreallocationDoes(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(dir+"/hole", nil, 0o644))
	must.Do(t, os.Truncate(dir+"/hole", 1<<40))
	if s := surveyOf(t, dir); s.all.bytes > mib {
		t.Errorf("a hole: %d bytes", s.all.bytes)
	}
	f, err := os.Create(dir + "/reserved")
	must.Do(t, err)
	defer f.Close()
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 8*mib)
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("no fallocate here")
	}
	must.Do(t, err)
	if s := surveyOf(t, dir); s.all.bytes < 8*mib {
		t.Errorf("blocks beyond the end of a file: %d bytes", s.all.bytes)
	}
}

func TestNoLinkIsFollowed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside+"/big", 8*mib)
	for name, to := range map[string]string{
		"self": "self", "up": "..", "here": ".", "out": outside, "big": outside + "/big", "a": "b", "b": "a", "root": "/",
	} {
		must.Do(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	if s := surveyOf(t, dir); s.all.files != 9 || s.all.bytes > mib {
		t.Errorf("%+v", s.all)
	}
	if s := surveyOf(t, dir, outside); s.all.bytes < 8*mib {
		t.Errorf("control: given as a tree, it counts: %+v", s.all)
	}
}

// A path of this depth is longer than any name the kernel takes, and there are fewer
// descriptors than directories.
func TestAnyDepthIsWalkedWithFewDescriptors(t *testing.T) {
	const depth = 2200
	dir := t.TempDir()
	bottom := deepen(t, dir, depth)
	put(t, "/proc/self/fd/"+strconv.Itoa(bottom)+"/file", mib)
	var was unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	few := was
	few.Cur = 200
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer func() { must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was)) }()
	before := descriptors(t)
	s := surveyOf(t, dir)
	if s.all.files != 2*depth+2 || s.all.bytes < mib || s.obscured {
		t.Errorf("%+v, want %d files", s, 2*depth+2)
	}
	// The tree's own descriptor stays open until the test's end.
	if now := descriptors(t); now > before+1 {
		t.Errorf("%d descriptors, %d before", now, before)
	}
}

// deepen makes directories in each other, with a sibling "z" beside each, and gives the last one.
func deepen(tb testing.TB, dir string, depth int) int {
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must.Do(tb, err)
	for range depth {
		must.Do(tb, unix.Mkdirat(fd, "a", 0o755))
		must.Do(tb, unix.Mkdirat(fd, "z", 0o755))
		next, err := unix.Openat(fd, "a", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must.Do(tb, err)
		must.Do(tb, unix.Close(fd))
		fd = next
	}
	tb.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func TestMountsBelowAreNoPartOfTheTree(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	mkdir(t, dir, "mounted")
	put(t, dir+"/file", 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never given back: its mount namespace is its own
		steps := []error{
			unix.Unshare(unix.CLONE_NEWNS),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("tmpfs", dir+"/mounted", "tmpfs", 0, ""),
			os.WriteFile(dir+"/mounted/big", make([]byte, mib), 0o644),
			unix.Mount(dir+"/mounted/big", dir+"/file", "", unix.MS_BIND, ""),
		}
		if err := errors.Join(steps...); err != nil {
			t.Errorf("set-up: %v", err)
			return
		}
		fds := [2]int{}
		for i, path := range []string{dir, dir + "/mounted"} {
			fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Error(err)
				return
			}
			fds[i] = fd
			defer unix.Close(fd)
		}
		for _, c := range []struct {
			fds  []int
			most int64
			want int64
		}{{fds[:1], mib / 2, 1}, {fds[:], 4 * mib, 3}} {
			f, err := newForest(c.fds)
			if err != nil {
				t.Error(err)
				return
			}
			s, err := f.walk(order{})
			if err != nil || s.all.files != c.want || s.all.bytes > c.most {
				t.Errorf("%+v, %v, want %d files", s, err, c.want)
			}
			_ = f.close()
		}
	}()
	<-done
}

// Somebody exchanges directories for links and pipes, all the time.
func TestNothingLeadsOutDuringAWalk(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside+"/big", 4*mib)
	for i := range 20 {
		mkdir(t, dir, strconv.Itoa(i), "sub")
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		aside := dir + "/aside"
		for i := 0; ; i = (i + 1) % 20 {
			select {
			case <-stop:
				return
			default:
			}
			name := filepath.Join(dir, strconv.Itoa(i))
			_ = os.Rename(name, aside)
			if i%2 == 0 {
				_ = os.Symlink(outside, name)
			} else {
				_ = unix.Mkfifo(name, 0o600)
			}
			_ = os.Remove(name)
			_ = os.Rename(aside, name)
		}
	}()
	f, err := newForest([]int{opath(t, dir)})
	must.Do(t, err)
	defer f.close()
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		s, err := f.walk(order{})
		if err != nil || s.all.bytes > mib {
			t.Fatalf("%+v, %v", s, err)
		}
	}
	close(stop)
	<-done
	if s, err := f.walk(order{}); err != nil || s.all.files != 41 {
		t.Errorf("at rest: %+v, %v", s, err)
	}
}

func TestAWalkLeavesNoTrace(t *testing.T) {
	dir := t.TempDir()
	sub := mkdir(t, dir, "sub")
	long := time.Now().Add(-48 * time.Hour)
	must.Do(t, os.Chtimes(sub, long, long))
	surveyOf(t, dir)
	var st unix.Stat_t
	must.Do(t, unix.Stat(sub, &st))
	if got := time.Unix(st.Atim.Unix()); !got.Equal(long) {
		t.Errorf("atime is %v, was %v", got, long)
	}
}

func TestTooManyEntriesAreNotWalked(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, 2000)
	f, err := newForest([]int{opath(t, dir)})
	must.Do(t, err)
	defer f.close()
	f.max = 1000
	before := descriptors(t)
	if _, err := f.walk(order{}); !errors.Is(err, errTooBig) {
		t.Errorf("%v", err)
	}
	if f.entries > f.max+between {
		t.Errorf("%d entries were walked", f.entries)
	}
	if now := descriptors(t); now != before {
		t.Errorf("%d descriptors, %d before", now, before)
	}
	stop := make(chan struct{})
	close(stop)
	if _, err := f.walk(order{stop: stop}); !errors.Is(err, errStopped) {
		t.Errorf("stopped: %v", err)
	}
}
