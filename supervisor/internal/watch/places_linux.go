package watch

import (
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/disk"
)

// places are the private places of a run, for their fill: first the one that most share, or -1.
type places struct {
	fds   []int
	sized []string // where the others are inside
	full  []string // those of them that were full at the end
}

// inodeSize is about what an inode of a tmpfs and its name take of the kernel's memory, which a cgroup counts as well.
const inodeSize = 1024

// scratchUsed is what is in private places, which is memory. Whoever asks while the run
// goes on also finds out what is full then, and may be emptied before the end.
func (w *Watch) scratchUsed() (bytes, inodes int64) {
	w.places(func(_ int, fs *unix.Statfs_t) {
		bytes += int64(fs.Blocks-fs.Bfree) * fs.Bsize
		inodes += int64(fs.Files - fs.Ffree)
	})
	return bytes, inodes
}

// fill looks what is full at the end. Private places outlive the run's namespace for as long as
// we hold them.
func (w *Watch) fill() {
	w.places(func(i int, fs *unix.Statfs_t) {
		if i > 0 && i <= len(w.private.sized) && fs.Blocks > 0 && fs.Bfree == 0 {
			w.private.full = append(w.private.full, w.private.sized[i-1])
		}
	})
}

// places looks at every private place, and notes the limits that are reached there.
func (w *Watch) places(see func(i int, fs *unix.Statfs_t)) {
	for i, fd := range w.private.fds {
		var fs unix.Statfs_t
		if fd < 0 || unix.Fstatfs(fd, &fs) != nil {
			continue
		}
		switch full := fs.Blocks > 0 && fs.Bfree == 0; {
		case full && i == 0 && w.plan.Disk > 0:
			w.note(status.Disk)
		case full && i > 0 && i <= len(w.private.sized):
			w.note(status.MountSize)
		}
		if w.plan.Files > 0 && fs.Files > 0 && fs.Ffree == 0 {
			w.note(status.Files)
		}
		see(i, &fs)
	}
}

// FullMounts are the places of a size of their own that were full when the watch ended.
func (w *Watch) FullMounts() []string {
	if w == nil {
		return nil
	}
	return w.private.full
}

// OutOfMemory says what of the run's memory is files, now that nothing of it runs any more.
// Private places outlive the run's namespace for as long as we hold them.
func (w *Watch) OutOfMemory(shared []handoff.Upper) *status.OutOfMemory {
	if w == nil {
		return nil
	}
	m := &status.OutOfMemory{Process: w.largest}
	if m.FileBytes, _ = w.scratchUsed(); m.FileBytes == 0 {
		return m
	}
	see := func(at string, bytes int64) {
		if bytes > m.PathBytes {
			m.Path, m.PathBytes = at, bytes
		}
	}
	for i, fd := range w.private.fds {
		if i > 0 && i <= len(w.private.sized) {
			var fs unix.Statfs_t
			if unix.Fstatfs(fd, &fs) == nil {
				see(w.private.sized[i-1], int64(fs.Blocks-fs.Bfree)*fs.Bsize)
			}
			continue
		}
		for _, p := range shared {
			if bytes, err := measure(fd, p.Dir); err == nil {
				see(p.Dst, bytes)
			}
		}
	}
	return m
}

// measure looks through one of the directories of scratch.
func measure(scratch int, part string) (int64, error) {
	dir, err := unix.Openat(scratch, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(dir)
	return disk.Measure(dir)
}
