package ninep

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// Fid is what the guest holds by a number.
type Fid struct {
	Path string
	Open bool `json:",omitempty"`
	// Flags are those that it was opened with, and Size and Time what a file was then that was opened for reading alone.
	Flags int   `json:",omitempty"`
	Size  int64 `json:",omitempty"`
	Time  int64 `json:",omitempty"`
}

// fid is one with what is open of it.
type fid struct {
	Fid
	file  int // -1: it isn't open
	stale error
	names []string // of a directory
	xattr *xattr
	cost  int // memory that it is counted with
}

// charge counts what is held of it by now.
func (s *Server) charge(f *fid) error {
	const itself = 256 // and its place in the table
	cost := itself + len(f.Path)
	if f.xattr != nil {
		cost += len(f.xattr.name) + cap(f.xattr.data)
	}
	for _, name := range f.names {
		cost += 16 + len(name)
	}
	s.held += cost - f.cost
	f.cost = cost
	if s.held > maxHeld {
		return unix.ENFILE
	}
	return nil
}

// xattr is an attribute that is being read, or written.
type xattr struct {
	name  string
	data  []byte
	write bool
	flags int
}

// Server serves the tree below its own root.
type Server struct {
	epoch uint64 // files of another server's are others
	own   string // directory that has no name here

	mu   sync.Mutex // of everything: requests are answered one after the other
	fids map[uint32]*fid
	held int // memory of what they have, in bytes
}

// New is a server of which no other has the epoch: after a restore, a file that has the number of another one by now isn't taken for it. The directory
// own, of whoever serves, isn't shown. That is for order and no wall: a guest that walks through a link finds it.
func New(epoch uint64, own string) *Server {
	return &Server{epoch: epoch, own: own, fids: map[uint32]*fid{}}
}

// maxHeld bounds what a guest may hold, in bytes; more than of all names of a large tree.
const maxHeld = 128 << 20

// Serve answers until the stream ends.
func (s *Server) Serve(conn io.ReadWriter) error {
	from := bufio.NewReaderSize(conn, 64<<10)
	in, out := make([]byte, MaxMessage), &writer{b: make([]byte, 0, MaxMessage)}
	for {
		if _, err := io.ReadFull(from, in[:headerSize]); err != nil {
			return err
		}
		n := binary.LittleEndian.Uint32(in)
		if n < headerSize || n > MaxMessage {
			return errMessage
		}
		if _, err := io.ReadFull(from, in[headerSize:n]); err != nil {
			return err
		}
		kind, tag := in[4], binary.LittleEndian.Uint16(in[5:])
		r := &reader{b: in[headerSize:n]}
		out.b = out.b[:headerSize]
		s.mu.Lock()
		err := s.answer(kind, r, out)
		s.mu.Unlock()
		if r.bad {
			return errMessage
		}
		kind++
		if err != nil {
			out.b, kind = out.b[:headerSize], rLerror
			out.u32(uint32(errnoOf(err)))
		}
		if _, err := conn.Write(out.end(kind, tag)); err != nil {
			return err
		}
	}
}

func errnoOf(err error) unix.Errno {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return unix.EIO
}

// Save is the table. A file that is open, and whose name leads to it no more, can't be found again: that is an error.
func (s *Server) Save() (map[uint32]Fid, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[uint32]Fid{}
	for n, f := range s.fids {
		if f.xattr != nil {
			continue // whoever holds it is told that it is stale
		}
		if f.file >= 0 {
			var open, named unix.Stat_t
			if err := unix.Fstat(f.file, &open); err != nil {
				return nil, err
			}
			if err := lstat(f.Path, &named); err != nil || open.Dev != named.Dev || open.Ino != named.Ino {
				return nil, fmt.Errorf("a process holds %q open, which was removed since", f.Path)
			}
			f.Size, f.Time = open.Size, open.Mtim.Sec
		}
		all[n] = f.Fid
	}
	return all, nil
}

// Load opens what a table has. A file that was open for reading alone, and isn't there any more or is another, is an error: a program
// that is one half of what it was and another half of something else ends worse.
func (s *Server) Load(all map[uint32]Fid) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, saved := range all {
		f := &fid{Fid: saved, file: -1}
		if !path.IsAbs(f.Path) || f.Path != path.Clean(f.Path) || strings.ContainsRune(f.Path, 0) {
			return errMessage
		}
		if f.Open {
			file, st, err := open(f.Path, f.Flags)
			reads := f.Flags&unix.O_ACCMODE == unix.O_RDONLY
			switch {
			case err == nil && reads && st.Mode&unix.S_IFMT == unix.S_IFREG && (st.Size != f.Size || st.Mtim.Sec != f.Time):
				_ = unix.Close(file)
				return fmt.Errorf("%q isn't the file any more that a process has open", f.Path)
			case err != nil && reads:
				return fmt.Errorf("%q, which a process has open: %w", f.Path, err)
			case err != nil:
				f.stale = unix.ESTALE
			default:
				f.file = file
			}
		}
		s.fids[n] = f
		if err := s.charge(f); err != nil {
			return err
		}
	}
	return nil
}

// open opens a regular file or a directory, and nothing else.
func open(name string, flags int) (int, *unix.Stat_t, error) {
	var st unix.Stat_t
	named, err := reach(name)
	if err != nil {
		return -1, nil, err
	}
	defer unix.Close(named)
	if err := unix.Fstat(named, &st); err != nil {
		return -1, nil, err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return -1, nil, unix.EINVAL
	}
	flags &= unix.O_ACCMODE | unix.O_TRUNC | unix.O_DIRECTORY
	fd, err := unix.Open(linux.FDPath(named), flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, nil, err
	}
	return fd, &st, nil
}

func (s *Server) qidOf(st *unix.Stat_t) qid {
	h := fnv.New64a()
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], st.Dev)
	binary.LittleEndian.PutUint64(b[8:], st.Ino)
	binary.LittleEndian.PutUint64(b[16:], s.epoch)
	_, _ = h.Write(b[:])
	q := qid{path: h.Sum64(), version: uint32(st.Mtim.Nano() ^ st.Size<<8)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		q.kind = 0x80
	case unix.S_IFLNK:
		q.kind = 0x02
	}
	return q
}

func (s *Server) lookup(n uint32) (*fid, error) {
	f := s.fids[n]
	if f == nil {
		return nil, unix.EBADF
	}
	return f, f.stale
}

// add gives a number to something.
func (s *Server) add(n uint32, f *fid) error {
	if s.fids[n] != nil {
		return unix.EEXIST
	}
	if err := s.charge(f); err != nil {
		s.held -= f.cost
		return err
	}
	s.fids[n] = f
	return nil
}

// drop forgets it.
func (s *Server) drop(n uint32) (err error) {
	f := s.fids[n]
	if f == nil {
		return unix.EBADF
	}
	delete(s.fids, n)
	s.held -= f.cost
	if f.file >= 0 {
		_ = unix.Close(f.file)
	}
	if x := f.xattr; x != nil && x.write {
		err = at(f.Path, func(fd int) error {
			if len(x.data) == 0 {
				return unix.Removexattr(linux.FDPath(fd), x.name)
			}
			return unix.Setxattr(linux.FDPath(fd), x.name, x.data, x.flags)
		})
	}
	return err
}

// reach opens what has a path, for calls that go by descriptors. No link leads there, since the guest's kernel follows links by itself, and
// what was a directory when it was walked may be one by now. Nor is it the kernel's: there the memory of this very program has a name.
func reach(name string) (int, error) {
	fd, err := linux.OpenPath(name, 0)
	if err == nil && linux.OfKernel(fd) {
		_ = unix.Close(fd)
		err = unix.ENOENT
	}
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// at does something with what has a path.
func at(name string, do func(fd int) error) error {
	fd, err := reach(name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// in does something with a name in a directory.
func in(name string, do func(dir int, base string) error) error {
	return at(path.Dir(name), func(dir int) error { return do(dir, path.Base(name)) })
}

func lstat(name string, st *unix.Stat_t) error {
	return at(name, func(fd int) error { return unix.Fstat(fd, st) })
}

// child is a name in a directory.
func child(dir, name string) (string, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return "", unix.EINVAL
	}
	return path.Join(dir, name), nil
}

// movable says whether there is room for what moved does: a long name of a directory is in the paths of all below.
func (s *Server) movable(from, to string) error {
	more := s.held
	for _, f := range s.fids {
		if f.Path == from || strings.HasPrefix(f.Path, from+"/") {
			more += max(0, len(to)-len(from))
		}
	}
	if more > maxHeld {
		return unix.ENFILE
	}
	return nil
}

// moved has fids follow a name that changed, their own or that of a directory above.
func (s *Server) moved(from, to string) {
	for _, f := range s.fids {
		if f.Path == from {
			f.Path = to
		} else if rest, below := strings.CutPrefix(f.Path, from+"/"); below {
			f.Path = to + "/" + rest
		} else {
			continue
		}
		_ = s.charge(f)
	}
}

// read is a directory, from an entry on.
func (s *Server) readDir(f *fid, from uint64, count uint32, out *writer) error {
	if f.names == nil || from == 0 {
		entries, err := os.ReadDir(linux.FDPath(f.file))
		if err != nil {
			return err
		}
		f.names = []string{".", ".."}
		for _, e := range entries {
			f.names = append(f.names, e.Name())
		}
		if err := s.charge(f); err != nil {
			f.names = nil
			_ = s.charge(f)
			return err
		}
	}
	out.u32(0)
	start := len(out.b)
	for i := from; i < uint64(len(f.names)); i++ {
		name := f.names[i]
		if path.Join(f.Path, name) == s.own {
			continue
		}
		if len(out.b)-start+13+8+1+2+len(name) > int(min(count, MaxMessage-headerSize-4)) {
			break
		}
		var st unix.Stat_t
		if err := unix.Fstatat(f.file, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			continue // it went
		}
		out.qid(s.qidOf(&st))
		out.u64(i + 1)
		out.u8(byte(st.Mode >> 12)) // DT_ of the type
		out.str(name)
	}
	binary.LittleEndian.PutUint32(out.b[start-4:], uint32(len(out.b)-start))
	return nil
}
