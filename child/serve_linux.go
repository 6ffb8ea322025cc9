package child

import (
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/child/internal/network"
	"github.com/confine-run/confine/child/internal/target"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// serve is the life of PID 1 once the sandbox is built: it starts what the supervisor asks for, until
// that closes the sandbox or is gone.
func (s *state) serve() {
	s.starter.Instead = s.root.Instead
	s.targets, s.children = make(map[int]*target.Target), make(chan struct{}, 1)
	var err error
	if s.starter.Null, err = unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, sock+1); err != nil {
		exit(125)
	}
	for {
		s.rest()
		frame, fds, err := linux.ReceiveFrame(sock)
		if err != nil { // the supervisor is gone: the kernel ends everybody with an init, and a guard does
			s.mu.Lock()
			if !s.box.Has(unix.CLONE_NEWPID) {
				s.killRest()
				s.tidy()
			}
			exit(125)
		}
		f, err := handoff.Decode(frame)
		if err != nil {
			exit(125)
		}
		switch f := f.(type) {
		case *handoff.Exec:
			pidfd, only := s.exec(f, fds), f.Last && s.box.Has(unix.CLONE_NEWPID)
			switch {
			case only: // nothing more is sent, and the supervisor's death is ours: one thread is enough
				if !endsSoon(pidfd) {
					linux.ForgetImage()
				}
				_ = unix.Close(pidfd)
				s.reap()
			case !s.reaping && !s.endsAlone(pidfd):
				s.reaping = true
				runtime.GOMAXPROCS(2) // neither waits until the runtime's monitor sees that the other does
				go s.reap()
			}
			_ = unix.Close(pidfd)
			s.used = true
		case *handoff.Ping:
			s.starter.Rehearse()
			s.mu.Lock()
			err := linux.SendFrame(sock, frame)
			s.mu.Unlock()
			if err != nil {
				exit(125)
			}
		case *handoff.Close:
			s.mu.Lock()
			s.close()
		default:
			exit(125)
		}
	}
}

// exec starts one process, or says why it can't be started: then there is no pidfd.
func (s *state) exec(e *handoff.Exec, fds []int) (pidfd int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer linux.CloseAll(fds)
	var stdio [3]int
	if rest := len(fds) - len(stdio); rest < 0 || rest > 1 || (rest == 1) != e.Tells {
		exit(125)
	}
	if copy(stdio[:], fds); e.Tells {
		tells := fds[len(stdio)]
		e.Env = append([]string{handoff.TellsVar + "=" + strconv.Itoa(tells)}, e.Env...) // the first of a name counts
		if _, err := unix.FcntlInt(uintptr(tells), unix.F_SETFD, 0); err != nil {        // its copy goes to the process; ours is closed below
			exit(125)
		}
	}
	t, failed := s.starter.Start(e, stdio)
	if e.Last && linux.SetCapabilities(0) != nil { // what the last steps of a target need
		exit(125)
	}
	if failed != nil {
		if linux.SendFrame(sock, handoff.Encode(failed)) != nil || e.Last {
			exit(125)
		}
		return -1
	}
	m, out := t.Started()
	if linux.SendFrame(sock, handoff.Encode(m), out...) != nil {
		exit(125) // nobody could end it in time
	}
	linux.CloseAll(out[1:])
	s.targets[t.PID] = t
	if e.Last && s.starter.Ruleset >= 0 {
		_ = unix.Close(s.starter.Ruleset)
	}
	select {
	case s.children <- struct{}{}:
	default:
	}
	return t.PIDFD
}

// endsSoon says whether a process ends within some milliseconds. Then memory isn't worth giving back: that takes a
// fortieth of the run's CPU.
func endsSoon(pidfd int) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, soon)
	return n > 0
}

// endsAlone says whether the first processes of a sandbox that are started end at once, and leave nobody. Then they were reaped
// here, and nothing more is needed: to hand that over to another thread takes as long as such a process itself.
func (s *state) endsAlone(pidfd int) bool {
	if pidfd < 0 {
		return true // it was not started
	}
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}, {Fd: sock, Events: unix.POLLIN}}
	wait := unix.Timespec{Nsec: soon * 1e6}
	_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)), uintptr(unsafe.Pointer(&wait)), 0, 0, 0)
	if fds[0].Revents == 0 {
		return false
	}
	for {
		var status unix.WaitStatus
		var used unix.Rusage
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, &used)
		switch {
		case err == unix.ECHILD:
			return true
		case err != nil || pid <= 0:
			return false
		}
		s.mu.Lock()
		s.waited(pid, status, &used)
		s.mu.Unlock()
	}
}

// rest gives memory back when the supervisor wants nothing for a moment.
func (s *state) rest() {
	if !s.used {
		return
	}
	fds := []unix.PollFd{{Fd: sock, Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, restAfter); n == 0 && err == nil {
		linux.ForgetImage()
		s.used = false
	}
}

// soon is what counts as at once, and restAfter how long the supervisor wants nothing for a moment, in ms.
const soon, restAfter = 5, 100

// reap waits for everybody, and tells of each target that is stopped or gone.
func (s *state) reap() {
	for {
		var status unix.WaitStatus
		var used unix.Rusage
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED, &used)
		switch err {
		case nil:
			s.mu.Lock()
			s.waited(pid, status, &used)
			s.mu.Unlock()
		case unix.EINTR:
		case unix.ECHILD:
			<-s.children
		default:
			exit(125)
		}
	}
}

// waited tells of a target, and closes the sandbox after the last one. The lock is held: a target that ends
// at once is told of after its start.
func (s *state) waited(pid int, status unix.WaitStatus, used *unix.Rusage) {
	t := s.targets[pid]
	if t == nil {
		return // somebody's orphan
	}
	if status.Stopped() {
		if t.HasTerminal() {
			_ = linux.SendFrame(sock, handoff.Encode(&handoff.Stopped{ID: t.ID, Signal: uint32(status.StopSignal())}))
		}
		return
	}
	delete(s.targets, pid)
	t.Close()
	m := handoff.Exited{ID: t.ID, WaitStatus: uint32(status), Used: usage(used), InitTasks: t.NewTasks(), Astray: network.Astray(s.box, status)}
	if !t.Last {
		m.Left = leftBehind(pid)
	}
	if t.CountTasks && s.box.Has(unix.CLONE_NEWPID) {
		m.LastPID = lastPID()
	}
	_ = linux.SendFrame(sock, handoff.Encode(&m))
	if t.Last {
		s.close()
	}
}

// leftBehind says whether a target that was waited for has left somebody behind, who is a child of the init's now.
func leftBehind(pid int) uint32 {
	const look = unix.WEXITED | unix.WNOHANG | unix.WNOWAIT
	switch {
	case unix.Waitid(unix.P_PGID, pid, nil, look, nil) == nil:
		return handoff.LeftSome
	case unix.Waitid(unix.P_ALL, 0, nil, look|unix.WALL, nil) == nil:
		return handoff.LeftMaybe
	}
	return handoff.LeftNone // ECHILD
}

// close ends whoever is left, says what all of them used, and ends the init. The lock is held.
func (s *state) close() {
	s.killRest()
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &used)
	if linux.SendFrame(sock, handoff.Encode(&handoff.Closed{Used: usage(&used)})) != nil {
		s.tidy()
	}
	if s.bounds.Group.Linger {
		linger()
	}
	_ = unix.Shutdown(sock, unix.SHUT_RDWR) // its own end would come after that of the namespaces
	exit(0)
}

// lastPID is the number that was given last in this pid namespace, which loadavg tells to whoever is in it; 0: it can't be read.
func lastPID() (last uint64) {
	fd, err := unix.Open("/proc/loadavg", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0
	}
	var text [128]byte
	n, err := unix.Read(fd, text[:])
	if _ = unix.Close(fd); err != nil {
		return 0
	}
	for _, c := range text[:n] {
		switch {
		case c == ' ':
			last = 0
		case c >= '0' && c <= '9':
			last = 10*last + uint64(c-'0')
		}
	}
	return last
}

// usage is what the kernel has counted.
func usage(r *unix.Rusage) handoff.Usage {
	const block = 512 // of ru_inblock and ru_oublock
	var own unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &own)
	return handoff.Usage{
		UserUS:   r.Utime.Nano() / 1000,
		SystemUS: r.Stime.Nano() / 1000,
		MaxRSS:   r.Maxrss * 1024,
		// execve keeps the high-water mark of the memory that the target was forked in.
		RSSAtMost:  r.Maxrss <= own.Maxrss,
		Switches:   r.Nvcsw + r.Nivcsw,
		ReadBytes:  r.Inblock * block,
		WriteBytes: r.Oublock * block,
	}
}

// patience bounds how long an init waits for a supervisor that doesn't get its turn.
const patience = 2000 // ms

// linger waits until the outside has read what there is to be read.
func linger() {
	fds := []unix.PollFd{{Fd: sock, Events: unix.POLLRDHUP}}
	_, _ = linux.Again(func() (int, error) { return unix.Poll(fds, patience) })
}

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

// defaultSignals gives every signal its default action. The kernel delivers no
// signal with a default action to a namespace's init from inside; one with a
// handler, such as those that the Go runtime installs, it would, and SIGQUIT would
// end us with a stack dump.
//
// None of those that kill may be blocked on this thread, the group's leader: a
// blocked signal is not dropped when it is sent, and the kernel then gives it to
// another of our threads, where its default action ends all of them, init or not.
func defaultSignals(box *handoff.Box) error {
	// struct kernel_sigaction: SIG_DFL, no flags, no mask.
	var action [4]uint64
	for n := 1; n <= 64; n++ {
		if unix.Signal(n) == unix.SIGKILL || unix.Signal(n) == unix.SIGSTOP {
			continue
		}
		// A guard has nothing but this against the target's signals.
		if action[0] = sigDefault; !box.Has(unix.CLONE_NEWPID) && unix.Signal(n) != unix.SIGCHLD {
			action[0] = sigIgnore
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		if errno != 0 {
			return fault.Of("rt_sigaction", "", errno)
		}
	}
	// Blocked for the target's sake, which asks for its terminal before its execve.
	mask := unix.Sigset_t{Val: [16]uint64{1 << (unix.SIGTTOU - 1)}}
	return fault.Of("rt_sigprocmask", "", unix.PthreadSigmask(unix.SIG_SETMASK, &mask, nil))
}

// The handlers that are none.
const sigDefault, sigIgnore = 0, 1
