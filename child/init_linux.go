package child

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// defaultSignals gives every signal its default action. The kernel delivers no
// signal with a default action to a namespace's init from inside; one with a
// handler, such as those that the Go runtime installs, it would, and SIGQUIT would
// end us with a stack dump.
//
// None of those that kill may be blocked on this thread, the group's leader: a
// blocked signal is not dropped when it is sent, and the kernel then gives it to
// another of our threads, where its default action ends all of them, init or not.
func (s *state) defaultSignals() error {
	// struct kernel_sigaction: SIG_DFL, no flags, no mask.
	var action [4]uint64
	for n := 1; n <= 64; n++ {
		if unix.Signal(n) == unix.SIGKILL || unix.Signal(n) == unix.SIGSTOP {
			continue
		}
		// A guard has nothing but this against the target's signals.
		if action[0] = sigDefault; !s.has(unix.CLONE_NEWPID) && unix.Signal(n) != unix.SIGCHLD {
			action[0] = sigIgnore
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		if errno != 0 {
			return fault("rt_sigaction", "", errno)
		}
	}
	// Blocked for the target's sake, which asks for its terminal before its execve.
	mask := unix.Sigset_t{Val: [16]uint64{1 << (unix.SIGTTOU - 1)}}
	return fault("rt_sigprocmask", "", unix.PthreadSigmask(unix.SIG_SETMASK, &mask, nil))
}

// wait is the life of PID 1: it reaps until the target is gone, then ends
// everything else, and says what all of it used.
func (s *state) wait(target int) {
	options := 0
	if s.ttyFD >= 0 {
		options = unix.WUNTRACED
	}
	var status unix.WaitStatus
	linux.ForgetData()
	for {
		pid, err := unix.Wait4(-1, &status, options, nil)
		if err == unix.EINTR || pid != target && err == nil {
			continue
		}
		if err == unix.ECHILD && !s.has(unix.CLONE_NEWPID) {
			// The supervisor is gone, and what the guard does then (see guard) has
			// reaped the target, too. It ends this process when all is put away.
			select {}
		}
		if err != nil {
			exit(125) // can't be: the target is our child
		}
		if !status.Stopped() {
			break
		}
		m := handoff.Message{Kind: handoff.KindStopped, Number: uint32(status.StopSignal())}
		_ = linux.SendFrame(sock, m.Encode())
	}
	s.killRest()
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &used)
	var own unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &own)
	m := handoff.Message{
		Kind:       handoff.KindExited,
		WaitStatus: uint32(status),
		UserUS:     used.Utime.Nano() / 1000,
		SystemUS:   used.Stime.Nano() / 1000,
		MaxRSS:     used.Maxrss * 1024,
		// execve keeps the high-water mark of the memory that the target was forked in.
		RSSAtMost:  used.Maxrss <= own.Maxrss,
		Switches:   used.Nvcsw + used.Nivcsw,
		ReadBytes:  used.Inblock * rusageBlock,
		WriteBytes: used.Oublock * rusageBlock,
		InitTasks:  s.newTasks(),
		Astray:     s.astray(status),
	}
	if linux.SendFrame(sock, m.Encode()) != nil {
		s.tidy()
	}
	if s.plan.Linger {
		linger()
	}
	exit(0)
}

// patience bounds how long an init waits for a supervisor that doesn't get its turn.
const patience = 2000 // ms

// linger waits until the outside has read what there is to be read.
func linger() {
	fds := []unix.PollFd{{Fd: sock, Events: unix.POLLRDHUP}}
	for {
		if _, err := unix.Poll(fds, patience); err != unix.EINTR {
			return
		}
	}
}

// The handlers that are none.
const sigDefault, sigIgnore = 0, 1

// rusageBlock is the unit of ru_inblock and ru_oublock.
const rusageBlock = 512

// killRest ends whatever the target left, and reaps it so that its usage counts.
func (s *state) killRest() {
	for {
		s.killAll()
		// One at least, and then whoever else has ended by now.
		pid, err := unix.Wait4(-1, nil, unix.WALL, nil)
		for err == nil && pid > 0 {
			pid, err = unix.Wait4(-1, nil, unix.WALL|unix.WNOHANG, nil)
		}
		if err != nil && err != unix.EINTR {
			return // ECHILD: nobody is left
		}
	}
}
