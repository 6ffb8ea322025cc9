package linux

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is one system call of a list that ForkExec makes in the new process.
type Call struct {
	Name string
	Nr   uintptr
	Args [5]uintptr
	// Optional: that the kernel refuses it changes nothing.
	Optional bool
	// Result, if not nil, is where the result goes, for a later call of the list.
	Result *int32
	// From, if not nil, is where the first argument is found: in what an earlier call gave.
	From *int32
	// Same, if not nil, are two files, by device and inode, that have to be the same when the call was made: else it failed, with ESTALE.
	Same *[2]FileID
	// Keep holds what Args point to.
	Keep any
}

// FileID is what struct stat begins with: a file's device and inode.
type FileID [2]uint64

// CallError is the call of the list that the kernel refused.
type CallError struct {
	Name  string
	Errno unix.Errno
}

func (e *CallError) Error() string { return e.Name + ": " + e.Errno.Error() }

// Unwrap gives the errno.
func (e *CallError) Unwrap() error { return e.Errno }

// fork is what the kernel and the new process read and write: the memory is shared.
type fork struct {
	pidfd  int32
	failed int32 // index of the call that failed, plus one
	errno  int32
	args   cloneArgs
	nr     uintptr
	words  [5]uintptr // nr's arguments
}

// cloneArgs is struct clone_args.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal     uint64
	stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// newFork is on the heap, where nothing moves: addresses in it are kept as numbers.
//
//go:noinline
func newFork(flags uintptr, cgroup int) *fork {
	f := &fork{pidfd: -1}
	flags |= unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD
	pidfd := uintptr(unsafe.Pointer(&f.pidfd))
	if cgroup == NoCgroup {
		f.nr, f.words = unix.SYS_CLONE, [5]uintptr{flags | uintptr(unix.SIGCHLD), 0, pidfd}
		return f
	}
	f.args = cloneArgs{
		flags: uint64(flags) | unix.CLONE_INTO_CGROUP, pidfd: uint64(pidfd),
		exitSignal: uint64(unix.SIGCHLD), cgroup: uint64(cgroup),
	}
	f.nr, f.words = unix.SYS_CLONE3, [5]uintptr{uintptr(unsafe.Pointer(&f.args)), unsafe.Sizeof(f.args)}
	return f
}

// rawSyscall is a system call, and may be a clone(2) or clone3(2) that goes on with the same stack.
//
//go:noescape
func rawSyscall(nr uintptr, args *[5]uintptr) (r, errno uintptr)

// NoCgroup is for ForkExec: the new process begins where this one is.
const NoCgroup = -1

// ForkExec clones with flags (namespaces), into the cgroup v2 whose directory
// cgroup is or into this process's own (NoCgroup), makes the calls of the list in the new
// process, one after another, and says which of them failed. The last is to be
// execve. The caller has to be locked to its thread.
//
// The new process borrows this one's memory, as with vfork(2), until its execve:
// nothing is copied, so that nothing has to be faulted in again, and what failed
// can simply be read. But it has no working Go runtime, so nothing runs in it but
// this list: no allocation, no stack growth, no scheduler. The calls can therefore
// be such that no Go program survives them, and seccomp can come right before
// execve.
//
// Signals are blocked meanwhile: a handler of this process must not run in the new
// one. The list has to unblock them again, after SignalDefaults where this process
// has handlers.
func ForkExec(flags uintptr, cgroup int, calls []Call) (pid, pidfd int, err error) {
	all, old := fullSigset(), unix.Sigset_t{}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
		return 0, -1, &CallError{"rt_sigprocmask", err.(unix.Errno)}
	}
	f := newFork(flags, cgroup)
	pid, errno := forkCalls(f, calls)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	runtime.KeepAlive(calls)
	name := "clone"
	if cgroup != NoCgroup {
		name = "clone3"
	}
	return forked(name, pid, errno, f, calls)
}

// forked is what came of a clone.
func forked(name string, pid int, errno unix.Errno, f *fork, calls []Call) (int, int, error) {
	switch {
	case errno != 0:
		return 0, -1, &CallError{name, errno}
	case f.failed == 0:
		return pid, int(f.pidfd), nil
	}
	_ = unix.Close(int(f.pidfd))
	for {
		if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != unix.EINTR {
			break
		}
	}
	return 0, -1, &CallError{calls[f.failed-1].Name, unix.Errno(f.errno)}
}

func fullSigset() (s unix.Sigset_t) {
	for i := range s.Val {
		s.Val[i] = ^s.Val[i]
	}
	return s
}

// forkCalls returns only in the old process. The new one runs in this very stack
// frame, and never leaves it; the old one returns at once.
//
//go:noinline
//go:norace
//go:nosplit
func forkCalls(f *fork, calls []Call) (pid int, errno unix.Errno) {
	p, e := rawSyscall(f.nr, &f.words)
	if e != 0 || p != 0 {
		return int(p), unix.Errno(e)
	}
	for i := range calls {
		c := &calls[i]
		if c.From != nil {
			c.Args[0] = uintptr(*c.From)
		}
		r, errno := rawSyscall(c.Nr, &c.Args)
		if c.Same != nil && errno == 0 && c.Same[0] != c.Same[1] {
			errno = uintptr(unix.ESTALE)
		}
		if errno != 0 && !c.Optional {
			f.failed, f.errno = int32(i)+1, int32(errno)
			break
		}
		if c.Result != nil {
			*c.Result = int32(r)
		}
	}
	for {
		rawSyscall(unix.SYS_EXIT_GROUP, &[5]uintptr{}) // another status a filter may hand on, to nobody yet
	}
}

// Signals of Linux are 1 to 64.
const lastSignal = 64

// SignalDefaults are the calls that give every signal its default action and
// then unblock all of them, or all but those in blocked.
func SignalDefaults(blocked *unix.Sigset_t) []Call {
	action := new([4]uint64) // struct kernel_sigaction: SIG_DFL, no flags, no mask
	calls := make([]Call, 0, lastSignal)
	for n := 1; n <= lastSignal; n++ {
		if s := unix.Signal(n); s != unix.SIGKILL && s != unix.SIGSTOP {
			calls = append(calls, Call{Name: "rt_sigaction", Nr: unix.SYS_RT_SIGACTION, Keep: action,
				Args: [5]uintptr{uintptr(n), uintptr(unsafe.Pointer(action)), 0, 8}})
		}
	}
	return append(calls, Call{Name: "rt_sigprocmask", Nr: unix.SYS_RT_SIGPROCMASK, Keep: blocked,
		Args: [5]uintptr{unix.SIG_SETMASK, uintptr(unsafe.Pointer(blocked)), 0, 8}})
}

// CString is s as system calls take it.
func CString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// Exec is the call of execve.
func Exec(path string, argv, env []string) Call {
	name, args, envp := CString(path), pointers(argv), pointers(env)
	return Call{Name: "execve", Nr: unix.SYS_EXECVE, Keep: [3]any{name, args, envp},
		Args: [5]uintptr{uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&args[0])), uintptr(unsafe.Pointer(&envp[0]))}}
}

// ExecFrom is Exec of the file that an earlier call has opened.
func ExecFrom(file *int32, argv, env []string) Call {
	c := Exec("", argv, env)
	c.Name, c.Nr, c.From = "execveat", unix.SYS_EXECVEAT, file
	c.Args = [5]uintptr{0, c.Args[0], c.Args[1], c.Args[2], unix.AT_EMPTY_PATH}
	return c
}

// pointers ends with a null.
func pointers(words []string) []*byte {
	out := make([]*byte, len(words)+1)
	for i, w := range words {
		out[i] = CString(w)
	}
	return out
}

// ExitAtOnce ends the new process well, in the place of an Exec.
func ExitAtOnce() Call { return Call{Name: "exit", Nr: unix.SYS_EXIT} }
