package files

import (
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/supervisor/denials"
)

// name reads the path of an operand. It is not ok where the kernel would answer
// EFAULT or ENAMETOOLONG, or where nobody may read it.
func (l *look) name(o *operand) (string, bool) {
	at := l.Args[o.path]
	if at == 0 {
		return "", false
	}
	b, ended, err := denials.String(l.TID, at, l.buf[:])
	l.blind = l.blind || err == unix.EPERM
	return string(b), ended
}

// read fills b, or doesn't.
func (l *look) read(at uint64, b []byte) bool {
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(l.TID, local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	l.blind = l.blind || err == unix.EPERM
	return n == len(b)
}

// link reads one of the caller's magic links.
func (l *look) link(name string) (string, bool) {
	n, err := unix.Readlink(l.proc+name, l.buf[:])
	if err == unix.EACCES || err == unix.EPERM {
		l.blind = true
	}
	return string(l.buf[:max(n, 0)]), err == nil && n < unix.PathMax
}

// absolute says which path is meant.
func (l *look) absolute(o *operand, name string) (string, bool) {
	if l.relative = name[0] != '/'; l.relative {
		from := "cwd"
		if o.dir != none {
			if fd := int(int32(l.Args[o.dir])); fd != unix.AT_FDCWD {
				from, l.relative = "fd/"+strconv.Itoa(fd), false
			}
		}
		dir, ok := l.link(from)
		if !ok || !strings.HasPrefix(dir, "/") {
			return "", false // EBADF, or no directory
		}
		if gone, cut := strings.CutSuffix(dir, " (deleted)"); cut {
			if _, errno := l.openAt(dir, true); errno != 0 {
				dir = gone
			}
		}
		name = dir + "/" + name
	}
	if strings.Contains(name, "/..") {
		name = l.upwards(name)
	}
	return path.Clean(name), true
}

// upwards follows what leads to the last ".." as the kernel does: the parent of a link's
// target is not that of the link.
func (l *look) upwards(name string) string {
	parts := strings.Split(name, "/")
	last := -1
	for i, p := range parts {
		if p == ".." {
			last = i
		}
	}
	if last < 0 {
		return name
	}
	fd, errno := l.openAt(strings.Join(parts[:last+1], "/"), false)
	if errno != 0 {
		return name
	}
	defer unix.Close(fd)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), l.buf[:])
	if err != nil || n == 0 || l.buf[0] != '/' {
		return name
	}
	return string(l.buf[:n]) + "/" + strings.Join(parts[last+1:], "/")
}

// openAt gives a descriptor of what the caller would find, which is good for nothing but
// asking about it.
func (l *look) openAt(abs string, link bool) (int, unix.Errno) {
	if l.root < 0 {
		fd, err := unix.Open(l.proc+"root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			l.blind = l.blind || err == unix.EACCES || err == unix.EPERM
			return -1, unix.EPERM
		}
		l.root = fd
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if link {
		how.Flags |= unix.O_NOFOLLOW
	}
	if l.hurry {
		how.Resolve |= resolveCached
	}
	fd, err := unix.Openat2(l.root, l.own(abs), &how)
	if err == unix.ELOOP && !link { // it ends in a magic link, which is there
		how.Flags |= unix.O_NOFOLLOW
		fd, err = unix.Openat2(l.root, l.own(abs), &how)
	}
	if err != nil {
		errno, _ := err.(unix.Errno)
		if l.hurry && errno == unix.EAGAIN {
			return l.beside(abs, link)
		}
		l.later = l.later || l.hurry && errno == unix.EINVAL // before Linux 5.12
		return -1, errno
	}
	return fd, 0
}

// own says "self" in /proc as the caller means it: we have another one.
func (l *look) own(abs string) string {
	rest, ok := strings.CutPrefix(abs, "/proc/")
	if !ok {
		return abs
	}
	first, rest, _ := strings.Cut(rest, "/")
	switch first {
	case "self":
		return "/proc/" + strconv.Itoa(l.who().pid) + "/" + rest
	case "thread-self":
		who := l.who()
		return "/proc/" + strconv.Itoa(who.pid) + "/task/" + strconv.Itoa(who.tid) + "/" + rest
	case "mounts", "net":
		return "/proc/" + strconv.Itoa(l.who().pid) + strings.TrimPrefix(abs, "/proc")
	}
	return abs
}
