package supervisor

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/supervisor/internal/tree"
)

// SweepBelow sends SIGKILL to everybody below this process, until nobody is left
// who has not had it.
func SweepBelow() error {
	t, err := tree.NewFromPID(os.Getpid())
	if err != nil {
		return err
	}
	defer t.Close()
	return t.Signal(unix.SIGKILL)
}

// sweepPatience bounds how long what a guard has left may take to go.
const sweepPatience = 10 * time.Second

// sweepOrphans ends and reaps what a guard has left: it came to us, who are a
// reaper too. It says whether nobody is left.
func sweepOrphans() bool {
	for end := time.Now().Add(sweepPatience); time.Now().Before(end); {
		// All that have ended: a dead one more costs the next sweep a look.
		pid, err := unix.Wait4(-1, nil, unix.WALL|unix.WNOHANG, nil)
		for err == nil && pid > 0 || err == unix.EINTR {
			pid, err = unix.Wait4(-1, nil, unix.WALL|unix.WNOHANG, nil)
		}
		if err == unix.ECHILD {
			return true
		}
		if SweepBelow() != nil {
			return false
		}
		time.Sleep(time.Millisecond) // SIGKILL is on its way
	}
	return false
}

// alone says whether this process has no children yet. An init has those of
// others, sooner or later.
func alone() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == unix.ECHILD && unix.Getpid() != 1
}

// RemoveTemp removes the run's own directory, also what the target has closed to
// everybody, and says what stays.
func RemoveTemp(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // before it is read
		}
		return nil
	})
	return os.RemoveAll(dir)
}
