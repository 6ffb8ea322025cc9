package ninep

import (
	"bytes"
	"encoding/binary"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// answer answers one request.
func (s *Server) answer(kind byte, r *reader, out *writer) error {
	switch kind {
	case tVersion:
		size, word := r.u32(), r.str()
		if word != "9P2000.L" {
			word = "unknown"
		}
		for n := range s.fids {
			_ = s.drop(n)
		}
		out.u32(min(size, MaxMessage))
		out.str(word)
		return nil
	case tAttach:
		n := r.u32()
		return s.attach(n, out)
	case tFlush: // requests are answered in their order: it has been
		return nil
	case tWalk:
		return s.walk(r, out)
	}
	n := r.u32()
	if kind == tClunk {
		return s.drop(n)
	}
	f, err := s.lookup(n)
	if err != nil {
		return err
	}
	switch kind {
	case tRead, tWrite, tReaddir, tLopen, tLcreate, tFsync:
		return s.content(kind, f, r, out)
	case tXattrwalk, tXattrcreate:
		return s.attribute(kind, f, r, out)
	case tGetattr:
		return s.getattr(f, out)
	case tSetattr:
		return setattr(f, r)
	case tStatfs:
		return statfs(f, out)
	case tReadlink:
		to := make([]byte, unix.PathMax)
		return at(f.Path, func(fd int) error {
			n, err := unix.Readlinkat(fd, "", to)
			if err == nil {
				out.str(string(to[:n]))
			}
			return err
		})
	case tLock:
		out.u8(0) // the guest has its own, and nobody else is there
		return nil
	case tGetlock:
		r.u8()
		start, length, process, client := r.u64(), r.u64(), r.u32(), r.str()
		out.u8(unix.F_UNLCK)
		out.u64(start)
		out.u64(length)
		out.u32(process)
		out.str(client)
		return nil
	}
	return s.rename(kind, n, f, r, out)
}

func (s *Server) attach(n uint32, out *writer) error {
	var st unix.Stat_t
	if err := lstat("/", &st); err != nil {
		return err
	}
	out.qid(s.qidOf(&st))
	return s.add(n, &fid{Fid: Fid{Path: "/"}, file: -1})
}

func (s *Server) walk(r *reader, out *writer) error {
	n, to, count := r.u32(), r.u32(), r.u16()
	f, err := s.lookup(n)
	if err != nil {
		return err
	}
	at := f.Path
	out.u16(0)
	walked := uint16(0)
	for ; walked < count; walked++ {
		name := r.str()
		next := path.Dir(at)
		if name != ".." {
			if next, err = child(at, name); err != nil {
				break
			}
		}
		var st unix.Stat_t
		if next == s.own {
			err = unix.ENOENT
		} else {
			err = lstat(next, &st)
		}
		if err != nil {
			break
		}
		at = next
		out.qid(s.qidOf(&st))
	}
	if walked < count {
		if walked == 0 {
			return err
		}
	} else if to == n {
		f.Path = at
		_ = s.charge(f)
	} else if err := s.add(to, &fid{Fid: Fid{Path: at}, file: -1}); err != nil {
		return err
	}
	binary.LittleEndian.PutUint16(out.b[headerSize:], walked)
	return nil
}

// content is what is read and written.
func (s *Server) content(kind byte, f *fid, r *reader, out *writer) error {
	switch kind {
	case tLopen, tLcreate:
		return s.open(kind, f, r, out)
	case tFsync:
		if f.file < 0 {
			return unix.EBADF
		}
		return unix.Fdatasync(f.file)
	case tReaddir:
		if f.file < 0 {
			return unix.EBADF
		}
		return s.readDir(f, r.u64(), r.u32(), out)
	case tRead:
		at, count := r.u64(), min(r.u32(), MaxMessage-headerSize-4)
		out.u32(0)
		n := 0
		if x := f.xattr; x != nil && !x.write {
			rest := x.data[min(at, uint64(len(x.data))):]
			out.b = append(out.b, rest[:min(uint64(count), uint64(len(rest)))]...)
			n = len(out.b) - headerSize - 4
		} else {
			if f.file < 0 {
				return unix.EBADF
			}
			var err error
			if n, err = unix.Pread(f.file, out.b[headerSize+4:headerSize+4+int(count)], int64(at)); err != nil {
				return err
			}
			out.b = out.b[:headerSize+4+n]
		}
		binary.LittleEndian.PutUint32(out.b[headerSize:], uint32(n))
		return nil
	}
	at, count := r.u64(), r.u32()
	data := r.take(int(count))
	if r.bad {
		return errMessage
	}
	if x := f.xattr; x != nil && x.write {
		if at != uint64(len(x.data)) || len(x.data)+len(data) > cap(x.data) {
			return unix.ENOSPC
		}
		x.data = append(x.data, data...)
		out.u32(count)
		return nil
	}
	if f.file < 0 {
		return unix.EBADF
	}
	n, err := unix.Pwrite(f.file, data, int64(at))
	if err == nil {
		out.u32(uint32(n))
	}
	return err
}

// open opens a file that is there, or makes one.
func (s *Server) open(kind byte, f *fid, r *reader, out *writer) error {
	if f.file >= 0 || f.xattr != nil {
		return unix.EINVAL
	}
	name := ""
	if kind == tLcreate {
		name = r.str()
	}
	flags := int(r.u32())
	to := f.Path
	var file int
	var st *unix.Stat_t
	var err error
	if kind == tLcreate {
		mode := r.u32()
		r.u32() // group
		if to, err = child(f.Path, name); err != nil {
			return err
		}
		made := &unix.Stat_t{}
		err = in(to, func(dir int, base string) (err error) {
			file, err = unix.Openat(dir, base, flags&(unix.O_ACCMODE|unix.O_EXCL|unix.O_TRUNC)|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, mode&0o7777)
			return err
		})
		if err == nil {
			_ = unix.Fchmod(file, mode&0o7777) // the guest has its own umask
			if err = unix.Fstat(file, made); err == nil && made.Mode&unix.S_IFMT != unix.S_IFREG {
				err = unix.EINVAL
			}
			if err != nil {
				_ = unix.Close(file)
			}
		}
		st = made
	} else {
		file, st, err = open(f.Path, flags)
	}
	if err != nil {
		return err
	}
	f.Path, f.file, f.Open, f.Flags = to, file, true, flags&(unix.O_ACCMODE|unix.O_DIRECTORY)
	_ = s.charge(f)
	out.qid(s.qidOf(st))
	out.u32(0) // as much at a time as a message has
	return nil
}

// attribute is about extended attributes.
func (s *Server) attribute(kind byte, f *fid, r *reader, out *writer) error {
	if kind == tXattrcreate {
		name, size, flags := r.str(), r.u64(), r.u32()
		if size > 64<<10 || f.file >= 0 {
			return unix.ENOSPC
		}
		f.xattr = &xattr{name: name, data: make([]byte, 0, size), write: true, flags: int(flags)}
		err := s.charge(f)
		if err != nil {
			f.xattr = nil
			_ = s.charge(f)
		}
		return err
	}
	to, name := r.u32(), r.str()
	data := make([]byte, 64<<10)
	var n int
	err := at(f.Path, func(fd int) (err error) {
		if name == "" {
			n, err = unix.Listxattr(linux.FDPath(fd), data)
		} else {
			n, err = unix.Getxattr(linux.FDPath(fd), name, data)
		}
		return err
	})
	if err != nil {
		return err
	}
	out.u64(uint64(n))
	return s.add(to, &fid{Fid: Fid{Path: f.Path}, file: -1, xattr: &xattr{data: bytes.Clone(data[:n])}})
}

func (s *Server) getattr(f *fid, out *writer) error {
	var st unix.Stat_t
	var err error
	if f.file >= 0 {
		err = unix.Fstat(f.file, &st)
	} else {
		err = lstat(f.Path, &st)
	}
	if err != nil {
		return err
	}
	const basic = 0x7ff
	out.u64(basic)
	out.qid(s.qidOf(&st))
	out.u32(st.Mode)
	out.u32(st.Uid)
	out.u32(st.Gid)
	for _, v := range []uint64{
		uint64(st.Nlink), st.Rdev, uint64(st.Size), uint64(st.Blksize), uint64(st.Blocks),
		uint64(st.Atim.Sec), uint64(st.Atim.Nsec), uint64(st.Mtim.Sec), uint64(st.Mtim.Nsec), uint64(st.Ctim.Sec), uint64(st.Ctim.Nsec),
		0, 0, 0, 0, // birth, generation, version: nobody says
	} {
		out.u64(v)
	}
	return nil
}

func setattr(f *fid, r *reader) error {
	valid, mode, uid, gid, size := r.u32(), r.u32(), r.u32(), r.u32(), r.u64()
	times := []unix.Timespec{{Sec: int64(r.u64()), Nsec: int64(r.u64())}, {Sec: int64(r.u64()), Nsec: int64(r.u64())}}
	if r.bad {
		return errMessage
	}
	fd := f.file // which may have no name any more
	if fd < 0 {
		var err error
		if fd, err = reach(f.Path); err != nil {
			return err
		}
		defer unix.Close(fd)
	}
	if valid&1 != 0 {
		if err := unix.Chmod(linux.FDPath(fd), mode&0o7777); err != nil {
			return err
		}
	}
	if valid&6 != 0 {
		u, g := -1, -1
		if valid&2 != 0 {
			u = int(uid)
		}
		if valid&4 != 0 {
			g = int(gid)
		}
		if err := unix.Fchownat(fd, "", u, g, unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if valid&8 != 0 {
		if err := truncate(f, int64(size)); err != nil {
			return err
		}
	}
	if valid&(16|32) == 0 {
		return nil
	}
	for i, bits := range [][2]uint32{{16, 128}, {32, 256}} {
		switch {
		case valid&bits[0] == 0:
			times[i].Nsec = unix.UTIME_OMIT
		case valid&bits[1] == 0:
			times[i] = unix.NsecToTimespec(time.Now().UnixNano())
		}
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, linux.FDPath(fd), times, 0)
}

func truncate(f *fid, size int64) error {
	if f.file >= 0 && f.Flags&unix.O_ACCMODE != unix.O_RDONLY {
		return unix.Ftruncate(f.file, size)
	}
	file, _, err := open(f.Path, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	return unix.Ftruncate(file, size)
}

func statfs(f *fid, out *writer) error {
	var st unix.Statfs_t
	if err := at(f.Path, func(fd int) error { return unix.Fstatfs(fd, &st) }); err != nil {
		return err
	}
	const v9fsMagic = 0x01021997
	out.u32(v9fsMagic)
	out.u32(uint32(st.Bsize))
	for _, v := range []uint64{st.Blocks, st.Bfree, st.Bavail, st.Files, st.Ffree, uint64(uint32(st.Fsid.Val[0])) | uint64(uint32(st.Fsid.Val[1]))<<32} {
		out.u64(v)
	}
	out.u32(uint32(st.Namelen))
	return nil
}

// rename makes, moves and removes names.
func (s *Server) rename(kind byte, n uint32, f *fid, r *reader, out *writer) error {
	switch kind {
	case tMkdir, tSymlink, tMknod:
		to, err := child(f.Path, r.str())
		if err != nil {
			return err
		}
		return in(to, func(dir int, base string) error { return s.make(kind, dir, base, r, out) })
	case tLink: // f is the directory
		of, err := s.lookup(r.u32())
		if err != nil {
			return err
		}
		to, err := child(f.Path, r.str())
		if err != nil {
			return err
		}
		return at(of.Path, func(fd int) error {
			return in(to, func(dir int, base string) error {
				return unix.Linkat(unix.AT_FDCWD, linux.FDPath(fd), dir, base, unix.AT_SYMLINK_FOLLOW)
			})
		})
	case tRemove:
		var st unix.Stat_t
		err := lstat(f.Path, &st)
		if err == nil {
			err = remove(f.Path, st.Mode&unix.S_IFMT == unix.S_IFDIR)
		}
		_ = s.drop(n)
		return err
	case tUnlinkat:
		name := r.str()
		to, err := child(f.Path, name)
		if err != nil {
			return err
		}
		return remove(to, r.u32()&unix.AT_REMOVEDIR != 0)
	case tRename, tRenameat:
		from, err := f.Path, error(nil)
		if kind == tRenameat {
			from, err = child(f.Path, r.str())
		}
		if err != nil {
			return err
		}
		dir, err := s.lookup(r.u32())
		if err != nil {
			return err
		}
		to, err := child(dir.Path, r.str())
		if err != nil {
			return err
		}
		if err := s.movable(from, to); err != nil {
			return err
		}
		err = in(from, func(fromDir int, fromBase string) error {
			return in(to, func(toDir int, toBase string) error { return unix.Renameat(fromDir, fromBase, toDir, toBase) })
		})
		if err == nil {
			s.moved(from, to)
		}
		return err
	}
	return unix.EOPNOTSUPP
}

// make makes something that has no content, and says what it is.
func (s *Server) make(kind byte, dir int, base string, r *reader, out *writer) (err error) {
	switch kind {
	case tMkdir:
		mode := r.u32() & 0o7777
		if err = unix.Mkdirat(dir, base, mode); err == nil {
			_ = unix.Fchmodat(dir, base, mode, 0) // the guest has its own umask
		}
	case tSymlink:
		err = unix.Symlinkat(r.str(), dir, base)
	case tMknod:
		mode, major, minor := r.u32(), r.u32(), r.u32()
		err = unix.Mknodat(dir, base, mode, int(unix.Mkdev(major, minor)))
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		out.qid(s.qidOf(&st))
	}
	return err
}

func remove(name string, dir bool) error {
	flags := 0
	if dir {
		flags = unix.AT_REMOVEDIR
	}
	return in(name, func(dir int, base string) error { return unix.Unlinkat(dir, base, flags) })
}
