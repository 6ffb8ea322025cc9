package linux

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Turn is one of few, which a user's processes take so that not all of them start runs at once: many starts beside each other cost more than after each
// other. Each turn is the name of an abstract socket. Who has it listens there, and who waits for one is connected; when
// the start is over, the socket is passed to who has waited for longest. A process that ends without has its waiters look for
// another turn. It is a courtesy, and no more: what fails, takes too long, or looks strange is not waited for.
//
// To take it and to wait is for what comes before the Go runtime, like First: there a process that waits is next to nothing.
type Turn struct {
	Name     string         // of all of them, of turnName bytes
	Patience time.Duration  // for how long somebody waits
	Stop     [4]unix.Signal // what a process that waits is stopped by

	sock    int32   // it listens; 0 is none
	all     bool    // are taken
	stopped bool    // by a signal
	slots   uintptr // how many there are

	turnMem
}

// turnMem is what the kernel reads and writes for one.
type turnMem struct {
	addr     [turnAddr]byte
	patience unix.Timespec
	polled   [2]unix.PollFd
	action   sigaction
	set      uint64
	signal   [unsafe.Sizeof(unix.SignalfdSiginfo{}) / 4]uint32 // the first is its number
	peer     unix.Ucred
	size     uint32
	path     [len(usersOf) + 11]byte
	own, its unix.Stat_t
	data     [2]uintptr // an iovec, and what it is about:
	byte     uintptr
	rights   [3]uintptr // a header, and one descriptor
	message  [7]uintptr // a msghdr
}

// An address is a family, a zero byte for the abstract names, and then ours: what it is for, the user, and the number of the turn.
const turnName, turnAddr = 8, 2 + 1 + turnName + 4 + 1

// maxTurns is how many numbers there are, and maxWaiters what the kernel makes of it at most.
const maxTurns, maxWaiters = 256, 4096

// turnTries is for how many somebody waits who end without passing it on, and TurnTime when a start has taken so long that the next may begin.
const turnTries, TurnTime = 16, 100 * time.Millisecond

// take takes a turn, if one is free. It is for what comes before the Go runtime, like First, and uses no stack of its own to speak of; room is for the
// kernel's answers.
//
//go:norace
//go:nosplit
func (t *Turn) take(room unsafe.Pointer) {
	if t.slots == 0 {
		t.slots = min(2*allowedCPUs(room), maxTurns)
	}
	t.all = false
	sock, errno := result(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0, 0, 0)
	if errno != 0 {
		return
	}
	errno = uintptr(unix.EADDRINUSE)
	for i := uintptr(0); i < t.slots && errno == uintptr(unix.EADDRINUSE) && sock > 2; i++ { // else the caller has closed a stream
		errno = call(unix.SYS_BIND, sock, t.address(i), turnAddr, 0)
	}
	if errno == 0 && call(unix.SYS_LISTEN, sock, maxWaiters, 0, 0) == 0 {
		t.sock = int32(sock)
		return
	}
	t.all = errno == uintptr(unix.EADDRINUSE) && sock > 2
	call(unix.SYS_CLOSE, sock, 0, 0, 0)
}

// allowedCPUs is on how many this process may run, at least one.
//
//go:norace
//go:nosplit
func allowedCPUs(room unsafe.Pointer) (n uintptr) {
	size, errno := result(unix.SYS_SCHED_GETAFFINITY, 0, unix.PathMax, uintptr(room), 0, 0)
	for i := uintptr(0); i < size && errno == 0; i++ {
		for b := *(*byte)(unsafe.Add(room, i)); b != 0; b &= b - 1 {
			n++
		}
	}
	return max(n, 1)
}

// address is that of a turn of this user's.
//
//go:norace
//go:nosplit
func (t *Turn) address(slot uintptr) uintptr {
	const user = 3 + turnName
	if t.addr[0] != unix.AF_UNIX {
		t.addr[0] = unix.AF_UNIX
		for i := 0; i < turnName; i++ {
			t.addr[3+i] = *(*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(t.Name)), i))
		}
		uid, _ := result(unix.SYS_GETEUID, 0, 0, 0, 0, 0)
		for i := 0; i < 4; i++ {
			t.addr[user+i] = byte(uid >> (8 * i))
		}
	}
	t.addr[turnAddr-1] = byte(slot)
	return uintptr(unsafe.Pointer(&t.addr))
}

// wait waits for a turn, when all are taken.
//
//go:norace
//go:nosplit
func (t *Turn) wait(room unsafe.Pointer) {
	t.patience = unix.Timespec{Sec: int64(t.Patience / time.Second), Nsec: int64(t.Patience % time.Second)}
	slot, _ := result(unix.SYS_GETPID, 0, 0, 0, 0, 0)
	stop := t.block()
	for i := uintptr(0); i < turnTries && t.await(stop, (slot+i)%t.slots); i++ {
		if t.take(room); !t.all {
			break
		}
	}
	t.all = false
	if t.stopped {
		call(unix.SYS_READ, stop, uintptr(unsafe.Pointer(&t.signal)), unsafe.Sizeof(t.signal), 0)
	}
	call(unix.SYS_CLOSE, stop, 0, 0, 0)
	call(unix.SYS_RT_SIGPROCMASK, unix.SIG_UNBLOCK, uintptr(unsafe.Pointer(&t.set)), 0, unsafe.Sizeof(t.set))
}

// block blocks the signals that stop a process that waits, and gives a descriptor by which they are seen. Those that are ignored aren't among them.
//
//go:norace
//go:nosplit
func (t *Turn) block() (fd uintptr) {
	t.set = 0
	for i := 0; i < len(t.Stop); i++ {
		n := uintptr(t.Stop[i])
		if n != 0 && call(unix.SYS_RT_SIGACTION, n, 0, uintptr(unsafe.Pointer(&t.action)), unsafe.Sizeof(t.set)) == 0 && t.action[0] != sigIgn {
			t.set |= 1 << (n - 1)
		}
	}
	call(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&t.set)), 0, unsafe.Sizeof(t.set))
	fd, errno := result(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&t.set)), unsafe.Sizeof(t.set), unix.SFD_CLOEXEC, 0)
	if errno != 0 {
		return ^uintptr(0)
	}
	return fd
}

// await waits in the queue of a turn, and says whether to look for another one: who had it has ended.
//
//go:norace
//go:nosplit
func (t *Turn) await(stop, slot uintptr) (again bool) {
	conn, errno := result(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0, 0, 0)
	if errno != 0 {
		return false
	}
	errno = call(unix.SYS_CONNECT, conn, t.address(slot), turnAddr, 0)
	if again = errno == uintptr(unix.ECONNREFUSED); errno == 0 && t.ours(conn) && t.polls(conn, stop) {
		again = t.receive(conn)
	}
	call(unix.SYS_CLOSE, conn, 0, 0, 0)
	return again
}

// polls waits until there is something to receive.
//
//go:norace
//go:nosplit
func (t *Turn) polls(conn, stop uintptr) bool {
	t.polled[0] = unix.PollFd{Fd: int32(conn), Events: unix.POLLIN}
	t.polled[1] = unix.PollFd{Fd: int32(stop), Events: unix.POLLIN}
	errno := uintptr(unix.EINTR)
	for errno == uintptr(unix.EINTR) { // the kernel counts the time down
		errno = call(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&t.polled)), uintptr(len(t.polled)), uintptr(unsafe.Pointer(&t.patience)), 0)
	}
	t.stopped = errno == 0 && t.polled[1].Revents&unix.POLLIN != 0
	return errno == 0 && !t.stopped && t.polled[0].Revents != 0
}

// receive takes the turn that is passed on, and says whether somebody has ended instead.
//
//go:norace
//go:nosplit
func (t *Turn) receive(conn uintptr) (ended bool) {
	t.data = [2]uintptr{uintptr(unsafe.Pointer(&t.byte)), 1}
	t.message = [7]uintptr{0, 0, uintptr(unsafe.Pointer(&t.data)), 1, uintptr(unsafe.Pointer(&t.rights)), oneRight, 0}
	n, errno := result(unix.SYS_RECVMSG, conn, uintptr(unsafe.Pointer(&t.message)), unix.MSG_CMSG_CLOEXEC, 0, 0)
	header := (*unix.Cmsghdr)(unsafe.Pointer(&t.rights))
	if n == 0 || errno != 0 {
		return errno == 0 || errno == uintptr(unix.ECONNRESET)
	}
	if t.message[5] >= oneRight && header.Level == unix.SOL_SOCKET && header.Type == unix.SCM_RIGHTS {
		t.sock = *(*int32)(unsafe.Pointer(&t.rights[2]))
		call(unix.SYS_FCNTL, uintptr(t.sock), unix.F_SETFL, unix.O_NONBLOCK, 0)
		call(unix.SYS_LISTEN, uintptr(t.sock), maxWaiters, 0, 0) // so that it is known whose it is
	}
	return false
}

// oneRight is the length of the header and one descriptor.
const oneRight = unsafe.Sizeof(unix.Cmsghdr{}) + 4

// usersOf is where the user namespace of a process is.
const usersOf = "/proc//ns/user"

// ours says whether the other end of a connection is a process of this user's, and not in a sandbox.
//
//go:norace
//go:nosplit
func (t *Turn) ours(conn uintptr) bool {
	t.size = uint32(unsafe.Sizeof(t.peer))
	_, errno := result(unix.SYS_GETSOCKOPT, conn, unix.SOL_SOCKET, unix.SO_PEERCRED, uintptr(unsafe.Pointer(&t.peer)), uintptr(unsafe.Pointer(&t.size)))
	uid, _ := result(unix.SYS_GETEUID, 0, 0, 0, 0, 0)
	pid, _ := result(unix.SYS_GETPID, 0, 0, 0, 0, 0)
	return errno == 0 && t.peer.Pid > 0 && uintptr(t.peer.Uid) == uid &&
		t.users(uint32(t.peer.Pid), &t.its) && t.users(uint32(pid), &t.own) && t.its.Dev == t.own.Dev && t.its.Ino == t.own.Ino
}

// users looks at the user namespace of a process.
//
//go:norace
//go:nosplit
func (t *Turn) users(pid uint32, st *unix.Stat_t) bool {
	const before = len("/proc/")
	digits := 1
	for n := pid; n > 9; n /= 10 {
		digits++
	}
	for i := 0; i < len(usersOf); i++ {
		at := i
		if i >= before {
			at += digits
		}
		t.path[at] = usersOf[i]
	}
	t.path[len(usersOf)+digits] = 0
	for i := digits; i > 0; i-- {
		t.path[before+i-1] = byte('0' + pid%10)
		pid /= 10
	}
	return call(unix.SYS_NEWFSTATAT, here, uintptr(unsafe.Pointer(&t.path)), uintptr(unsafe.Pointer(st)), 0) == 0
}

// Has says whether this process has one.
func (t *Turn) Has() bool { return atomic.LoadInt32(&t.sock) != 0 }

// Stopped is the signal by which it was asked to end while it waited, or 0.
func (t *Turn) Stopped() unix.Signal { return unix.Signal(t.signal[0]) }

// Pass gives the turn to the next. Again it does nothing.
func (t *Turn) Pass() {
	sock := int(atomic.SwapInt32(&t.sock, 0))
	if sock == 0 {
		return
	}
	defer unix.Close(sock)
	for {
		conn, _, err := unix.Accept4(sock, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err != nil {
			return
		}
		passed := t.ours(uintptr(conn)) && unix.Sendmsg(conn, []byte{1}, unix.UnixRights(sock), nil, unix.MSG_NOSIGNAL) == nil
		unix.Close(conn)
		if passed {
			return
		}
	}
}
