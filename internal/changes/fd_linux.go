package changes

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"maps"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

const (
	dirFlags    = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW
	lookupFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW // to look names up: it needn't be readable
)

// openTree opens a real tree by its absolute path, through no symbolic link.
func openTree(path string) (int, error) {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, failed("open", "/", err)
	}
	defer unix.Close(root)
	fd, err := linux.OpenBeneath(root, strings.TrimPrefix(path, "/"), dirFlags)
	return fd, failed("openat2", path, err)
}

// node is what statx says.
type node struct {
	typ          Type
	mode         uint32
	uid, gid     uint32
	size         int64
	mtime, ctime int64
	born         int64 // 0: the file system doesn't know
	dev, ino     uint64
	nlink        uint64
	whiteout     bool
}

func (n node) ident() ident { return ident{n.ino, n.born} }
func (n node) inode() inode { return inode{n.dev, n.ino} }

// is tells whether n is that object.
func (n node) is(i ident) bool {
	return n.typ != Absent && n.ino == i.Ino && (n.born == i.Born || n.born == 0 || i.Born == 0)
}

// statAt looks at one name in dir. Nothing there is a node of type Absent.
func statAt(dir int, name string) (node, error) {
	n, err := stat(dir, name, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		err = nil
	}
	return n, err
}

func statFD(fd int) (node, error) { return stat(fd, "", unix.AT_EMPTY_PATH) }

func stat(dir int, name string, flags int) (node, error) {
	var st unix.Statx_t
	if err := unix.Statx(dir, name, flags|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		return node{}, err
	}
	stamp := func(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }
	n := node{mode: uint32(st.Mode) & 0o7777, uid: st.Uid, gid: st.Gid, size: int64(st.Size), mtime: stamp(st.Mtime), ctime: stamp(st.Ctime),
		dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino, nlink: uint64(st.Nlink)}
	if st.Mask&unix.STATX_BTIME != 0 {
		n.born = stamp(st.Btime)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		n.typ = File
	case unix.S_IFDIR:
		n.typ, n.size = Dir, 0
	case unix.S_IFLNK:
		n.typ = Symlink
	case unix.S_IFIFO:
		n.typ = FIFO
	case unix.S_IFSOCK:
		n.typ = Socket
	default:
		n.typ = Device
		n.whiteout = st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev_major == 0 && st.Rdev_minor == 0
	}
	return n, nil
}

// openPath opens what stands at a name, whatever that is, and tells what it is.
func openPath(dir int, name string) (int, node, error) { return opened(dir, name, unix.O_PATH) }

// opened opens a name without following it, or makes a file that only its owner may read, and tells what was opened.
func opened(dir int, name string, flags int) (int, node, error) {
	fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, node{}, err
	}
	n, err := statFD(fd)
	if err != nil {
		_ = unix.Close(fd)
		return -1, n, err
	}
	return fd, n, nil
}

// gone: there is no such name, or no directory on the way to it.
func gone(err error) bool { return err == unix.ENOENT || err == unix.ENOTDIR }

func readLink(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	if n == len(buf) {
		return "", unix.ENAMETOOLONG
	}
	return string(buf[:n]), nil
}

// openFile opens a regular file of dir for reading, and nothing else: what stands
// there may have been replaced by a FIFO.
func openFile(dir int, name string) (int, error) {
	fd, n, err := opened(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err == nil && n.typ != File {
		_ = unix.Close(fd)
		return -1, unix.ESTALE
	}
	return fd, err
}

// readFile reads a regular file of dir that has no more than limit bytes.
func readFile(dir int, name string, limit int64) ([]byte, error) {
	fd, err := openFile(dir, name)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = unix.EFBIG
	}
	return data, err
}

// names calls each with the names in the open directory, from the beginning, in
// the order of the file system and without holding all of them.
func names(fd int, each func(name string) error) error {
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return err
	}
	for e, err := range linux.Dirents(fd, make([]byte, 32<<10)) {
		if err == nil {
			err = each(string(e.Name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// xattrs are the attributes of an open object that are part of a change.
func xattrs(fd int) (map[string][]byte, error) { return linux.Xattrs(fd, linux.OwnXattr) }

func sameXattrs(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }

// setXattrs gives the open object these attributes and no other user.* ones.
func setXattrs(fd int, want map[string][]byte) error {
	have, err := xattrs(fd)
	if err != nil {
		return err
	}
	path := linux.FDPath(fd)
	for name, value := range want {
		if old, ok := have[name]; ok && bytes.Equal(old, value) {
			continue
		}
		if err := unix.Setxattr(path, name, value, 0); err != nil {
			return err
		}
	}
	for name := range have {
		if _, ok := want[name]; ok {
			continue
		}
		if err := unix.Removexattr(path, name); err != nil && err != unix.ENODATA {
			return err
		}
	}
	return nil
}

func isRoot() bool { return os.Geteuid() == 0 }

// digest is the content of an open file, in a line. See the package comment.
func digest(fd int, size int64) (string, error) { return copyContent(nil, fd, size) }

// copyContent copies size bytes of src to the empty file dst, holes as holes, and
// gives their digest. Without dst it only reads.
func copyContent(dst *os.File, src int, size int64) (string, error) {
	sum := sha256.New()
	var number [8]byte
	b := linux.NewBlocks(src, size)
	for {
		at, block, err := b.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
		binary.LittleEndian.PutUint64(number[:], uint64(at))
		sum.Write(number[:])
		sum.Write(block)
		if dst != nil {
			if _, err := dst.WriteAt(block, at); err != nil {
				return "", err
			}
		}
	}
	binary.LittleEndian.PutUint64(number[:], uint64(size))
	sum.Write(number[:])
	if dst != nil {
		if err := dst.Truncate(size); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// sameContent compares two open files of one size, and stops at the first
// difference.
func sameContent(a, b int, size int64) (bool, error) {
	x, y := linux.NewBlocks(a, size), linux.NewBlocks(b, size)
	for {
		i, p, err := x.Next()
		if err != nil && err != io.EOF {
			return false, err
		}
		j, q, err2 := y.Next()
		if err2 != nil && err2 != io.EOF {
			return false, err2
		}
		if err == io.EOF || err2 == io.EOF {
			return err == err2, nil
		}
		if i != j || !bytes.Equal(p, q) {
			return false, nil
		}
	}
}

// maxContent is more than any index of git's that is read has.
const maxContent = 64 << 20

// Content gives what the run left in a file of its record.
func (r *Run) Content(e *Entry) (string, error) {
	if e.Blob == "" || e.Size > maxContent {
		return "", unix.EFBIG
	}
	blobs, err := r.openBlobs()
	if err != nil {
		return "", err
	}
	defer unix.Close(blobs)
	text, err := readFile(blobs, e.Blob, maxContent)
	return string(text), err
}
