package snapshot

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

const layerName = "layer"

// Add writes down the places of a sandbox as a layer on those of m.Parent. It doesn't matter whether
// m.Places has more than those.
func (s *Store) Add(ctx context.Context, m Meta, places []Place) (id string, err error) {
	m.Places = slices.Clone(m.Places)
	slices.SortFunc(m.Places, func(a, b PlaceInfo) int { return cmp.Compare(a.Path, b.Path) })
	if err := m.check(); err != nil {
		return "", err
	}
	var below []descriptor
	if m.Parent != "" {
		if _, err := s.Get(m.Parent); err != nil {
			return "", err
		}
		parent, _, err := s.manifest(m.Parent)
		if err != nil {
			return "", err
		}
		below = parent.Layers
	}
	limits := s.Limits.orDefault()
	if len(below) >= limits.Layers {
		return "", fmt.Errorf("snapshot of more than %d layers: %w", limits.Layers, ErrLayers)
	}
	w, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer s.end(w)
	layer, left, err := s.layer(ctx, w, limits, places)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", err
	}
	name, _ := layer.blob()
	if err := unix.Renameat(w.fd, layerName, w.fd, name); err != nil {
		return "", failed("rename", s.path, err)
	}
	return s.describe(ctx, w, m, left, append(slices.Clone(below), layer))
}

// describe writes the documents of a snapshot, and commits it.
func (s *Store) describe(ctx context.Context, w *work, m Meta, left Left, layers []descriptor) (id string, err error) {
	c := config{Created: m.Created.UTC().Format(time.RFC3339Nano), Architecture: runtime.GOARCH, OS: "linux",
		RootFS: rootFS{Type: "layers"}, Snapshot: about{Version: version, Meta: m, Left: left}}
	doc := manifest{SchemaVersion: 2, MediaType: typeManifest, Layers: layers}
	for _, l := range layers {
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, l.Digest)
	}
	var needs []string // the layers below: their snapshot may be removed meanwhile
	for _, l := range layers[:len(layers)-1] {
		needs = append(needs, strings.TrimPrefix(l.Digest, algorithm))
	}
	blobs := []string{strings.TrimPrefix(layers[len(layers)-1].Digest, algorithm)}
	write := func(mediaType string, v any) (descriptor, error) {
		text, err := json.Marshal(v)
		if err != nil {
			return descriptor{}, err
		}
		name := digestOf(text)
		if err := s.at("document"); err != nil {
			return descriptor{}, err
		}
		blobs = append(blobs, name)
		return descriptor{MediaType: mediaType, Digest: algorithm + name, Size: int64(len(text))}, failed("write", s.path, writeNew(w.fd, name, text))
	}
	if doc.Config, err = write(typeConfig, c); err != nil {
		return "", err
	}
	top, err := write(typeManifest, doc)
	if err != nil {
		return "", err
	}
	id, _ = top.blob()
	return id, s.commit(ctx, w, top, blobs, nil, needs)
}

// layer writes the blob of a layer.
func (s *Store) layer(ctx context.Context, w *work, limits Limits, places []Place) (d descriptor, left Left, err error) {
	if err := s.at("layer"); err != nil {
		return d, left, err
	}
	if _, err := s.whiteouts(w.fd); err != nil { // here rather than when it is needed
		return d, left, err
	}
	fd, err := unix.Openat(w.fd, layerName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return d, left, failed("open", s.path, err)
	}
	f := os.NewFile(uintptr(fd), layerName)
	defer f.Close()
	sum := sha256.New()
	r := &reader{ctx: ctx, left: &left, work: w.fd, names: limits.Names, bytes: limits.Bytes}
	out := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<20)
	r.out = out
	if err := r.read(places); err != nil {
		return d, left, err
	}
	if err := out.Flush(); err != nil {
		return d, left, failed("write", s.path, err)
	}
	if err := s.at("sync layer"); err != nil {
		return d, left, err
	}
	if err := f.Sync(); err != nil {
		return d, left, failed("fsync", s.path, err)
	}
	d = descriptor{MediaType: typeLayer, Digest: algorithm + hex.EncodeToString(sum.Sum(nil)), Size: limits.Bytes - r.bytes}
	return d, left, nil
}

// reader writes the tar of what is in places. A hostile program filled them.
type reader struct {
	ctx   context.Context
	out   io.Writer
	left  *Left
	names int   // that may still come
	bytes int64 // of the layer, the same
	work  int   // descriptor of the work directory
	text  int   // bytes of the paths in todo, and of the names of one directory

	dev   uint64
	place string // path of the one at hand, relative to "/"; "" is "/"
	root  int
	other map[string]bool // paths of all places
	todo  []string        // directories, relative to the place, the next one last
	links map[inode]string
	loose []loosened
	buf   []byte

	attributes int // bytes of those of directories
}

// loosened is an object of the place whose owner got more rights for as long as it is read.
type loosened struct {
	path string
	mode uint32
}

// maxText bounds what is in memory of names.
const maxText = 128 << 20

func (r *reader) read(places []Place) error {
	places = slices.Clone(places)
	slices.SortFunc(places, func(a, b Place) int { return cmp.Compare(a.Path, b.Path) })
	r.other, r.links, r.buf = map[string]bool{}, map[inode]string{}, make([]byte, 256<<10)
	for i, p := range places {
		if err := validPlace(p.Path); err != nil {
			return err
		}
		if i > 0 && places[i-1].Path == p.Path {
			return fmt.Errorf("place %q: it is there twice", p.Path)
		}
		r.other[p.Path[1:]] = true
	}
	for _, p := range places {
		clear(r.links)
		r.place, r.root = p.Path[1:], p.Dir
		if err := r.readPlace(); err != nil {
			return err
		}
	}
	return r.write(make([]byte, 2*block)) // the end of a tar
}

// failed is about something in a place: whoever named it may want to be read otherwise by a terminal.
func (r *reader) failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %.300q: %w", op, "/"+path.Join(r.place, name), err)
}

func (r *reader) readPlace() error {
	defer r.restore()
	n, err := stat(r.root, "")
	if err != nil {
		return r.failed("statx", "", err)
	}
	r.dev = n.dev
	if r.place != "" { // the root itself is in no tar
		if err := r.directory("", n); err != nil {
			return err
		}
	}
	r.todo = append(r.todo[:0], "")
	for len(r.todo) > 0 {
		name := r.todo[len(r.todo)-1]
		r.todo = r.todo[:len(r.todo)-1]
		r.text -= len(name)
		if err := r.list(name); err != nil {
			return err
		}
	}
	return nil
}

// list writes what is in a directory, in the order of the names, and notes the directories in it.
func (r *reader) list(dir string) error {
	fd, err := r.open(dir)
	if err != nil {
		return r.failed("open", dir, err)
	}
	defer unix.Close(fd)
	names, size, err := r.namesIn(fd)
	if err != nil {
		return r.failed("readdir", dir, err)
	}
	defer func() { r.text -= size }()
	marked := r.marked(fd)
	var subs []string
	for _, name := range names {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		at := path.Join(dir, name)
		if r.other[path.Join(r.place, at)] {
			continue // another place is mounted here
		}
		sub, err := r.entry(fd, name, at, marked)
		if err != nil {
			return err
		}
		if sub {
			subs = append(subs, at)
			if r.text += len(at); r.text > maxText {
				return r.failed("read", dir, fmt.Errorf("names: %w", ErrTooLarge))
			}
		}
	}
	slices.Reverse(subs)
	r.todo = append(r.todo, subs...)
	return nil
}

// namesIn are the names of a directory in order.
func (r *reader) namesIn(fd int) (names []string, size int, err error) {
	dup, err := openDir(fd, ".") // an offset of its own: the caller's may stand anywhere
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(dup)
	for e, err := range linux.Dirents(dup, make([]byte, 32<<10)) {
		if err != nil {
			return nil, 0, err
		}
		if size += len(e.Name); len(names) >= r.names || r.text+size > maxText {
			return nil, 0, fmt.Errorf("names: %w", ErrTooLarge)
		}
		names = append(names, string(e.Name))
	}
	r.text += size
	slices.Sort(names)
	return names, size, nil
}

// open opens a directory so that it can be read and searched. What is above was opened before.
func (r *reader) open(dir string) (int, error) {
	fd, err := linux.OpenBeneath(r.root, dir, dirFlags)
	if err == nil {
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&0o500 == 0o500 {
			return fd, nil
		}
		_ = unix.Close(fd)
	}
	if err != nil && err != unix.EACCES {
		return -1, err
	}
	at, err := linux.OpenBeneath(r.root, dir, lookupFlags)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return -1, err
	}
	if err := unix.Chmod(linux.FDPath(at), st.Mode&0o7777|0o700); err != nil {
		return -1, err
	}
	r.loose = append(r.loose, loosened{dir, st.Mode & 0o7777})
	return linux.OpenBeneath(r.root, dir, dirFlags)
}

// restore puts the modes back, the deepest first.
func (r *reader) restore() {
	for _, l := range slices.Backward(r.loose) {
		if fd, err := linux.OpenBeneath(r.root, l.path, lookupFlags); err == nil {
			_ = unix.Chmod(linux.FDPath(fd), l.mode)
			_ = unix.Close(fd)
		}
	}
	r.loose = nil
}

// marked: empty files of a directory may be whiteouts.
func (r *reader) marked(fd int) bool {
	var value [8]byte
	n, err := unix.Fgetxattr(fd, linux.OverlayXattr+"opaque", value[:])
	if err == nil && n == 1 && value[0] == 'x' {
		return true
	}
	_, err = unix.Fgetxattr(fd, linux.OverlayXattr+"whiteouts", nil) // Linux 6.7 had one of its own
	return err == nil
}

// entry writes one name of a directory; sub: it is one itself.
func (r *reader) entry(dir int, name, at string, marked bool) (sub bool, err error) {
	n, err := stat(dir, name)
	if err != nil {
		return false, r.failed("statx", at, err)
	}
	if n.mounted || n.dev != r.dev {
		return false, nil // whatever the place has there can't be seen
	}
	if long := len(r.place) + len("/") + len(at); long > linux.MaxPath {
		return false, r.failed("read", at, &UnfitError{Msg: fmt.Sprintf("a path of %d bytes, and no system call takes more than %d", long, linux.MaxPath)})
	}
	if strings.HasPrefix(name, whiteout) {
		return false, r.failed("read", at, &UnfitError{Msg: "a name that begins with .wh. can't be in a layer"})
	}
	switch n.mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return true, r.directory(at, n)
	case unix.S_IFREG:
		return false, r.file(dir, name, at, n, marked)
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)
		length, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return false, r.failed("readlinkat", at, err)
		}
		e := r.newEntry(at, tar.TypeSymlink, n)
		e.mode, e.link = 0o777, string(buf[:length])
		return false, r.emit(e, nil)
	case unix.S_IFIFO:
		r.left.FIFOs++
	case unix.S_IFSOCK:
		r.left.Sockets++
	default:
		if n.mode&unix.S_IFMT == unix.S_IFCHR && n.zero {
			return false, r.whiteout(at)
		}
		r.left.Devices++
	}
	return false, nil
}

func (r *reader) newEntry(at string, kind byte, n node) *entry {
	return &entry{name: path.Join(r.place, at), kind: kind, mode: n.mode & 0o7777, uid: n.uid, gid: n.gid, mtime: n.mtime}
}

// whiteout says that a name of the layers below is gone. Nothing of whatever stands for it inside is kept.
func (r *reader) whiteout(at string) error {
	dir, name := path.Split(path.Join(r.place, at))
	return r.emit(&entry{name: dir + whiteout + name, kind: tar.TypeReg, mode: 0o600}, nil)
}

func (r *reader) directory(at string, n node) error {
	fd, err := r.open(at)
	if err != nil {
		return r.failed("open", at, err)
	}
	defer unix.Close(fd)
	e := r.newEntry(at, tar.TypeDir, n)
	own, err := xattrs(fd, e)
	hides := string(own["opaque"]) == "y"
	if r.attributes += e.attributes(); r.attributes > maxDirXattrs && err == nil {
		err = fmt.Errorf("attributes of directories: %w", ErrTooLarge)
	}
	if err == nil && hides {
		err = r.fits(&entry{xattrs: map[string][]byte{linux.OverlayXattr + "opaque": []byte("y")}})
	}
	if err == nil {
		err = r.fits(e)
	}
	if err == nil {
		err = r.emit(e, nil)
	}
	if err != nil || !hides {
		return r.failed("read", at, err)
	}
	return r.emit(&entry{name: e.name + "/" + opaque, kind: tar.TypeReg, mode: 0o600}, nil)
}

// xattrs notes the attributes of an open object, and gives those that overlayfs has for itself.
func xattrs(fd int, e *entry) (own map[string][]byte, err error) {
	e.xattrs, err = linux.Xattrs(fd, func(name string) bool { return linux.OwnXattr(name) || strings.HasPrefix(name, linux.OverlayXattr) })
	own = map[string][]byte{}
	for name, value := range e.xattrs {
		if of, ok := strings.CutPrefix(name, linux.OverlayXattr); ok {
			own[of] = value
			delete(e.xattrs, name)
		}
	}
	for _, name := range []string{"redirect", "metacopy"} {
		if _, ok := own[name]; ok && err == nil {
			err = &UnfitError{Msg: "the attribute " + linux.OverlayXattr + name + ": what it refers to would be lost"}
		}
	}
	if e.attributes() > maxXattrs || err == unix.E2BIG {
		err = fmt.Errorf("its attributes: %w", ErrTooLarge)
	}
	return own, err
}

func (r *reader) file(dir int, name, at string, n node, marked bool) error {
	if first, ok := r.links[n.inode]; ok && n.links > 1 {
		e := r.newEntry(at, tar.TypeLink, n)
		e.link = first
		return r.emit(e, nil)
	}
	f, done, err := r.openFile(dir, name, n.mode&0o7777)
	if err != nil {
		return r.failed("open", at, err)
	}
	defer done()
	e := r.newEntry(at, tar.TypeReg, n)
	own, err := xattrs(int(f.Fd()), e)
	if err != nil {
		return r.failed("read", at, err)
	}
	if _, stands := own["whiteout"]; stands && marked && n.size == 0 {
		return r.whiteout(at)
	}
	if n.links > 1 {
		r.links[n.inode] = e.name
	}
	if e.size = n.size; e.size > maxFile {
		return r.failed("read", at, fmt.Errorf("a file of %d bytes: %w", e.size, ErrTooLarge))
	}
	if err := r.fits(e); err != nil {
		return r.failed("read", at, err)
	}
	if e.data, err = extents(r.ctx, int(f.Fd()), e.size); err != nil {
		return r.failed("read", at, err)
	}
	return r.failed("read", at, r.emit(e, f))
}

// fits finds out by trying whether the store's file system takes what is less common, attributes and large files: what
// can't be unpacked is no part of a snapshot.
func (r *reader) fits(e *entry) error {
	const try, large = "fits", 1 << 30
	if len(e.xattrs) == 0 && e.size <= large {
		return nil
	}
	fd, err := unix.Openat(r.work, try, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Unlinkat(r.work, try, 0); err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, e.size); err != nil {
		return &UnfitError{fmt.Sprintf("the store's file system takes no file of %d bytes", e.size), err}
	}
	for name, value := range e.xattrs {
		if name == "system.posix_acl_default" {
			continue // of directories alone
		}
		if err := unix.Fsetxattr(fd, name, value, 0); err != nil {
			return &UnfitError{fmt.Sprintf("the store's file system doesn't take the attribute %.300q", name), err}
		}
	}
	return nil
}

// openFile opens a file for reading. If its owner may not, that is so no longer until done.
func (r *reader) openFile(dir int, name string, mode uint32) (f *os.File, done func(), err error) {
	if f, err = openFile(dir, name); err != unix.EACCES {
		return f, func() { _ = f.Close() }, err
	}
	at, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	restore := func() { _ = unix.Chmod(linux.FDPath(at), mode); _ = unix.Close(at) }
	if err = unix.Chmod(linux.FDPath(at), mode|0o600); err == nil {
		f, err = openFile(dir, name)
	}
	if err != nil {
		restore()
		return nil, nil, err
	}
	return f, func() { _ = f.Close(); restore() }, nil
}

// emit writes an entry, and the data of a file.
func (r *reader) emit(e *entry, f *os.File) error {
	if r.names -= cost(e.name); r.names < 0 {
		return fmt.Errorf("names: %w", ErrTooLarge)
	}
	head, err := e.header()
	if err != nil {
		return err
	}
	if err := r.write(head); err != nil {
		return err
	}
	for _, d := range e.data {
		for at, end := d.at, d.at+d.size; at < end; {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			n, err := f.ReadAt(r.buf[:min(int64(len(r.buf)), end-at)], at)
			if n == 0 {
				return fmt.Errorf("it is being written: %w", err)
			}
			if err := r.write(r.buf[:n]); err != nil {
				return err
			}
			at += int64(n)
		}
	}
	return r.write(make([]byte, padding(e.stored())))
}

func (r *reader) write(b []byte) error {
	if r.bytes -= int64(len(b)); r.bytes < 0 {
		return fmt.Errorf("bytes: %w", ErrTooLarge)
	}
	_, err := r.out.Write(b)
	return err
}

// cost is what a path counts for: the kernel walks a long way to a deep one.
func cost(name string) int {
	const long = 256
	return 1 + max(0, len(name)-long)/16
}
