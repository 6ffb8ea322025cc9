package child

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// defaultSignals gives every signal its default action, and blocks all of them
// on this thread. The kernel delivers no signal with a default action to a
// namespace's init from inside; one with a handler, such as those that the Go
// runtime installs, it would, and SIGQUIT would end us with a stack dump.
func (s *state) defaultSignals() error {
	// struct kernel_sigaction: SIG_DFL, no flags, no mask.
	var action [4]uint64
	for n := 1; n <= 64; n++ {
		if unix.Signal(n) == unix.SIGKILL || unix.Signal(n) == unix.SIGSTOP {
			continue
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		if errno != 0 {
			return fault("rt_sigaction", "", errno)
		}
	}
	all := unix.Sigset_t{}
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	return fault("rt_sigprocmask", "", unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil))
}

// listen starts to hear the supervisor.
func (s *state) listen() error {
	go s.serve()
	return nil
}

// wait is the life of PID 1: it reaps until the target is gone, then ends
// everything else, and says what all of it used.
func (s *state) wait(target int) {
	s.target.Store(int32(target))
	options := 0
	if s.ttyFD >= 0 {
		options = unix.WUNTRACED
	}
	var status unix.WaitStatus
	for {
		pid, err := unix.Wait4(-1, &status, options, nil)
		if err == unix.EINTR || pid != target && err == nil {
			continue
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
	killRest()
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &used)
	m := handoff.Message{
		Kind:       handoff.KindExited,
		WaitStatus: uint32(status),
		UserUS:     used.Utime.Nano() / 1000,
		SystemUS:   used.Stime.Nano() / 1000,
		MaxRSS:     used.Maxrss * 1024,
	}
	_ = linux.SendFrame(sock, m.Encode())
	exit(0)
}

// killRest ends whatever the target left, and reaps it so that its usage counts.
func killRest() {
	for {
		_ = unix.Kill(-1, unix.SIGKILL)
		_, err := unix.Wait4(-1, nil, unix.WALL, nil)
		if err != nil && err != unix.EINTR {
			return // ECHILD: nobody is left
		}
	}
}

// serve passes on what the supervisor says. Its silence for ever, the end of the
// stream, means that it died: so do we, and the namespace with us.
func (s *state) serve() {
	for {
		frame, _, err := linux.ReceiveFrame(sock)
		if err != nil {
			exit(125)
		}
		m, err := handoff.DecodeMessage(frame)
		if err != nil {
			exit(125)
		}
		// There is no target yet, or it is gone and the namespace with it soon.
		target := int(s.target.Load())
		if m.Kind != handoff.KindSignal || target == 0 {
			continue
		}
		n := unix.Signal(m.Number)
		if unix.Kill(-target, n) != nil {
			_ = unix.Kill(target, n)
		}
	}
}
