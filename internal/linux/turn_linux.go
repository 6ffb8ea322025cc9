package linux

import (
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Turn is one of few, which a user's processes take so that not all of them start runs at once: many starts beside each other cost more than after each
// other. Each turn is the name of an abstract socket. Who has it listens there, and who waits for one is connected; when
// the start is over, the socket is passed to who has waited for longest. A process that ends without has its waiters look for
// another turn. It is a courtesy, and no more: what fails, takes too long, or looks strange is not waited for.
type Turn struct {
	Name     string        // of all of them, of turnName bytes
	Patience time.Duration // for how long somebody waits

	sock  int32   // it listens; 0 is none
	all   bool    // are taken
	slots uintptr // how many there are
	addr  [turnAddr + 3]byte
}

// An address is a family, a zero byte for the abstract names, and then ours: what it is for, the user, and the number of the turn.
const turnName, turnAddr = 8, 2 + 1 + turnName + 4 + 1

// maxTurns is how many numbers there are.
const maxTurns = 256

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

// maxWaiters is what the kernel makes of it at most.
const maxWaiters = 4096

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
	uid, _ := result(unix.SYS_GETEUID, 0, 0, 0, 0, 0)
	a := unsafe.Pointer(&t.addr)
	*(*uint16)(a) = unix.AF_UNIX
	for i := 0; i < turnName; i++ {
		*(*byte)(unsafe.Add(a, 3+i)) = *(*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(t.Name)), i))
	}
	for i := 0; i < 4; i++ {
		*(*byte)(unsafe.Add(a, 3+turnName+i)) = byte(uid >> (8 * i))
	}
	*(*byte)(unsafe.Add(a, turnAddr-1)) = byte(slot)
	return uintptr(a)
}

// Taken says whether all turns are others'.
func (t *Turn) Taken() bool { return t.all }

// Has says whether this process has one.
func (t *Turn) Has() bool { return atomic.LoadInt32(&t.sock) != 0 }

// Wait waits for a turn.
func (t *Turn) Wait() {
	end := time.Now().Add(t.Patience)
	room := make([]byte, unix.PathMax)
	for i := uintptr(0); i < turnTries && t.await((uintptr(unix.Getpid())+i)%t.slots, time.Until(end)); i++ {
		if t.take(unsafe.Pointer(&room[0])); !t.all {
			return
		}
	}
	t.all = false
}

// await waits in the queue of a turn, and says whether to look for another one: who had it has ended.
func (t *Turn) await(slot uintptr, patience time.Duration) (again bool) {
	conn, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(conn)
	for _, option := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} { // the former is for the queue itself
		tv := unix.NsecToTimeval(max(int64(patience), int64(time.Microsecond)))
		if unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, option, &tv) != nil {
			return false
		}
	}
	if errno := call(unix.SYS_CONNECT, uintptr(conn), t.address(slot), turnAddr, 0); errno != 0 {
		return errno == uintptr(unix.ECONNREFUSED)
	}
	if !ours(conn) {
		return false
	}
	data, rights := make([]byte, 1), make([]byte, unix.CmsgLen(4))
	n, size, _, _, err := unix.Recvmsg(conn, data, rights, unix.MSG_CMSG_CLOEXEC)
	for err == unix.EINTR {
		n, size, _, _, err = unix.Recvmsg(conn, data, rights, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil || n == 0 {
		return err == nil || err == unix.ECONNRESET
	}
	if all, err := unix.ParseSocketControlMessage(rights[:size]); err == nil && len(all) == 1 {
		if fds, err := unix.ParseUnixRights(&all[0]); err == nil && len(fds) == 1 {
			_ = unix.SetNonblock(fds[0], true)
			_ = unix.Listen(fds[0], maxWaiters) // so that it is known whose it is
			atomic.StoreInt32(&t.sock, int32(fds[0]))
		}
	}
	return false
}

// ours says whether the other end of a connection is a process of this user's, and not in a sandbox.
func ours(conn int) bool {
	peer, err := unix.GetsockoptUcred(conn, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || int(peer.Uid) != unix.Geteuid() {
		return false
	}
	var its, own unix.Stat_t
	return unix.Stat("/proc/"+strconv.Itoa(int(peer.Pid))+"/ns/user", &its) == nil && unix.Stat("/proc/self/ns/user", &own) == nil &&
		its.Dev == own.Dev && its.Ino == own.Ino
}

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
		passed := ours(conn) && unix.Sendmsg(conn, []byte{1}, unix.UnixRights(sock), nil, unix.MSG_NOSIGNAL) == nil
		unix.Close(conn)
		if passed {
			return
		}
	}
}
