package output

import (
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

const (
	// pipeChunk is what a pipe that polls writable takes without blocking.
	pipeChunk = 4096
	// ttyChunk is about what a terminal that polls writable takes without blocking.
	ttyChunk = 256
	wholly   = 1 << 30
)

// dest is one of the caller's descriptors, written without ever blocking on its reader.
type dest struct {
	fd       int
	owned    bool // ours to close
	terminal bool
	socket   bool
	// watch: a reader that leaves never comes back, so its leaving may be acted
	// on before the next write. Not so with a named FIFO.
	watch  bool
	splice bool // may work; EINVAL clears it
	chunk  int
}

// openDest looks at fd. It fails with the errno that a write to it would fail with.
func openDest(fd int) (*dest, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return nil, err
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY || flags&unix.O_PATH != 0 {
		return nil, unix.EBADF
	}
	d := &dest{fd: fd, chunk: wholly}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		d.splice, d.watch = true, anonymous(fd)
		d.unblock(flags, unix.O_WRONLY, pipeChunk)
	case unix.S_IFSOCK:
		d.socket = true
	case unix.S_IFCHR:
		if d.terminal = linux.IsTerminal(fd); d.terminal {
			d.unblock(flags, unix.O_WRONLY|unix.O_NOCTTY, ttyChunk)
		} else {
			d.splice = true // null and zero can
		}
	default:
		d.splice = flags&unix.O_APPEND == 0
	}
	return d, nil
}

// unblock opens d a second time with O_NONBLOCK, or else keeps writes small.
func (d *dest) unblock(flags, mode, chunk int) {
	if flags&unix.O_NONBLOCK != 0 {
		return
	}
	if fd, err := reopen(d.fd, mode|unix.O_NONBLOCK); err == nil {
		d.fd, d.owned = fd, true
		return
	}
	d.chunk = chunk
}

// reopen gives a new file description of the very file behind fd.
func reopen(fd, mode int) (int, error) {
	own, err := unix.Open(linux.FDPath(fd), mode|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var a, b unix.Stat_t
	if unix.Fstat(fd, &a) != nil || unix.Fstat(own, &b) != nil || a.Dev != b.Dev || a.Ino != b.Ino || a.Rdev != b.Rdev {
		unix.Close(own) // not a /proc to rely on
		return -1, unix.ESTALE
	}
	return own, nil
}

func anonymous(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && int64(fs.Type) == unix.PIPEFS_MAGIC
}

// write writes some of p. EAGAIN: poll first.
func (d *dest) write(p []byte) (int, error) {
	p = p[:min(len(p), d.chunk)]
	if d.chunk != wholly && !d.writable() {
		return 0, unix.EAGAIN
	}
	for {
		var n int
		var err error
		if d.socket {
			n, err = unix.SendmsgN(d.fd, p, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		} else {
			n, err = unix.Write(d.fd, p)
		}
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// writable asks for the descriptors that stayed blocking.
func (d *dest) writable() bool {
	fds := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(fds, 0)
	return n == 1 && err == nil
}

// pipe is the anonymous pipe's descriptor, or -1.
func (d *dest) pipe() int {
	if d == nil || !d.watch {
		return -1
	}
	return d.fd
}

func (d *dest) close() {
	if d != nil && d.owned {
		unix.Close(d.fd)
		d.owned = false
	}
}

// Gone says of the error of a write that nobody will ever read what is written.
func Gone(err error) bool { return err == unix.EPIPE || err == unix.ECONNRESET }
