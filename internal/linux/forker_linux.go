package linux

import (
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forker is a thread that does nothing but clone, and that the Go runtime doesn't know. To make namespaces takes the kernel
// most of a millisecond, in which a goroutine's thread would keep a processor of the runtime's to itself; and a process
// that dies with the thread that made it (PR_SET_PDEATHSIG) needs one that lives as long as this process.
type forker struct {
	wanted, done int     // eventfds, and what orders memory between the two sides
	slack        uintptr // PR_SET_TIMERSLACK of the thread, and so of what it makes
	fork         *fork
	calls        []Call
	pid          int
	errno        unix.Errno
	stack        [forkerStack]byte
	tls          [2]uintptr // of the thread: where a goroutine's would stand, which there is none of, is below [1]
	word         uint64     // read and written
}

const forkerStack = 4 << 10

// theForker makes one process at a time.
var theForker struct {
	sync.Mutex
	thread *forker
}

// Forking is a clone that has begun.
type Forking struct{ f *forker }

// BeginForkExec is ForkExec on a thread of its own, which lives as long as this process. Wait has to follow; until then no other
// one begins. Timers of the thread and of what is started may be late by slack, in ns.
func BeginForkExec(flags uintptr, slack int, calls []Call) (*Forking, error) {
	theForker.Lock()
	f := theForker.thread
	if f == nil {
		var err error
		if f, err = newForker(slack); err != nil {
			theForker.Unlock()
			return nil, err
		}
		theForker.thread = f
	}
	f.fork, f.calls = newFork(flags, NoCgroup), calls
	if _, err := unix.Write(f.wanted, one[:]); err != nil {
		theForker.Unlock()
		return nil, &CallError{"write", err.(unix.Errno)}
	}
	return &Forking{f}, nil
}

// one is what an eventfd takes and gives.
var one = [8]byte{1}

// newForker makes the thread, with all signals blocked.
func newForker(slack int) (*forker, error) {
	f := &forker{slack: uintptr(slack)}
	var err error
	if f.wanted, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return nil, &CallError{"eventfd", err.(unix.Errno)}
	}
	if f.done, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		_ = unix.Close(f.wanted)
		return nil, &CallError{"eventfd", err.(unix.Errno)}
	}
	const flags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM | unix.CLONE_SETTLS
	main := forkerMain // the value of a function is the address of its address
	pc := **(**uintptr)(unsafe.Pointer(&main))
	top := (uintptr(unsafe.Pointer(&f.stack)) + forkerStack) &^ 15
	made := make(chan error, 1)
	go func() { // on a thread that nobody has changed for itself
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		all, old := fullSigset(), unix.Sigset_t{}
		err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old)
		if err == nil {
			if _, errno := rawThread(flags, top, uintptr(unsafe.Pointer(&f.tls[1])), pc, f); errno != 0 {
				err = unix.Errno(errno)
			}
			_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
		}
		made <- err
	}()
	if err := <-made; err != nil {
		_, _ = unix.Close(f.wanted), unix.Close(f.done)
		return nil, &CallError{"clone", err.(unix.Errno)}
	}
	return f, nil
}

// rawThread is a clone(2) of a thread that calls main, a function's address, with f.
func rawThread(flags, stack, tls, main uintptr, f *forker) (tid, errno uintptr)

// forkerMain is the thread. It has no goroutine: nothing here may grow a stack, allocate, or write a pointer.
//
//go:noinline
//go:norace
//go:nosplit
func forkerMain(f *forker) {
	rawSyscall(unix.SYS_PRCTL, &[5]uintptr{unix.PR_SET_TIMERSLACK, f.slack})
	for {
		if _, errno := rawSyscall(unix.SYS_READ, &[5]uintptr{uintptr(f.wanted), uintptr(unsafe.Pointer(&f.word)), 8}); errno != 0 {
			continue
		}
		f.pid, f.errno = forkCalls(f.fork, f.calls)
		f.word = 1
		rawSyscall(unix.SYS_WRITE, &[5]uintptr{uintptr(f.done), uintptr(unsafe.Pointer(&f.word)), 8})
	}
}

// Wait waits until the process has been made and has made its calls, and says which of them failed.
func (w *Forking) Wait() (pid, pidfd int, err error) {
	f := w.f
	var word [8]byte
	_, _ = Again(func() (int, error) { return unix.Read(f.done, word[:]) })
	fork, calls, pid, errno := f.fork, f.calls, f.pid, f.errno
	f.fork, f.calls = nil, nil
	theForker.Unlock()
	return forked("clone", pid, errno, fork, calls)
}
