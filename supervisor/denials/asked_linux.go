package denials

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Asked is a supervised call whose caller waits. It has to be answered once, by
// Return or Continue.
type Asked struct {
	Call
	TID  int // our number of the thread
	Rule string

	id uint64
	l  *Listener
}

// Waits says whether the caller still does, so that TID is its number.
func (a *Asked) Waits() bool {
	ok := false
	_ = a.l.raw.Control(func(fd uintptr) { ok = waits(int(fd), a.id) })
	return ok
}

// Return answers in the call's place. It is too late where the caller has died.
func (a *Asked) Return(value int64, errno unix.Errno) {
	a.answer(&response{id: a.id, val: value, errno: -int32(errno)})
}

// Continue lets the kernel make the call, with what is in the caller's memory then and
// the descriptors that it has then. It is for calls that could be allowed to anybody.
func (a *Asked) Continue() {
	a.answer(&response{id: a.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// addfd is struct seccomp_notif_addfd.
type addfd struct {
	id                     uint64
	flags, fd, newFD, mode uint32
}

// Give answers with a descriptor: the caller gets one of the same file, and its number is what
// the call returns. With an error, the call has still to be answered.
func (a *Asked) Give(fd int, closeOnExec bool) unix.Errno {
	give := addfd{id: a.id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, fd: uint32(fd)}
	if closeOnExec {
		give.mode = unix.O_CLOEXEC
	}
	_, errno := a.add(&give)
	if errno != unix.EINVAL {
		return errno
	}
	give.flags = 0 // before Linux 5.14 it takes two steps
	number, errno := a.add(&give)
	if errno == 0 {
		a.Return(int64(number), 0)
	}
	return errno
}

func (a *Asked) add(give *addfd) (number uintptr, errno unix.Errno) {
	errno = unix.ENOENT // the listener is closed
	_ = a.l.raw.Control(func(fd uintptr) {
		for {
			number, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(give)))
			if errno != unix.EINTR {
				return
			}
		}
	})
	return number, errno
}

func (a *Asked) answer(r *response) {
	_ = a.l.raw.Control(func(fd uintptr) { _ = respond(int(fd), r) })
}
