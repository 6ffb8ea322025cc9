package snapshot

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// unpacker makes the tree of one layer, in the form that overlayfs takes as a lower one. The layer may be
// hostile: it is what Add writes, or refused.
type unpacker struct {
	ctx    context.Context
	root   int // of the tree
	budget *budget
	xwhite bool // whiteouts are files with an attribute

	in   int // directory that is open, and its path
	path string
	buf  []byte
	dirs []*entry // their modes, attributes and times come last, the deepest first
	last *entry   // the entry before

	attributes int // bytes of those of dirs
}

// budget is what all layers of a snapshot may still take.
type budget struct {
	names int
	bytes int64 // of archives and files
	space int64 // of the disk
}

// newBudget leaves a tenth of what is free to others.
func newBudget(dir int, l Limits) (*budget, error) {
	b := &budget{names: l.Names, bytes: l.Bytes, space: l.Bytes}
	var st unix.Statfs_t
	if err := unix.Fstatfs(dir, &st); err != nil {
		return nil, err
	}
	if st.Blocks > 0 { // some file systems don't say
		b.space = min(b.space, int64(st.Bavail*uint64(st.Frsize)/10*9))
	}
	return b, nil
}

var errSpace = errors.New("it takes more than nine tenths of the disk space that is free")

// take is asked before so many bytes are used.
func (b *budget) take(n int64) error {
	if b.bytes -= n; b.bytes < 0 {
		return fmt.Errorf("bytes: %w", ErrTooLarge)
	}
	if b.space -= n; b.space < 0 {
		return errSpace
	}
	return nil
}

func (b *budget) name(path string) error {
	if b.names -= cost(path); b.names < 0 {
		return fmt.Errorf("names: %w", ErrTooLarge)
	}
	return b.take(linux.BlockSize)
}

// unpack reads a layer to its end.
func (u *unpacker) unpack(from io.Reader) error {
	u.in, u.buf = -1, make([]byte, 256<<10)
	defer u.leave()
	for {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		e, err := readEntry(from)
		if err == io.EOF {
			break
		}
		if err != nil {
			return damaged(err)
		}
		err = u.entry(e, from)
		if err == unix.EEXIST {
			err = errors.New("it is there twice")
		}
		if err != nil {
			return fmt.Errorf("%.200q: %w", e.name, damaged(err))
		}
		u.last = e
	}
	if n, err := io.ReadFull(from, u.buf[:1]); n != 0 || err != io.EOF {
		return fmt.Errorf("%w: something follows its end", ErrDamaged)
	}
	return u.finish()
}

// ofHost says whether an error is about where something was to be unpacked, and not about what.
func ofHost(err error) bool {
	for _, e := range []error{errSpace, errNoWhiteout, unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EROFS, unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// damaged marks what an archive that is cut or changed makes of reading it.
func damaged(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

func (u *unpacker) entry(e *entry, from io.Reader) error {
	if err := u.budget.name(e.name); err != nil {
		return err
	}
	dir, base := path.Split(e.name)
	dir = strings.TrimSuffix(dir, "/")
	if hidden, ok := strings.CutPrefix(base, whiteout); ok {
		return u.mark(e, dir, hidden)
	}
	for part := range strings.SplitSeq(dir, "/") {
		if strings.HasPrefix(part, whiteout) {
			return errors.New("something in a whiteout")
		}
	}
	if err := u.enter(dir); err != nil {
		return err
	}
	switch e.kind {
	case tar.TypeDir:
		if u.attributes += e.attributes(); u.attributes > maxDirXattrs {
			return fmt.Errorf("attributes of directories: %w", ErrTooLarge)
		}
		u.dirs = append(u.dirs, e)
		return unix.Mkdirat(u.in, base, 0o700)
	case tar.TypeSymlink:
		if err := unix.Symlinkat(e.link, u.in, base); err != nil {
			return err
		}
		if os.Geteuid() == 0 {
			if err := unix.Fchownat(u.in, base, int(e.uid), int(e.gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
		}
		return u.setTime(u.in, base, e)
	case tar.TypeLink:
		return u.link(e, base)
	}
	return u.file(e, base, from)
}

// enter opens the directory that something is to be made in. Those on the way to a place that no entry
// is about are made.
func (u *unpacker) enter(dir string) error {
	if u.in >= 0 && u.path == dir {
		return nil
	}
	u.leave()
	fd, err := linux.OpenBeneath(u.root, dir, dirFlags)
	if err == unix.ENOENT && dir != "" {
		up, base := path.Split(dir)
		if err := u.enter(strings.TrimSuffix(up, "/")); err != nil {
			return err
		}
		if err := u.budget.name(dir); err != nil {
			return err
		}
		if err := unix.Mkdirat(u.in, base, 0o700); err != nil {
			return err
		}
		u.dirs = append(u.dirs, &entry{name: dir, mode: 0o755, uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())})
		u.leave()
		fd, err = linux.OpenBeneath(u.root, dir, dirFlags)
	}
	if err == unix.ELOOP || err == unix.ENOTDIR {
		return errors.New("what it is in is no directory of the layer")
	}
	if err != nil {
		return err
	}
	u.in, u.path = fd, dir
	return nil
}

func (u *unpacker) leave() {
	if u.in >= 0 {
		_ = unix.Close(u.in)
	}
	u.in = -1
}

// mark makes a whiteout, or hides what is below a directory.
func (u *unpacker) mark(e *entry, dir, hidden string) error {
	if e.kind != tar.TypeReg || e.size != 0 || len(e.data) != 0 || e.xattrs != nil {
		return errors.New("a whiteout that is more than a name")
	}
	if e.name == path.Join(dir, opaque) {
		if u.last == nil || u.last.kind != tar.TypeDir || u.last.name != dir {
			return errors.New("an opaque directory that is not a new one")
		}
		if err := u.enter(dir); err != nil {
			return err
		}
		return named("setxattr "+linux.OverlayXattr+"opaque", unix.Fsetxattr(u.in, linux.OverlayXattr+"opaque", []byte("y"), 0))
	}
	if strings.HasPrefix(hidden, whiteout) {
		return errors.New("a whiteout of a whiteout")
	}
	if err := u.enter(dir); err != nil {
		return err
	}
	var value [8]byte
	n, err := unix.Fgetxattr(u.in, linux.OverlayXattr+"opaque", value[:])
	if err == nil && n == 1 && value[0] == 'y' {
		return nil // nothing shows through anyhow, and an empty file of such a directory would be one
	}
	if !u.xwhite {
		return unix.Mknodat(u.in, hidden, unix.S_IFCHR, 0)
	}
	if err := unix.Fsetxattr(u.in, linux.OverlayXattr+"opaque", []byte("x"), 0); err != nil {
		return named("setxattr "+linux.OverlayXattr+"opaque", err)
	}
	fd, err := unix.Openat(u.in, hidden, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return named("setxattr "+linux.OverlayXattr+"whiteout", unix.Fsetxattr(fd, linux.OverlayXattr+"whiteout", []byte("y"), 0))
}

// named says which system call failed.
func named(op string, err error) error {
	if err == nil {
		return nil
	}
	return &os.SyscallError{Syscall: op, Err: err}
}

// link makes another name of a file of the layer that has one.
func (u *unpacker) link(e *entry, base string) error {
	dir, name := path.Split(e.link)
	from, err := linux.OpenBeneath(u.root, strings.TrimSuffix(dir, "/"), lookupFlags)
	if err != nil {
		return fmt.Errorf("the file that it is a hard link to, %.200q: %w", e.link, err)
	}
	defer unix.Close(from)
	file, err := unix.Openat(from, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the file that it is a hard link to, %.200q: %w", e.link, err)
	}
	defer unix.Close(file)
	n, err := stat(file, "")
	if err != nil {
		return named("statx", err)
	}
	_, marked := unix.Getxattr(linux.FDPath(file), linux.OverlayXattr+"whiteout", nil)
	if n.mode&unix.S_IFMT != unix.S_IFREG || marked == nil {
		return fmt.Errorf("it is a hard link to %.200q, which is no file", e.link)
	}
	return named("linkat", unix.Linkat(from, name, u.in, base, 0))
}

func (u *unpacker) file(e *entry, base string, from io.Reader) error {
	fd, err := unix.Openat(u.in, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	for _, d := range e.data {
		if err := u.budget.take((d.size + linux.BlockSize - 1) &^ (linux.BlockSize - 1)); err != nil {
			return err
		}
		for at, end := d.at, d.at+d.size; at < end; {
			if err := u.ctx.Err(); err != nil {
				return err
			}
			b := u.buf[:min(int64(len(u.buf)), end-at)]
			if _, err := io.ReadFull(from, b); err != nil {
				return err
			}
			if _, err := f.WriteAt(b, at); err != nil {
				return err
			}
			at += int64(len(b))
		}
	}
	rest := u.buf[:padding(e.stored())]
	if _, err := io.ReadFull(from, rest); err != nil {
		return err
	}
	if !bytes.Equal(rest, make([]byte, len(rest))) {
		return errors.New("it is longer than its pieces")
	}
	if err := f.Truncate(e.size); err != nil {
		return err
	}
	if err := setAttributes(fd, e); err != nil {
		return err
	}
	return u.setTime(u.in, base, e)
}

// setAttributes gives an open object its owner, its mode and its attributes. Set-id bits are dropped.
func setAttributes(fd int, e *entry) error {
	if os.Geteuid() == 0 {
		if err := unix.Fchown(fd, int(e.uid), int(e.gid)); err != nil {
			return named("fchown", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.xattrs)) {
		if err := unix.Fsetxattr(fd, name, e.xattrs[name], 0); err != nil {
			return named("setxattr "+name, err)
		}
	}
	return named("fchmod", unix.Fchmod(fd, e.mode&0o1777)) // after the lists, which have a mode of their own
}

func (u *unpacker) setTime(dir int, name string, e *entry) error {
	ts := unix.NsecToTimespec(e.mtime)
	return named("utimensat", unix.UtimesNanoAt(dir, name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW))
}

// finish gives directories what would be in the way, or be changed, while things are made in them.
func (u *unpacker) finish() error {
	u.leave()
	for _, e := range slices.Backward(u.dirs) {
		up, base := path.Split(e.name)
		dir, err := linux.OpenBeneath(u.root, strings.TrimSuffix(up, "/"), lookupFlags)
		if err != nil {
			return err
		}
		fd, err := openDir(dir, base)
		if err == nil {
			err = setAttributes(fd, e)
			_ = unix.Close(fd)
		}
		if err == nil {
			err = u.setTime(dir, base, e)
		}
		_ = unix.Close(dir)
		if err != nil {
			return fmt.Errorf("%.200q: %w", e.name, err)
		}
	}
	return nil
}
