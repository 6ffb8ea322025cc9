package files

import (
	"encoding/binary"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/supervisor/denials"
)

// look is one call being looked at. Its methods fill found.
type look struct {
	*denials.Asked
	proc   string // "/proc/TID/"
	who    func() identity
	root   int  // descriptor of the caller's root, -1: not asked for yet
	blind  bool // the caller can't be looked into
	places *places
	hurry  bool // nothing is to be waited for
	later  bool // and so there is no answer yet
	buf    *[unix.PathMax]byte
	found  []Access
	// relative: the name that was read last was, to the directory of its caller.
	relative bool
}

// do looks at what one call names.
func (l *look) do(c *call) {
	if c.special != nil {
		c.special(l, c)
		return
	}
	for i, o := range c.operands {
		name, ok := l.name(&o)
		if !ok || name == "" {
			continue // EFAULT, ENOENT, or the descriptor itself: AT_EMPTY_PATH
		}
		if i == 0 && c.flags != none && l.Args[c.flags]&unix.AT_SYMLINK_NOFOLLOW != 0 {
			o.link = true
		}
		if abs, ok := l.absolute(&o, name); ok {
			l.add(c.name, abs, o.wish, o.link)
		}
	}
}

// open is open, openat and creat.
func (l *look) open(c *call) {
	flags := uint64(unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC)
	if c.flags != none {
		flags = l.Args[c.flags] & 0xffffffff
	}
	l.opening(c, flags, 0)
}

// open2 is openat2, whose flags are in memory.
func (l *look) open2(c *call) {
	var how [24]byte
	if !l.read(l.Args[2], how[:]) {
		return
	}
	l.opening(c, binary.NativeEndian.Uint64(how[:]), binary.NativeEndian.Uint64(how[16:]))
}

func (l *look) opening(c *call, flags, resolve uint64) {
	o := c.operands[0]
	name, ok := l.name(&o)
	if !ok || name == "" {
		return
	}
	if resolve&unix.RESOLVE_IN_ROOT != 0 {
		if name = strings.TrimLeft(name, "/"); name == "" {
			name = "."
		}
	}
	abs, ok := l.absolute(&o, name)
	if !ok {
		return
	}
	wish := Read
	switch writes := flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0; {
	case flags&unix.O_PATH != 0:
		wish = Look
	case flags&unix.O_TMPFILE == unix.O_TMPFILE:
		wish = Write
	case flags&unix.O_DIRECTORY != 0:
		wish = List
	case writes:
		wish = Write
	}
	link := flags&unix.O_NOFOLLOW != 0 || flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL
	a := l.at(c.name, abs, wish, link)
	switch {
	case wish == Look:
	case flags&unix.O_CREAT != 0 && !a.Exists && !a.Unknown && flags&unix.O_DIRECTORY == 0:
		a.Wish = Create
		l.mount(&a)
	case flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL:
		a.Wish = Look // EEXIST
	case wish == Read && a.IsDir:
		a.Wish = List
	}
	l.found = append(l.found, a)
}

// execAt may execute a descriptor.
func (l *look) execAt(c *call) {
	o := c.operands[0]
	name, ok := l.name(&o)
	if !ok {
		return
	}
	abs, ok := "", false
	if name != "" {
		abs, ok = l.absolute(&o, name)
	} else if l.Args[c.flags]&unix.AT_EMPTY_PATH != 0 {
		abs, ok = l.link("fd/" + strconv.Itoa(int(int32(l.Args[0]))))
		ok = ok && strings.HasPrefix(abs, "/") && !strings.HasPrefix(abs, "/memfd:")
	}
	if ok {
		l.add(c.name, abs, Exec, l.Args[c.flags]&unix.AT_SYMLINK_NOFOLLOW != 0)
	}
}

// socket is connect and bind, of unix sockets that have a path.
func (l *look) socket(c *call) {
	const pathAt, whole = 2, 110 // of struct sockaddr_un
	n := int32(l.Args[2])
	if n <= pathAt || n > 128 {
		return
	}
	var sockaddr [whole]byte
	b := sockaddr[:min(n, whole)]
	if !l.read(l.Args[1], b) || binary.NativeEndian.Uint16(b) != unix.AF_UNIX || b[pathAt] == 0 {
		return
	}
	name, _, _ := strings.Cut(string(b[pathAt:]), "\x00")
	o := c.operands[0]
	o.dir = none
	if abs, ok := l.absolute(&o, name); ok {
		l.add(c.name, abs, o.wish, o.link)
	}
}

// add notes an access.
func (l *look) add(name, abs string, w Wish, link bool) {
	l.found = append(l.found, l.at(name, abs, w, link))
}

// at looks at what is there.
func (l *look) at(name, abs string, w Wish, link bool) Access {
	a := Access{Path: abs, Relative: l.relative, Wish: w, Call: name, At: time.Now()}
	fd, errno := l.openAt(abs, link)
	switch errno {
	case 0:
		defer unix.Close(fd)
		var st unix.Statx_t
		if unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_MODE, &st) != nil {
			a.Unknown = true
			break
		}
		a.Exists, a.IsDir, a.Mode = true, st.Mode&unix.S_IFMT == unix.S_IFDIR, uint32(st.Mode&0o7777)
		if w == Remove || w == Create { // decided by the directory
			l.mount(&a)
		} else if w == Write {
			a.ReadOnly = l.readOnly(fd)
		}
	case unix.ENOENT, unix.ENOTDIR:
		if w == Create || w == Write || !l.hurry {
			l.mount(&a)
		}
	default:
		a.Unknown = true
	}
	return a
}

// mount asks about the directory that the name is in.
func (l *look) mount(a *Access) {
	if fd, errno := l.openAt(path.Dir(a.Path), false); errno == 0 {
		if !l.hurry {
			l.places.learn(fd)
		}
		a.ReadOnly, a.InPlace = l.readOnly(fd), true
		_ = unix.Close(fd)
	}
}

// readOnly asks the file system, which may have to ask somebody else.
func (l *look) readOnly(fd int) bool {
	if l.hurry && !l.places.are(fd) {
		l.later = true
		return false
	}
	const stReadOnly = 1 // ST_RDONLY
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && fs.Flags&stReadOnly != 0
}

// resolveCached is RESOLVE_CACHED, since Linux 5.12.
const resolveCached = 0x20

// places are file systems that answer at once, because all of them is in this
// machine's memory or on its disks.
type places struct{ quick sync.Map } // device → bool

// local are their magic numbers. Some of them (tmpfs) don't remember what isn't there.
var local = map[int64]bool{
	unix.TMPFS_MAGIC: true, unix.RAMFS_MAGIC: true, unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true,
	unix.BTRFS_SUPER_MAGIC: true, unix.PROC_SUPER_MAGIC: true, unix.SYSFS_MAGIC: true,
}

// learn looks at a directory's file system; it may have to wait.
func (p *places) learn(fd int) {
	dev, ok := device(fd)
	if !ok {
		return
	}
	if _, known := p.quick.Load(dev); known {
		return
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) == nil {
		p.quick.Store(dev, local[int64(fs.Type)])
	}
}

func (p *places) are(fd int) bool {
	dev, ok := device(fd)
	if !ok {
		return false
	}
	quick, _ := p.quick.Load(dev)
	return quick == true
}

func device(fd int) (uint64, bool) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	return unix.Mkdev(st.Dev_major, st.Dev_minor), err == nil
}

// beside looks, in a hurry, for what isn't in the caches, where its directory is and has
// a file system that answers at once.
func (l *look) beside(abs string, link bool) (int, unix.Errno) {
	l.later = true
	dir, err := unix.Openat2(l.root, l.own(path.Dir(abs)), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | resolveCached,
	})
	if err != nil {
		return -1, unix.EAGAIN
	}
	defer unix.Close(dir)
	if !l.places.are(dir) {
		return -1, unix.EAGAIN
	}
	fd, err := unix.Openat2(dir, path.Base(abs), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		l.later = false
		errno, _ := err.(unix.Errno)
		return -1, errno
	}
	var st unix.Statx_t
	if !link && (unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK) {
		_ = unix.Close(fd)
		return -1, unix.EAGAIN
	}
	l.later = false
	return fd, 0
}
