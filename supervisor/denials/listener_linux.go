package denials

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Listener answers the calls that one filter denies. A nil one has heard of none.
type Listener struct {
	record
	judge  Judge
	target int // our number of the process whose kill ends the run; 0: unknown
	take   func(*Asked) (answered bool)
	onNew  func(*Denial)

	file   *os.File
	raw    syscall.RawConn
	closed atomic.Bool
	done   chan struct{}
	broken chan error
	dying  dying
	passed record // of calls that were let through
}

// Listen begins to answer. The descriptor is the listener's from then on, also
// when it can't. onNew, if not nil, is called for each kind of denial, the first
// time, after the answer.
//
// take, if not nil, is given the calls that are supervised, and has to answer each
// one, in its own time; it says whether it has.
//
// It costs no thread: the descriptor waits among the runtime's own.
func Listen(fd int, judge Judge, target int, take func(*Asked) (answered bool), onNew func(*Denial)) (*Listener, error) {
	l := &Listener{judge: judge, target: target, take: take, onNew: onNew, done: make(chan struct{}), broken: make(chan error, 1)}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	// Since Linux 6.6: who waits for an answer goes on right here, instead of on another
	// processor that has to be woken. Without it, it only takes longer.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), setFlags, syncWakeUp)
	l.file = os.NewFile(uintptr(fd), "seccomp notify")
	var err error
	if l.raw, err = l.file.SyscallConn(); err != nil {
		_ = l.file.Close()
		return nil, err
	}
	go func() {
		defer close(l.done)
		if err := l.raw.Read(l.serve); err != nil && !l.closed.Load() {
			l.fail(err)
		}
	}()
	return l, nil
}

// Broken tells that denied calls are answered no more, and why.
func (l *Listener) Broken() <-chan error {
	if l == nil {
		return nil
	}
	return l.broken
}

func (l *Listener) fail(err error) {
	select {
	case l.broken <- err:
	default:
	}
}

// Close ends it, and whoever was to be killed. From here on denied calls answer
// ENOSYS, so whoever could make one should be gone.
func (l *Listener) Close() {
	if l == nil {
		return
	}
	l.closed.Store(true)
	_ = l.file.Close()
	<-l.done
	l.dying.end()
}

// Killed is the denial that the target is killed for, nil when it isn't.
func (l *Listener) Killed() *Denial {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.killed
}

// List is what was denied, in the order of the first of each kind, and how many
// more there were.
func (l *Listener) List() (all []Denial, others int64) {
	if l == nil {
		return nil, 0
	}
	return l.all()
}

// setFlags is SECCOMP_IOCTL_NOTIF_SET_FLAGS, and syncWakeUp
// SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP.
const (
	setFlags   = 0x40082104
	syncWakeUp = 1
)

// more is how long another call is waited for after one, in ms: who is denied
// something often asks for more of it, and this is the shorter way.
const more = 5

// serve answers until nobody waits, and says whether nobody ever will.
func (l *Listener) serve(fd uintptr) (done bool) {
	for wait := 0; !l.closed.Load(); {
		// Asking first: with nobody there, the next call would wait for somebody.
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(set, wait)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			l.fail(os.NewSyscallError("poll", err))
			return true
		case n > 0 && set[0].Revents&unix.POLLIN != 0:
		case n > 0 && set[0].Revents&(unix.POLLHUP|unix.POLLNVAL) != 0:
			return true // nobody is left under the filter
		default:
			return false
		}
		taken, err := l.answerOne(int(fd))
		if err != nil {
			l.fail(err)
			return true
		}
		if wait = more; taken {
			wait = 0 // whoever makes the call has our processor
		}
	}
	return true
}

// answerOne answers one call, or has it taken.
func (l *Listener) answerOne(fd int) (taken bool, err error) {
	n, errno := receive(fd)
	switch errno {
	case 0:
	case unix.ENOENT, unix.EINTR: // it was killed, or a signal came, before we got here
		return false, nil
	default:
		return false, os.NewSyscallError("ioctl SECCOMP_IOCTL_NOTIF_RECV", errno)
	}
	d := Denial{Call: Call{n.arch, uint32(n.nr), n.args}, At: time.Now()}
	d.Answer = l.judge.Answer(&d.Call, func(addr uint64) string {
		s := text(int(n.pid), addr)
		if !waits(fd, n.id) {
			return "" // of whom, nobody knows
		}
		return s
	})
	if d.Supervised && l.take != nil {
		return !l.take(&Asked{Call: d.Call, TID: int(n.pid), Rule: d.Rule, id: n.id, l: l}), nil
	}
	if d.Let {
		return false, l.let(fd, n, &d)
	}
	refused := unix.Errno(d.Errno)
	if d.Kill {
		if !l.kill(fd, n, &d) {
			return false, nil
		}
		refused = unix.EPERM
	} else if !d.Untold {
		l.nameCaller(fd, n, &d)
	}
	if refused == 0 || refused > maxErrno {
		refused = unix.EPERM // 0 would be a success
	}
	switch errno := respond(fd, &response{id: n.id, errno: -int32(refused)}); errno {
	case 0:
	case unix.ENOENT:
		if !d.Kill {
			return false, nil // killed meanwhile; or a signal came, and it will be back
		}
	default:
		return false, os.NewSyscallError("ioctl SECCOMP_IOCTL_NOTIF_SEND", errno)
	}
	if !d.Untold && l.add(d) && l.onNew != nil {
		l.onNew(&d)
	}
	return false, nil
}

// maxErrno is MAX_ERRNO: what is beyond is no error.
const maxErrno = 4095

// notification is struct seccomp_notif, and room for one that has grown.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
	_     [128]byte
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

func receive(fd int) (*notification, unix.Errno) {
	n := new(notification) // the kernel wants zeroes
	return n, ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n))
}

func respond(fd int, r *response) unix.Errno {
	return ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
}

// waits says whether the call is still to be answered, so that its process is the
// one that it was.
func waits(fd int, id uint64) bool {
	return ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == 0
}

func ioctl(fd int, request uintptr, p unsafe.Pointer) unix.Errno {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(p))
		if errno != unix.EINTR || request == unix.SECCOMP_IOCTL_NOTIF_RECV {
			return errno
		}
	}
}

// let has the kernel make a call that the policy allows, and keeps that it was made. The
// policy has decided by registers alone, which nobody changes meanwhile.
func (l *Listener) let(fd int, n *notification, d *Denial) error {
	l.passed.nameCaller(fd, n, d)
	switch errno := respond(fd, &response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}); errno {
	case 0:
		l.passed.add(*d)
	case unix.ENOENT: // it was killed, or a signal came, and it will be back
	default:
		return os.NewSyscallError("ioctl SECCOMP_IOCTL_NOTIF_SEND", errno)
	}
	return nil
}

// Passed is what was let through and told, in the order of the first of each kind, and how
// many more there were.
func (l *Listener) Passed() (all []Denial, others int64) {
	if l == nil {
		return nil, 0
	}
	return l.passed.all()
}

// nameCaller notes who made a call of a kind that there is none of yet.
func (r *record) nameCaller(fd int, n *notification, d *Denial) {
	if !r.isNew(&d.Answer) {
		return
	}
	if p, err := Look(int(n.pid)); err == nil && waits(fd, n.id) {
		d.By = p.Process
	}
}
