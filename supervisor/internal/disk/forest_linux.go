package disk

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// New makes the watchdog of these trees, each an O_PATH or readable descriptor of
// a directory or a file that is writable inside. The descriptors stay the
// caller's. What is made from now on counts as the run's, so the target must
// not have started.
func New(dirs []int, limits Limits) (*Watchdog, error) {
	f, err := newForest(dirs)
	if err != nil {
		return nil, err
	}
	w, err := newWatchdog(f, limits)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	w.close = f.close
	return w, nil
}

// Measure says how many bytes a directory, and everything below it, has allocated. What has
// more than MaxEntries entries is an error. The descriptor stays the caller's.
func Measure(dir int) (bytes int64, err error) {
	f, err := newForest([]int{dir})
	if err != nil {
		return 0, err
	}
	s, err := f.walk(order{})
	return s.all.bytes, errors.Join(err, f.close())
}

func newForest(dirs []int) (*forest, error) {
	f := &forest{max: MaxEntries, seen: map[identity]struct{}{}}
	f.buf = make([]byte, bufSize)
	// Times of files come from the coarse clock.
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
		return nil, fmt.Errorf("clock_gettime: %w", err)
	}
	f.start = unix.StatxTimestamp{Sec: now.Sec, Nsec: uint32(now.Nsec)}
	var asked []filesystem
	for _, dir := range dirs {
		r, fs, err := f.root(dir)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		if slices.ContainsFunc(f.roots, func(other root) bool { return other.id == r.id }) {
			closeFD(r.fd)
			continue
		}
		r.asks = !slices.Contains(asked, fs)
		asked = append(asked, fs)
		f.roots = append(f.roots, r)
	}
	return f, nil
}

// root looks at a tree, and whether it can be walked at all.
func (f *forest) root(dir int) (r root, fs filesystem, err error) {
	if r.fd, err = unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return r, fs, fmt.Errorf("fcntl of a writable tree: %w", err)
	}
	defer func() {
		if err != nil {
			closeFD(r.fd)
		}
	}()
	if err = f.statx(r.fd, empty, unix.AT_EMPTY_PATH); err != nil {
		return r, fs, fmt.Errorf("statx of a writable tree: %w", err)
	}
	r.id, r.plain = f.id(), f.st.Mode&unix.S_IFMT != unix.S_IFDIR
	if !r.plain {
		fd, e := f.openat2(r.fd, dot, beneath)
		if e != nil && !refusal(e) {
			err = fmt.Errorf("openat2 of a writable tree (Linux 5.6): %w", e)
			return r, fs, err
		}
		closeFD(fd)
	}
	var st unix.Statfs_t
	if err = unix.Fstatfs(r.fd, &st); err != nil {
		return r, fs, fmt.Errorf("fstatfs of a writable tree: %w", err)
	}
	return r, filesystemOf(&st, r.id.dev), nil
}

// filesystem tells file systems apart that have space of their own.
type filesystem struct {
	kind   int64
	id     unix.Fsid
	dev    uint64
	blocks uint64
}

func filesystemOf(st *unix.Statfs_t, dev uint64) filesystem {
	fs := filesystem{kind: int64(st.Type), id: st.Fsid, dev: dev}
	if fs.kind == unix.BTRFS_SUPER_MAGIC {
		// Each subvolume has a device and an id, and all have the same space.
		return filesystem{kind: fs.kind, blocks: st.Blocks}
	}
	return fs
}

// level asks the file systems, each once.
func (f *forest) level() (l level, err error) {
	for i := range f.roots {
		if !f.roots[i].asks {
			continue
		}
		var st unix.Statfs_t
		for err = unix.EINTR; err == unix.EINTR; {
			err = unix.Fstatfs(f.roots[i].fd, &st)
		}
		if err != nil {
			return l, fmt.Errorf("fstatfs of a writable tree: %w", err)
		}
		unit := int64(st.Frsize)
		if unit == 0 {
			unit = int64(st.Bsize)
		}
		l.bytes += (int64(st.Blocks) - int64(st.Bfree)) * unit
		l.files += int64(st.Files) - int64(st.Ffree)
		l.noBytes = l.noBytes || st.Blocks == 0
		l.noFiles = l.noFiles || st.Files == 0 // btrfs
	}
	return l, nil
}

func (f *forest) close() error {
	for _, r := range f.roots {
		closeFD(r.fd)
	}
	f.roots = nil
	return nil
}
