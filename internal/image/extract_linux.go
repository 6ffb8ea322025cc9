package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// Bounds of a tree.
const (
	maxEntries = 1 << 20
	maxBytes   = 32 << 30
)

// extractor unpacks the layers of one image, one on the other.
type extractor struct {
	ctx     context.Context
	root    int   // descriptor of the tree
	entries int   // left: names, of layers and of directories on the way
	bytes   int64 // left, of the archives
	written int64 // left, of the lengths of files: a sparse file is short in its archive, and on disk
	space   int64 // left, of the disk
	// added are the paths of the layer at hand: its whiteouts take away only what
	// was there before.
	added map[string]bool
}

// block is the least that a file with anything in it takes on a disk.
const block = 4 << 10

// newExtractor leaves a tenth of what is free to others: a full disk is theirs too.
func newExtractor(ctx context.Context, root int) (*extractor, error) {
	x := &extractor{ctx: ctx, root: root, entries: maxEntries, bytes: maxBytes, written: maxBytes, space: maxBytes}
	var st unix.Statfs_t
	if err := unix.Fstatfs(root, &st); err != nil {
		return nil, &os.PathError{Op: "fstatfs", Path: "the tree", Err: err}
	}
	if st.Blocks > 0 { // some file systems don't say
		x.space = int64(min(maxBytes, st.Bavail*uint64(st.Frsize)/10*9))
	}
	return x, nil
}

// layer unpacks one tar.
func (x *extractor) layer(from io.Reader) error {
	x.added = map[string]bool{}
	r := tar.NewReader(bounded{from, &x.bytes})
	for {
		h, err := r.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, bounded{from, &x.bytes}) // for its digest, and the end of who decompresses it
			return err
		}
		if err != nil {
			return damaged(err)
		}
		if err := x.count(h.Name); err != nil {
			return err
		}
		if err := x.entry(h, r); err != nil {
			return fmt.Errorf("%q: %w", h.Name, damaged(err))
		}
	}
}

// count is asked before each name that is made or noted: an entry's own, and those of the
// directories on the way to it that no entry is about. One path can have 2,000 of them, and to the
// deep ones the kernel walks a long way: these count for more.
func (x *extractor) count(name string) error {
	const long = 256
	if x.entries -= 1 + max(0, len(name)-long)/16; x.entries < 0 {
		return errTooMany
	}
	return x.take(block)
}

// take is asked before so many bytes of the disk are used.
func (x *extractor) take(n int64) error {
	if x.space -= n; x.space < 0 {
		return errNoSpace
	}
	return nil
}

// damaged marks what an archive that is cut or changed makes of reading it.
func damaged(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errProgram) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

var errOutside = errors.New("leads out of the tree")

// inside is a name of an archive as a path below the tree's root; "" is the root.
func inside(name string) (string, error) {
	if strings.IndexByte(name, 0) >= 0 || len(name) >= unix.PathMax {
		return "", unix.EINVAL
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errOutside
		}
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/"), nil
}

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

func (x *extractor) entry(h *tar.Header, from io.Reader) error {
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader, tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return nil
	}
	dir, base := path.Split(name)
	if dir = strings.TrimSuffix(dir, "/"); name == "" {
		if h.Typeflag != tar.TypeDir {
			return unix.EISDIR
		}
		return unix.Fchmod(x.root, dirMode(h))
	}
	up, err := x.directory(dir)
	if err != nil {
		return err
	}
	defer unix.Close(up)
	if base == opaque {
		return x.clear(up, dir)
	}
	if hidden, ok := strings.CutPrefix(base, whiteout); ok {
		if hidden == "" || hidden == "." || hidden == ".." {
			return unix.EINVAL
		}
		return x.purge(up, hidden, path.Join(dir, hidden))
	}
	if err := x.note(name); err != nil {
		return err
	}
	return x.make(h, from, up, base)
}

// note adds a path of this layer, and what it lies in. A link to a directory above makes any
// number of paths without making a directory, so these count on their own.
func (x *extractor) note(name string) error {
	for p := name; p != "." && !x.added[p]; p = path.Dir(p) {
		if p != name {
			if err := x.count(p); err != nil {
				return err
			}
		}
		x.added[p] = true
	}
	return nil
}

// directory opens one, made if need be. Links are followed as they would be with
// the tree as the root.
func (x *extractor) directory(name string) (int, error) {
	fd, err := x.open(name)
	if err == nil {
		// Through links it can be further down than any path reaches: too far to be removed.
		var buf [unix.PathMax]byte
		if _, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf[:]); err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
	}
	if err != unix.ENOENT || name == "" {
		return fd, err
	}
	up, base := path.Split(name)
	parent, err := x.directory(strings.TrimSuffix(up, "/"))
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if err := x.count(name); err != nil {
		return -1, err
	}
	if err := unix.Mkdirat(parent, base, 0o755); err == unix.EEXIST {
		return -1, fmt.Errorf("%q is a link in the image, and what it leads to isn't there: %w", name, unix.ENOENT)
	} else if err != nil {
		return -1, err
	}
	return x.open(name)
}

func (x *extractor) open(name string) (int, error) {
	name = cmp.Or(name, ".")
	return linux.Openat2(x.root, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
}

// make makes one entry in the directory at up. What is there already gives way, but
// for a directory to a directory.
func (x *extractor) make(h *tar.Header, from io.Reader, up int, base string) error {
	if h.Typeflag == tar.TypeDir {
		return x.makeDir(h, up, base)
	}
	if h.Typeflag == tar.TypeLink {
		return x.makeLink(h, up, base)
	}
	if err := linux.RemoveAll(up, base, 0); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		return unix.Symlinkat(h.Linkname, up, base)
	case tar.TypeReg, tar.TypeGNUSparse:
		return x.makeFile(h, from, up, base)
	}
	return fmt.Errorf("is of the unknown kind %q", h.Typeflag)
}

// dirMode: the owner, who is the caller, can always get in, and clear up.
func dirMode(h *tar.Header) uint32 { return uint32(h.Mode)&0o1777 | 0o700 }

func (x *extractor) makeDir(h *tar.Header, up int, base string) error {
	err := unix.Mkdirat(up, base, 0o700)
	if err == unix.EEXIST {
		switch err = unix.Unlinkat(up, base, 0); err {
		case unix.EISDIR: // it stays
			err = nil
		case nil:
			err = unix.Mkdirat(up, base, 0o700)
		}
	}
	if err != nil {
		return err
	}
	fd, err := openDir(up, base)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, dirMode(h))
}

// makeLink links to a file of the tree, or to a symbolic link as such.
func (x *extractor) makeLink(h *tar.Header, up int, base string) error {
	target, err := inside(h.Linkname)
	if err != nil {
		return err
	}
	dir, name := path.Split(target)
	from, err := x.open(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return err
	}
	defer unix.Close(from)
	var st, old unix.Stat_t
	if err := unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("the file that it is a hard link to, %q: %w", h.Linkname, err)
	}
	if unix.Fstatat(up, base, &old, unix.AT_SYMLINK_NOFOLLOW) == nil && old.Dev == st.Dev && old.Ino == st.Ino {
		return nil // to itself
	}
	if err := linux.RemoveAll(up, base, 0); err != nil {
		return err
	}
	return unix.Linkat(from, name, up, base, 0)
}

// makeFile leaves holes where there are only zeros, in whatever form the archive has them: tar.Reader
// reads the holes of all of its formats as zeros.
func (x *extractor) makeFile(h *tar.Header, from io.Reader, up int, base string) error {
	if h.Size > x.written {
		return errTooLarge // of a sparse file it is the length with its holes
	}
	f, err := create(up, base)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := io.Copy(&holeWriter{x: x, f: f}, bounded{until{x.ctx, from}, &x.written})
	if err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	if err := f.Chmod(os.FileMode(h.Mode)&0o777 | 0o600); err != nil {
		return err
	}
	at := h.ModTime
	if at.Before(time.Unix(0, 0)) {
		at = time.Unix(0, 0)
	}
	ts := unix.NsecToTimespec(at.UnixNano())
	return unix.UtimesNanoAt(up, base, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

// holeWriter writes a new file from its beginning, but for blocks of zeros.
type holeWriter struct {
	x     *extractor
	f     *os.File
	at    int64
	taken int64 // how much of the file is paid for, up to the end of a block
}

var zeros [block]byte

func (w *holeWriter) Write(b []byte) (done int, err error) {
	for done < len(b) {
		rest := b[done:]
		n := min(len(rest), int(block-w.at%block)) // to the end of a block
		if !bytes.Equal(rest[:n], zeros[:n]) {
			for n < len(rest) { // and on to the next one of zeros
				more := min(len(rest)-n, block)
				if bytes.Equal(rest[n:n+more], zeros[:more]) {
					break
				}
				n += more
			}
			if err := w.write(rest[:n]); err != nil {
				return done, err
			}
		}
		done += n
		w.at += int64(n)
	}
	return done, nil
}

func (w *holeWriter) write(b []byte) error {
	end := (w.at + int64(len(b)) + block - 1) / block * block
	if err := w.x.take(end - max(w.taken, w.at/block*block)); err != nil {
		return err
	}
	w.taken = end
	_, err := w.f.WriteAt(b, w.at)
	return err
}

// create makes a new file in a directory.
func create(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
