package disk

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

const (
	bufSize = 32 << 10
	// maxOpen bounds the descriptors of a walk, however deep the trees are.
	maxOpen = 64
	// between so many entries it is looked whether to go on.
	between = 256
)

// forest is the trees of one run. It is not safe for concurrent use.
type forest struct {
	kernel
	roots []root
	start unix.StatxTimestamp
	max   int // entries

	seen    map[identity]struct{}
	frames  []frame
	names   []byte // of directories that are still to be walked, each with its zero
	offsets []int  // into names

	order   order
	found   survey
	entries int
}

type root struct {
	fd    int // O_PATH
	asks  bool
	plain bool // no directory
	id    identity
}

type identity struct{ dev, ino uint64 }

// frame is a directory whose subdirectories are being walked.
type frame struct {
	fd   int // -1: closed, because there are too many
	id   identity
	base int // of its names in offsets
}

// walk looks at everything once.
func (f *forest) walk(o order) (survey, error) {
	began := linux.ThreadTime()
	f.order, f.found, f.entries = o, survey{}, 0
	clear(f.seen)
	err := f.each()
	for _, fr := range f.frames {
		closeFD(fr.fd)
	}
	f.frames, f.names, f.offsets = f.frames[:0], f.names[:0], f.offsets[:0]
	if errors.Is(err, errEnough) {
		f.found.cut, err = true, nil
	}
	f.found.cost = max(linux.ThreadTime()-began, 0)
	return f.found, err
}

// errEnough ends a walk that has found what it was to find.
var errEnough = errors.New("enough")

func (f *forest) each() error {
	for i := range f.roots { // first, so that a tree within another is walked once
		r := &f.roots[i]
		if err := f.statx(r.fd, empty, unix.AT_EMPTY_PATH); err != nil {
			return fmt.Errorf("statx of a writable tree: %w", err)
		}
		f.count()
	}
	for i := range f.roots {
		if f.roots[i].plain {
			continue
		}
		if err := f.descend(f.roots[i].fd, dot, beneath); err != nil {
			return err
		}
		for len(f.frames) > 0 {
			if err := f.onward(); err != nil {
				return err
			}
		}
	}
	return f.look()
}

// onward walks the next subdirectory of the last frame, or leaves the frame.
func (f *forest) onward() error {
	last := &f.frames[len(f.frames)-1]
	if len(f.offsets) == last.base {
		f.leave()
		return nil
	}
	at := f.offsets[len(f.offsets)-1]
	f.offsets = f.offsets[:len(f.offsets)-1]
	f.name = append(f.name[:0], f.names[at:]...)
	f.names = f.names[:at]
	return f.descend(last.fd, &f.name[0], beneath)
}

// descend reads a directory and makes a frame of it.
func (f *forest) descend(dir int, name *byte, resolve uint64) error {
	fd, err := f.openat2(dir, name, resolve)
	if err != nil {
		return f.closed(err, dir, name)
	}
	if err := f.statx(fd, empty, unix.AT_EMPTY_PATH); err != nil {
		closeFD(fd)
		return passed(err)
	}
	f.frames = append(f.frames, frame{fd, f.id(), len(f.offsets)})
	if n := len(f.frames) - maxOpen; n >= 0 {
		closeFD(f.frames[n].fd)
		f.frames[n].fd = -1
	}
	return f.read(fd)
}

// leave goes back to the directory above. One whose descriptor was closed is
// found by "..", and only if that is still the same.
func (f *forest) leave() {
	n := len(f.frames) - 1
	gone := f.frames[n]
	f.frames = f.frames[:n]
	defer closeFD(gone.fd)
	if n == 0 || f.frames[n-1].fd >= 0 {
		return
	}
	above := &f.frames[n-1]
	if gone.fd >= 0 {
		if fd, err := f.openat2(gone.fd, dotdot, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV); err == nil {
			if f.statx(fd, empty, unix.AT_EMPTY_PATH) == nil && f.id() == above.id {
				above.fd = fd
				return
			}
			closeFD(fd)
		}
	}
	// It was moved meanwhile. What is left of it can't be reached, and must not go unseen.
	if len(f.offsets) > above.base {
		f.found.obscured = true
		f.names, f.offsets = f.names[:f.offsets[above.base]], f.offsets[:above.base]
	}
}

// read counts the entries of a directory, and remembers its subdirectories.
func (f *forest) read(fd int) error {
	refused := false
	for e, err := range linux.Dirents(fd, f.buf) {
		if err != nil {
			return passed(err)
		}
		if f.entries++; f.entries%between == 0 {
			if err := f.look(); err != nil {
				return err
			}
		}
		err := f.statx(fd, &e.Name[0], unix.AT_SYMLINK_NOFOLLOW)
		if refusal(err) {
			refused = true
			continue
		}
		if err != nil {
			if err := passed(err); err != nil {
				return err
			}
			continue
		}
		if f.mounted() || !f.count() || f.st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		f.offsets = append(f.offsets, len(f.names))
		f.names = append(append(f.names, e.Name...), 0)
	}
	if refused && f.statx(fd, empty, unix.AT_EMPTY_PATH) == nil && f.changed() {
		f.found.obscured = true
	}
	return nil
}

// count counts what statx gave. It is false for what was counted already.
func (f *forest) count() bool {
	id := f.id()
	if _, seen := f.seen[id]; seen {
		return false
	}
	f.seen[id] = struct{}{}
	one := amount{int64(f.st.Blocks) * 512, 1}
	f.found.all = f.found.all.plus(one)
	if f.born() {
		f.found.fresh = f.found.fresh.plus(one)
	}
	return true
}

// look looks whether to go on.
func (f *forest) look() error {
	select {
	case <-f.order.stop:
		return errStopped
	default:
	}
	if f.entries > f.max {
		return errTooBig
	}
	if f.order.enough != nil && f.order.enough(&f.found) {
		return errEnough
	}
	return nil
}

// closed: a directory could not be opened. Whoever made it so since the start
// hides what is in it.
func (f *forest) closed(err error, dir int, name *byte) error {
	if !refusal(err) {
		return passed(err)
	}
	if f.statx(dir, name, unix.AT_SYMLINK_NOFOLLOW) == nil && f.changed() {
		f.found.obscured = true
	}
	return nil
}

// born: since the start, as far as the file system tells.
func (f *forest) born() bool {
	if f.st.Mask&unix.STATX_BTIME != 0 {
		return !before(f.st.Btime, f.start)
	}
	return f.changed()
}

func (f *forest) changed() bool { return !before(f.st.Ctime, f.start) }

func before(a, b unix.StatxTimestamp) bool {
	return a.Sec < b.Sec || a.Sec == b.Sec && a.Nsec < b.Nsec
}

func refusal(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// passed is nil for what happens to a tree that is changed under the walk, and to
// one that is broken: neither ends the watch. What is left is about us.
func passed(err error) error {
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM),
		errors.Is(err, unix.EBADF), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("walk of a writable tree: %w", err)
	}
	return nil
}

// kernel makes the calls of a walk without allocating: golang.org/x/sys copies
// each name.
type kernel struct {
	buf  []byte
	name []byte
	how  unix.OpenHow
	st   unix.Statx_t // of the last statx
}

// beneath: nothing that a name stands for leads out of its directory's mount.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV

var (
	empty  = &[]byte{0}[0]
	dot    = &[]byte(".\x00")[0]
	dotdot = &[]byte("..\x00")[0]
)

// openat2 opens a directory for reading; without a trace in its atime, where the
// caller may do that.
func (k *kernel) openat2(dir int, name *byte, resolve uint64) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	k.how = unix.OpenHow{Flags: flags | unix.O_NOATIME, Resolve: resolve}
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(name)),
			uintptr(unsafe.Pointer(&k.how)), unsafe.Sizeof(k.how), 0, 0)
		switch {
		case errno == 0:
			return int(fd), nil
		case errno == unix.EPERM && k.how.Flags&unix.O_NOATIME != 0:
			k.how.Flags = flags
		case errno == unix.EINTR:
		default:
			return -1, errno
		}
	}
}

func (k *kernel) statx(dir int, name *byte, flags int) error {
	const mask = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS | unix.STATX_CTIME | unix.STATX_BTIME
	for {
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(name)),
			uintptr(flags|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC), mask, uintptr(unsafe.Pointer(&k.st)), 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return errno
		}
		return nil
	}
}

// id is of what statx was last asked about.
func (k *kernel) id() identity {
	return identity{unix.Mkdev(k.st.Dev_major, k.st.Dev_minor), k.st.Ino}
}

// mounted: something is mounted there, and it is no part of the tree (Linux 5.8;
// an older kernel counts the mounted root, and doesn't descend either).
func (k *kernel) mounted() bool {
	return k.st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}
