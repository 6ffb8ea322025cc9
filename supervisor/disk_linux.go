package supervisor

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/disk"
)

// weighTrees begins to watch what the writable trees grow by. It comes before the
// target is started: what is there by then is not the target's.
func (b *box) weighTrees() *SetupError {
	w := &b.plan.Watch
	if len(w.Trees) == 0 {
		return nil
	}
	var dirs []int
	defer func() {
		for _, fd := range dirs {
			_ = unix.Close(fd)
		}
	}()
	for _, t := range w.Trees {
		fd, err := openTree(t.Path, unix.O_PATH, t.Dev, t.Ino)
		if err != nil {
			return &SetupError{Step: "disk", Op: "openat2", Path: t.Path, Errno: errnoOf(err)}
		}
		dirs = append(dirs, fd)
	}
	var err error
	if b.trees, err = disk.New(dirs, disk.Limits{Bytes: w.Disk, Files: w.Files}); err != nil {
		return failed("disk", err)
	}
	return nil
}

// openTree opens what the plan resolved, and nothing else that stands there now.
func openTree(path string, flags uint64, dev, ino uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err == unix.ENOSYS && flags&unix.O_PATH != 0 {
		fd, err = linux.OpenPath(path, int(flags)&^unix.O_PATH)
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Dev != dev || st.Ino != ino) {
		err = unix.ESTALE
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// weigh watches the trees until the end.
func (w *watch) weigh() {
	defer close(w.weighed)
	w.trees.OnHit = func(c status.Capability, used int64) {
		w.note(c)
		detail := fmt.Sprintf("disk limit of %d bytes reached: the writable trees grew by more", w.plan.Disk)
		if c == status.Files {
			detail = fmt.Sprintf("limit of %d files reached: there are more new ones in the writable trees", w.plan.Files)
		}
		w.found <- hit{cause: status.CauseDisk, detail: detail}
	}
	if err := w.trees.Run(w.stop); err != nil {
		w.found <- hit{broken: err}
	}
}
