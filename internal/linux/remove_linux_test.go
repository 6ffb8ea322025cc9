package linux

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func gone(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Lstat(name); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", name, err)
	}
}

func TestRemoveAllFollowsNothingAndOpensWhatIsClosed(t *testing.T) {
	dir := t.TempDir()
	at := openDir(t, dir)
	must.Do(t, RemoveAll(at, "nothing", 0))
	must.Do(t, os.MkdirAll(dir+"/outside/kept", 0o700))
	must.Do(t, os.MkdirAll(dir+"/tree/a/b/c", 0o700))
	must.Do(t, os.WriteFile(dir+"/tree/a/b/file", nil, 0))
	must.Do(t, os.Symlink(dir+"/outside", dir+"/tree/link"))
	must.Do(t, os.Symlink("../outside", dir+"/tree/a/link"))
	must.Do(t, unix.Mkfifo(dir+"/tree/a/fifo", 0))
	for _, name := range []string{"/tree/a/b/c", "/tree/a/b", "/tree/a", "/tree"} {
		must.Do(t, os.Chmod(dir+name, 0))
	}
	must.Do(t, RemoveAll(at, "tree", 0))
	gone(t, dir+"/tree")
	must.Do(t, os.Symlink("outside", dir+"/link"))
	must.Do(t, RemoveAll(at, "link", 0))
	gone(t, dir+"/link")
	if _, err := os.Stat(dir + "/outside/kept"); err != nil {
		t.Error(err)
	}
}

func TestRemoveAllIsOfAnInode(t *testing.T) {
	dir := t.TempDir()
	at := openDir(t, dir)
	must.Do(t, os.Mkdir(dir+"/a", 0o700))
	must.Do(t, os.MkdirAll(dir+"/b/c", 0o700))
	var a unix.Stat_t
	must.Do(t, unix.Stat(dir+"/a", &a))
	if err := RemoveAll(at, "b", a.Ino); err != unix.ESTALE {
		t.Error(err)
	}
	if _, err := os.Stat(dir + "/b/c"); err != nil {
		t.Error(err)
	}
	must.Do(t, RemoveAll(at, "a", a.Ino))
	gone(t, dir+"/a")
}

// inMemory is a directory where many others are made and removed quickly, if there is such a place.
func inMemory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "confine-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Deeper than a path is long, with fewer descriptors than levels.
func TestRemoveAllOfADeepTree(t *testing.T) {
	dir := inMemory(t)
	top := openDir(t, dir)
	at, err := unix.Dup(top)
	must.Do(t, err)
	for range 5000 {
		must.Do(t, unix.Mkdirat(at, "d", 0o700))
		next, err := unix.Openat(at, "d", unix.O_PATH|unix.O_CLOEXEC, 0)
		must.Do(t, err)
		_ = unix.Close(at)
		at = next
	}
	_ = unix.Close(at)
	var was unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	low := was
	low.Cur = 64
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	defer func() { must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was)) }()
	must.Do(t, RemoveAll(top, "d", 0))
	gone(t, dir+"/d")
}

// What is moved about meanwhile, out of the tree too, neither leads anywhere nor keeps the rest.
func TestRemoveAllWhileSomebodyMovesThings(t *testing.T) {
	dir := inMemory(t)
	at := openDir(t, dir)
	must.Do(t, os.MkdirAll(dir+"/outside/kept", 0o700))
	stop := make(chan struct{})
	var mover sync.WaitGroup
	mover.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			from := dir + "/tree/" + strconv.Itoa(i%20)
			_ = os.Rename(from+"/a", dir+"/outside/a")
			_ = os.Rename(dir+"/outside/a", from+"/a/moved")
			_ = os.RemoveAll(dir + "/outside/a")
		}
	})
	for range 20 {
		for i := range 20 {
			_ = os.MkdirAll(dir+"/tree/"+strconv.Itoa(i)+strings.Repeat("/a", 10), 0o700) // or as far as it gets
		}
		if err := RemoveAll(at, "tree", 0); err != nil && err != unix.ENOTEMPTY && err != unix.ESTALE {
			t.Error(err)
		}
	}
	close(stop)
	mover.Wait()
	must.Do(t, RemoveAll(at, "tree", 0))
	gone(t, dir+"/tree")
	if _, err := os.Stat(dir + "/outside/kept"); err != nil {
		t.Error(err)
	}
}
