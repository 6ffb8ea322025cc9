package child

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// start forks the target, or says why it can't be started and ends.
func (s *state) start() (pid int) {
	s.step = "exec"
	path, err := lookPath(s.plan.Argv[0], s.plan.Env)
	pidfd := -1
	if err == nil {
		pid, pidfd, err = s.fork(path)
	}
	if err == nil {
		// What the target's last steps needed.
		if linux.SetCapabilities() != nil {
			exit(125)
		}
		m := handoff.Message{Kind: handoff.KindStarted, Path: path, PID: uint32(pid), HasPIDFD: true, Errno: uint32(s.noListener)}
		fds := []int{pidfd}
		if s.listener >= 0 {
			m.HasListener, fds = true, append(fds, s.listener)
		}
		if linux.SendFrame(sock, m.Encode(), fds...) != nil {
			exit(125) // nobody could end it in time
		}
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		if s.ruleset >= 0 {
			_ = unix.Close(s.ruleset)
		}
		return pid
	}
	m := handoff.Message{Kind: handoff.KindExecError, Step: "execve", Path: path, Errno: uint32(unix.EIO)}
	switch e := err.(type) {
	case *linux.CallError:
		m.Errno = uint32(e.Errno)
		if e.Name != "execve" {
			// Not the command's fault: the last steps of the set-up.
			m.Kind, m.Step, m.Op, m.Path = handoff.KindSetupError, s.step, e.Name, ""
		}
	case unix.Errno:
		m.Errno, m.Step = uint32(e), "lookup"
	}
	_ = linux.SendFrame(sock, m.Encode())
	exit(125)
	return 0
}

// fork starts the target under its filter.
func (s *state) fork(path string) (pid, pidfd int, err error) {
	for _, f := range s.filters() {
		if pid, pidfd, err = s.forkUnder(&f, path); !f.taken(err) {
			if f.listener != nil {
				s.listener = int(*f.listener)
			}
			break
		}
		s.noListener = unix.EBUSY
	}
	return pid, pidfd, err
}

// forkUnder starts the target in the cgroup that it is to live in, which is not ours:
// right there, or, where clone3 is filtered as some containers do it, and in
// cgroup v1, by moving there itself.
func (s *state) forkUnder(f *filter, path string) (pid, pidfd int, err error) {
	if s.joinDir == linux.NoCgroup {
		return linux.ForkExec(f.fork, linux.NoCgroup, s.targetCalls(f, path, s.joinProcs))
	}
	pid, pidfd, err = linux.ForkExec(f.fork, s.joinDir, s.targetCalls(f, path, nil))
	if e, ok := err.(*linux.CallError); ok && e.Name == "clone3" && e.Errno == unix.ENOSYS {
		return linux.ForkExec(f.fork, linux.NoCgroup, s.targetCalls(f, path, s.joinProcs))
	}
	return pid, pidfd, err
}

// targetCalls is everything between fork and the target's first instruction.
func (s *state) targetCalls(f *filter, path string, groups []int) []linux.Call {
	zero := uintptr(0)
	calls := []linux.Call{
		{Name: "setpgid", Nr: unix.SYS_SETPGID},
	}
	add := func(name string, nr uintptr, keep any, args ...uintptr) {
		c := linux.Call{Name: name, Nr: nr, Keep: keep}
		copy(c.Args[:], args)
		calls = append(calls, c)
	}
	if s.ttyFD >= 0 {
		// The terminal's foreground is ours to give. SIGTTOU is blocked, so that
		// asking from the background doesn't stop us.
		pgrp := new(int32)
		calls = append(calls, linux.Call{Name: "getpid", Nr: unix.SYS_GETPID, Result: pgrp})
		add("ioctl TIOCSPGRP", unix.SYS_IOCTL, pgrp, uintptr(s.ttyFD), unix.TIOCSPGRP, uintptr(unsafe.Pointer(pgrp)))
	}
	// Into the cgroups, before anything that counts in them; and then these are all
	// that can be seen of cgroups.
	self := linux.CString("0")
	for _, fd := range groups {
		add("write cgroup.procs", unix.SYS_WRITE, self, uintptr(fd), uintptr(unsafe.Pointer(self)), 1)
	}
	if s.plan.Namespaces&unix.CLONE_NEWCGROUP != 0 {
		add("unshare CLONE_NEWCGROUP", unix.SYS_UNSHARE, nil, unix.CLONE_NEWCGROUP)
	}
	calls = append(calls, linux.NoCapabilities())
	add("umask", unix.SYS_UMASK, nil, uintptr(s.oldUmask))
	for i := range s.plan.Rlimits {
		l := &s.plan.Rlimits[i]
		limit := &unix.Rlimit{Cur: l.Soft, Max: l.Hard}
		if l.Resource == unix.RLIMIT_NPROC {
			s.addOwnTasks(limit)
		}
		add("prlimit64", unix.SYS_PRLIMIT64, limit, zero, uintptr(l.Resource), uintptr(unsafe.Pointer(limit)))
	}
	if len(s.plan.CPUs) > 0 {
		set := new(unix.CPUSet)
		for _, cpu := range s.plan.CPUs {
			set.Set(int(cpu))
		}
		add("sched_setaffinity", unix.SYS_SCHED_SETAFFINITY, set, zero, unsafe.Sizeof(*set), uintptr(unsafe.Pointer(set)))
	}
	if s.ruleset >= 0 {
		flags := uintptr(0)
		if s.plan.Landlock.Log {
			flags = unix.LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON
		}
		add("landlock_restrict_self", unix.SYS_LANDLOCK_RESTRICT_SELF, nil, uintptr(s.ruleset), flags)
	}
	unblocked := new(unix.Sigset_t)
	if !s.has(unix.CLONE_NEWPID) {
		calls = append(calls, linux.SignalDefaults(unblocked)...) // a guard ignores them
	}
	add("rt_sigprocmask", unix.SYS_RT_SIGPROCMASK, unblocked, unix.SIG_SETMASK, uintptr(unsafe.Pointer(unblocked)), 0, 8)
	// Last but one, so that nothing of ours has to be allowed by the policy
	// except execve itself.
	calls = append(calls, f.load()...)
	exec := linux.Exec(path, s.plan.Argv, s.plan.Env)
	exec.Args[passArg] = uintptr(f.pass)
	return append(calls, exec)
}

// addOwnTasks makes room for the threads of this init, which count too, as far as
// the caller's own limit lets it.
func (s *state) addOwnTasks(limit *unix.Rlimit) {
	var most unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NPROC, &most) != nil {
		return
	}
	s.ownTasks = ownTasks()
	limit.Cur, limit.Max = min(limit.Cur+s.ownTasks, most.Max), min(limit.Max+s.ownTasks, most.Max)
}

// newTasks are the threads that the Go runtime has made since addOwnTasks: seldom one,
// when none is idle to take the processor that a system call gave back.
func (s *state) newTasks() uint32 {
	if s.ownTasks == 0 {
		return 0
	}
	return uint32(max(ownTasks(), s.ownTasks) - s.ownTasks)
}

// ownTasks are the threads of this init.
func ownTasks() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/task", &st) != nil || st.Nlink < 3 {
		return 1
	}
	return uint64(st.Nlink) - 2
}
