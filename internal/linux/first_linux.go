package linux

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// First is a process that executes this program once more, made by Begin before the Go runtime of this one begins: then there is
// next to no memory to copy and no other thread, and what the kernel does for the process goes on beside the start of the runtime.
// It is an attempt. Where anything is refused there is none, and whoever makes one in the usual way hears why.
type First struct {
	Namespaces   uintptr   // that it is in, CLONE_NEWUSER, CLONE_NEWPID and CLONE_NEWNS among them
	Capabilities uint64    // that it has over them, by the ambient set
	Slack        uintptr   // of its timers and of ours, until somebody sets another, in ns
	Argv         [2]string // all of these end with a zero byte
	Env          [3]string
	Turn         Turn // to begin it

	pid               uintptr
	pidfd, sock, told int32

	one bool // the runtime of this process has one processor
}

// roomBelow is how much Begin uses of the stack below its own.
const roomBelow = 2 * unix.PathMax

// FirstSock is the number of the descriptor that the process has of a socket, the other end of which is Take's, and ProgramFD that
// of the mount that it was executed by. To close that one unmounts it, which waits until no processor looks at the tree any
// more: there is a better moment.
const FirstSock, ProgramFD = 3, 4

// Begin makes the process, if it is wanted, and sets the slack of this one. It is for the first instruction, with the stack as
// the kernel has made it and room below. Nothing is initialised yet but what the linker wrote, so nothing here may grow a stack,
// allocate, or need a goroutine. The runtime goes on with the stack that it gives.
//
//go:norace
//go:nosplit
func (f *First) Begin(sp unsafe.Pointer, wanted bool) unsafe.Pointer {
	var pair, pipe [2]int32 // there can be none when pipe[1] is 0
	if wanted {
		if f.Turn.take(unsafe.Add(sp, -roomBelow)); f.Turn.all {
			f.Turn.wait(unsafe.Add(sp, -roomBelow))
		}
	}
	if wanted && !f.Turn.stopped && call(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0, uintptr(unsafe.Pointer(&pair))) == 0 {
		call(unix.SYS_PIPE2, uintptr(unsafe.Pointer(&pipe)), unix.O_CLOEXEC, 0, 0)
		if pair[0] > 2 && pair[1] > 2 && pipe[1] > 2 { // else the caller has closed a stream, and the runtime opens something there
			f.clone(sp, pair, pipe)
		}
		if f.pid == 0 {
			call(unix.SYS_CLOSE, uintptr(pair[0]), 0, 0, 0)
			if pipe[1] > 0 {
				call(unix.SYS_CLOSE, uintptr(pipe[0]), 0, 0, 0)
			}
		}
		call(unix.SYS_CLOSE, uintptr(pair[1]), 0, 0, 0)
		if pipe[1] > 0 {
			call(unix.SYS_CLOSE, uintptr(pipe[1]), 0, 0, 0)
		}
	}
	call(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, f.Slack, 0, 0)
	if wanted {
		return f.oneProcessor(sp)
	}
	return sp
}

// oneProcessor gives a stack like this one, below it, with a variable that has the runtime begin with one processor, unless the caller says how many. The other
// CPUs have the child to run meanwhile, and a second thread of the runtime's would just be in the way of the first.
//
//go:norace
//go:nosplit
func (f *First) oneProcessor(sp unsafe.Pointer) unsafe.Pointer {
	const word, apart = unsafe.Sizeof(sp), 128 // the latter for the thread-local storage of entry
	end := *(*uintptr)(sp) + 2                 // the number of arguments, they, and a zero; then there are variables up to a zero
	for ; at(sp, end) != 0; end++ {
		if beginsWith(*(*unsafe.Pointer)(unsafe.Add(sp, end*word)), maxProcs) {
			return sp
		}
	}
	all := end + 1
	for ; at(sp, all) != 0; all += 2 { // what the kernel tells, in pairs
	}
	all += 2
	size := (all + 2) * word &^ 15
	if size > roomBelow-apart {
		return sp
	}
	to := unsafe.Add(sp, -int(size)-apart)
	for i := uintptr(0); i < end; i++ {
		*(*uintptr)(unsafe.Add(to, i*word)) = at(sp, i)
	}
	*(*uintptr)(unsafe.Add(to, end*word)) = address(maxProcs + "1\x00")
	for i := end; i < all; i++ {
		*(*uintptr)(unsafe.Add(to, (i+1)*word)) = at(sp, i)
	}
	f.one = true
	return to
}

const maxProcs = "GOMAXPROCS="

//go:norace
//go:nosplit
func at(sp unsafe.Pointer, i uintptr) uintptr {
	return *(*uintptr)(unsafe.Add(sp, i*unsafe.Sizeof(i)))
}

// Settle is for main: nobody else sees the variable, and a process that goes on has its processors.
func (f *First) Settle() {
	if !f.one {
		return
	}
	f.one = false
	_ = syscall.Unsetenv(maxProcs[:len(maxProcs)-1])
	time.AfterFunc(goesOn, func() {
		if runtime.GOMAXPROCS(0) == 1 {
			runtime.SetDefaultGOMAXPROCS()
		}
	})
}

// goesOn is longer than a process takes that has one short command run.
const goesOn = 10 * time.Millisecond

// clone makes the process in the namespaces that it has to begin in. The others it makes itself, beside this one: that takes
// longer than all of this.
//
//go:norace
//go:nosplit
func (f *First) clone(sp unsafe.Pointer, pair, pipe [2]int32) {
	const own = unix.CLONE_NEWUSER | unix.CLONE_NEWPID
	f.pidfd = -1
	pid, errno := result(unix.SYS_CLONE, f.Namespaces&own|unix.CLONE_PIDFD|uintptr(unix.SIGCHLD), 0, uintptr(unsafe.Pointer(&f.pidfd)), 0, 0)
	if errno == 0 && pid == 0 {
		errno = f.inside(unsafe.Add(sp, -roomBelow), pair[1])
		call(unix.SYS_WRITE, uintptr(pipe[1]), uintptr(unsafe.Pointer(&errno)), 1, 0)
		for {
			call(unix.SYS_EXIT_GROUP, 0, 0, 0, 0)
		}
	}
	if errno == 0 {
		f.pid, f.sock, f.told = pid, pair[0], pipe[0]
		apart(pid, unsafe.Add(sp, -roomBelow))
	}
}

// apart has a process that was just made begin on another CPU than this one, if it waits for it. The kernel goes by what CPUs did lately, and leaves it here in
// half of all starts, where this process goes on for long. What CPUs it may use is in the end what it was.
//
//go:norace
//go:nosplit
func apart(pid uintptr, room unsafe.Pointer) {
	const size = unix.PathMax / 4 // for more CPUs than there can be
	may, others := room, unsafe.Add(room, size)
	n, errno := result(unix.SYS_SCHED_GETAFFINITY, 0, size, uintptr(may), 0, 0)
	var cpu uint32
	if errno != 0 || call(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0, 0) != 0 || uintptr(cpu/8) >= n {
		return
	}
	for i := uintptr(0); i < n; i++ {
		*(*byte)(unsafe.Add(others, i)) = *(*byte)(unsafe.Add(may, i))
	}
	*(*byte)(unsafe.Add(others, cpu/8)) &^= 1 << (cpu % 8)
	if call(unix.SYS_SCHED_SETAFFINITY, pid, n, uintptr(others), 0) == 0 {
		call(unix.SYS_SCHED_SETAFFINITY, pid, n, uintptr(may), 0)
	}
}

// inside is what the process does, up to its execve.
//
//go:norace
//go:nosplit
func (f *First) inside(room unsafe.Pointer, sock int32) (errno uintptr) {
	// The signal first: the other one may die at any moment from here on.
	if errno = call(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0); errno != 0 {
		return errno
	}
	// What is sent to the caller's process group is for the other one, which says what becomes of this one.
	if errno = call(unix.SYS_SETSID, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	call(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, f.Slack, 0, 0)
	if errno = call(unix.SYS_UNSHARE, f.Namespaces&^(unix.CLONE_NEWUSER|unix.CLONE_NEWPID), 0, 0, 0); errno != 0 {
		return errno
	}
	if errno = onlyStreams(sock); errno != 0 {
		return errno
	}
	if errno = ambient(f.Capabilities); errno != 0 {
		return errno
	}
	var none uint64
	call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&none)), 0, unsafe.Sizeof(none))
	return f.execute(room)
}

// onlyStreams makes the null device the streams, and marks whatever else is open but the socket.
//
//go:norace
//go:nosplit
func onlyStreams(sock int32) (errno uintptr) {
	null, errno := result(unix.SYS_OPENAT, here, address("/dev/null\x00"), unix.O_RDWR|unix.O_CLOEXEC, 0, 0)
	for fd := uintptr(0); fd < FirstSock && errno == 0; fd++ {
		errno = call(unix.SYS_DUP3, null, fd, 0, 0)
	}
	if errno != 0 {
		return errno
	}
	// Before Linux 5.11 there is no such flag, and the child marks them.
	call(unix.SYS_CLOSE_RANGE, FirstSock, uintptr(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC, 0)
	if sock == FirstSock {
		return call(unix.SYS_FCNTL, FirstSock, unix.F_SETFD, 0, 0)
	}
	return call(unix.SYS_DUP3, uintptr(sock), FirstSock, 0, 0)
}

// ambient has these capabilities and no others survive an execve.
//
//go:norace
//go:nosplit
func ambient(caps uint64) (errno uintptr) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	low, high := uint32(caps), uint32(caps>>32)
	data := [2]unix.CapUserData{{Effective: low, Permitted: low, Inheritable: low}, {Effective: high, Permitted: high, Inheritable: high}}
	errno = call(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0, 0)
	for c := uintptr(0); c < 64 && errno == 0; c++ {
		if caps>>c&1 != 0 {
			errno = call(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0)
		}
	}
	return errno
}

// execute executes this program by a read-only mount that is made for it: see supervisor/program_linux.go.
//
//go:norace
//go:nosplit
func (f *First) execute(room unsafe.Pointer) (errno uintptr) {
	self, empty := address("/proc/self/exe\x00"), address("\x00")
	st, is := (*unix.Stat_t)(room), (*unix.Stat_t)(unsafe.Add(room, unix.PathMax/2))
	if errno = call(unix.SYS_NEWFSTATAT, here, self, uintptr(unsafe.Pointer(st)), 0); errno != 0 {
		return errno
	}
	path := unsafe.Add(room, unix.PathMax)
	n, errno := result(unix.SYS_READLINKAT, here, self, uintptr(path), unix.PathMax-1, 0)
	if errno != 0 {
		return errno
	}
	*(*byte)(unsafe.Add(path, n)) = 0
	file, errno := result(unix.SYS_OPEN_TREE, here, uintptr(path), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC, 0, 0)
	if errno != 0 {
		return errno
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	_, errno = result(unix.SYS_MOUNT_SETATTR, file, empty, unix.AT_EMPTY_PATH, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno == 0 {
		errno = call(unix.SYS_NEWFSTATAT, file, empty, uintptr(unsafe.Pointer(is)), unix.AT_EMPTY_PATH)
	}
	switch {
	case errno != 0:
		return errno
	case st.Dev != is.Dev || st.Ino != is.Ino:
		return uintptr(unix.ESTALE)
	}
	if file == ProgramFD {
		errno = call(unix.SYS_FCNTL, file, unix.F_SETFD, 0, 0)
	} else {
		errno = call(unix.SYS_DUP3, file, ProgramFD, 0, 0)
	}
	if errno != 0 {
		return errno
	}
	argv := [3]uintptr{address(f.Argv[0]), address(f.Argv[1])}
	env := [4]uintptr{address(f.Env[0]), address(f.Env[1]), address(f.Env[2])}
	_, errno = result(unix.SYS_EXECVEAT, file, empty, uintptr(unsafe.Pointer(&argv)), uintptr(unsafe.Pointer(&env)), unix.AT_EMPTY_PATH)
	return errno
}

const here = ^uintptr(-unix.AT_FDCWD - 1)

// address is where s begins, which the linker has put where it stays.
//
//go:norace
//go:nosplit
func address(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s))) }

// call is a system call, of which just the errno counts, and result any. They aren't inlined, as neither is what has more than
// a few words of its own: then all of it has room in what the linker grants to functions that don't grow a stack.
//
//go:noinline
//go:norace
//go:nosplit
func call(nr, a, b, c, d uintptr) (errno uintptr) {
	_, errno = result(nr, a, b, c, d, 0)
	return errno
}

//go:noinline
//go:norace
//go:nosplit
func result(nr, a, b, c, d, e uintptr) (r, errno uintptr) {
	return rawSyscall(nr, &[5]uintptr{a, b, c, d, e})
}

// FirstArgumentIs says whether the first argument of a process with this stack is word, or begins with it. It is there for
// what comes before the Go runtime, like First.
//
//go:norace
//go:nosplit
func FirstArgumentIs(sp unsafe.Pointer, word string, begins bool) bool {
	if *(*uintptr)(sp) < 2 {
		return false
	}
	arg := *(*unsafe.Pointer)(unsafe.Add(sp, 2*unsafe.Sizeof(sp)))
	return beginsWith(arg, word) && (begins || *(*byte)(unsafe.Add(arg, len(word))) == 0)
}

//go:norace
//go:nosplit
func beginsWith(text unsafe.Pointer, word string) bool {
	for i := 0; i < len(word); i++ {
		if *(*byte)(unsafe.Add(text, i)) != *(*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(word)), i)) {
			return false
		}
	}
	return true
}

// Take hands the process over, once, to who then waits for it by FirstBegun. pid is 0 when there is none.
func (f *First) Take() (pid, pidfd, sock, told int) {
	pid, f.pid = int(f.pid), 0
	return pid, int(f.pidfd), int(f.sock), int(f.told)
}

// FirstBegun waits until the process has executed the program, or says that it has not.
func FirstBegun(told int) (ok bool) {
	defer unix.Close(told)
	n, err := Again(func() (int, error) { return unix.Read(told, make([]byte, 1)) })
	return n == 0 && err == nil
}
