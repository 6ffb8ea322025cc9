package target

import (
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// Target is one process that the supervisor has asked for.
type Target struct {
	*handoff.Exec
	PID   int
	PIDFD int

	stdio    [3]int // what becomes its 0, 1 and 2
	path     string // what it executes
	pty, tty int    // the two ends of its terminal, or -1
	leads    bool   // a session of its own, since the init's has a terminal already

	listener   int        // of its filter, or -1
	noListener unix.Errno // why there is none although one is wanted
	tasks      uint64     // threads of this init that its RLIMIT_NPROC has room for
}

// Started tells of it, with the descriptors that go along: the first is PIDFD, the others go with the message.
func (t *Target) Started() (*handoff.Started, []int) {
	m := &handoff.Started{ID: t.ID, Path: t.path, PID: uint32(t.PID), HasPTY: t.pty >= 0, HasListener: t.listener >= 0, NoListener: uint32(t.noListener)}
	fds := []int{t.PIDFD}
	for _, fd := range [...]int{t.pty, t.listener} {
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	return m, fds
}

// HasTerminal says whether it can be stopped from one.
func (t *Target) HasTerminal() bool { return t.tty >= 0 }

// Close closes what is kept as long as the target is there.
func (t *Target) Close() {
	if t.tty >= 0 {
		_ = unix.Close(t.tty)
	}
}

// drop closes what was made for a target that is none.
func (t *Target) drop() {
	for _, fd := range [...]int{t.pty, t.tty, t.PIDFD, t.listener} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// Starter starts targets in a sandbox that is built.
type Starter struct {
	Box       *handoff.Box
	Umask     int   // the caller's
	JoinDir   int   // the cgroup v2 that they begin in, or linux.NoCgroup
	JoinProcs []int // cgroup.procs of all of their cgroups
	Ordinary  bool  // handoff.Group has it
	Ruleset   int   // Landlock's, or -1
	Null      int   // the null device, as our own 0, 1 and 2
	Threads   Threads
	// Instead is what becomes of entries of their environment.
	Instead [][2]string

	hasTTY bool // our session has a controlling terminal
}

// Start starts a target, or says why it can't be started.
func (s *Starter) Start(e *handoff.Exec, stdio [3]int) (*Target, *handoff.ExecError) {
	t := &Target{Exec: e, stdio: stdio, pty: -1, tty: -1, PIDFD: -1, listener: -1}
	step, err := handoff.StepChdir, fault.Of("chdir", t.Dir, unix.Chdir(t.Dir))
	if err == nil {
		step, err = "terminal", s.terminal(t)
	}
	if err == nil {
		step = handoff.StepLookup
		for _, other := range s.Instead {
			if i := slices.Index(t.Env, other[0]); i >= 0 {
				t.Env[i] = other[1]
			}
		}
		t.path, err = lookPath(t.Argv[0], t.Env)
	}
	if err == nil {
		step = "exec"
		stand(&t.stdio)
		err = s.fork(t)
		stand(&[3]int{s.Null, s.Null, s.Null})
	}
	if err == nil {
		return t, nil
	}
	t.drop()
	failed := &handoff.ExecError{ID: t.ID, Path: t.path, Step: step, Errno: uint32(unix.EIO)}
	switch e := err.(type) {
	case *linux.CallError:
		failed.Op, failed.Errno = e.Name, uint32(e.Errno)
		if e.Name == handoff.StepExecve {
			failed.Step = handoff.StepExecve
		}
	case *fault.Error:
		failed.Op, failed.Path, failed.Errno = e.Op, e.Path, uint32(e.Errno)
	case unix.Errno:
		failed.Errno = uint32(e)
	}
	return nil, failed
}

// Rehearse goes the way of Start with a process that ends before it is one: what code and memory that takes is there when
// somebody waits for it.
func (s *Starter) Rehearse() {
	e, err := handoff.Decode(handoff.Encode(&handoff.Exec{Argv: []string{"/"}, Dir: "/", Seccomp: make([]uint64, 1)}))
	if err != nil {
		return
	}
	t := &Target{Exec: e.(*handoff.Exec), stdio: [3]int{s.Null, s.Null, s.Null}, pty: -1, tty: -1, PIDFD: -1, listener: -1}
	t.path, _ = lookPath(t.Argv[0], t.Env)
	plain := s.filters(t)[0]
	_ = s.calls(t, &plain, s.JoinProcs)
	if pid, pidfd, err := linux.ForkExec(0, linux.NoCgroup, []linux.Call{linux.ExitAtOnce()}); err == nil {
		_ = unix.Close(pidfd)
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}
}

// stand makes three descriptors 0, 1 and 2.
func stand(fds *[3]int) {
	for to, fd := range fds {
		if unix.Dup3(fd, to, 0) != nil {
			unix.Exit(125)
		}
	}
}

// fork starts the target under its filter.
func (s *Starter) fork(t *Target) (err error) {
	for _, f := range s.filters(t) {
		if t.PID, t.PIDFD, err = s.forkUnder(t, &f); !f.taken(err) {
			if f.listener != nil {
				t.listener = int(*f.listener)
			}
			break
		}
		t.noListener = unix.EBUSY
	}
	return err
}

// forkUnder starts the target in the cgroup that it is to live in, which is not ours:
// right there, or, where clone3 is filtered as some containers do it, and in
// cgroup v1, by moving there itself.
func (s *Starter) forkUnder(t *Target, f *filter) (pid, pidfd int, err error) {
	if s.JoinDir == linux.NoCgroup {
		return linux.ForkExec(f.fork, linux.NoCgroup, s.calls(t, f, s.JoinProcs))
	}
	pid, pidfd, err = linux.ForkExec(f.fork, s.JoinDir, s.calls(t, f, nil))
	if e, ok := err.(*linux.CallError); ok && e.Name == "clone3" && e.Errno == unix.ENOSYS {
		return linux.ForkExec(f.fork, linux.NoCgroup, s.calls(t, f, s.JoinProcs))
	}
	return pid, pidfd, err
}

// calls is everything between fork and the target's first instruction.
func (s *Starter) calls(t *Target, f *filter, groups []int) []linux.Call {
	zero := uintptr(0)
	var calls []linux.Call
	add := func(name string, nr uintptr, keep any, args ...uintptr) {
		c := linux.Call{Name: name, Nr: nr, Keep: keep}
		copy(c.Args[:], args)
		calls = append(calls, c)
	}
	switch {
	case t.leads:
		add("setsid", unix.SYS_SETSID, nil)
		add("ioctl TIOCSCTTY", unix.SYS_IOCTL, nil, uintptr(t.tty), unix.TIOCSCTTY, 0)
	default:
		add("setpgid", unix.SYS_SETPGID, nil)
	}
	if t.tty >= 0 && !t.leads {
		// The terminal's foreground is ours to give. SIGTTOU is blocked, so that
		// asking from the background doesn't stop us.
		pgrp := new(int32)
		calls = append(calls, linux.Call{Name: "getpid", Nr: unix.SYS_GETPID, Result: pgrp})
		add("ioctl TIOCSPGRP", unix.SYS_IOCTL, pgrp, uintptr(t.tty), unix.TIOCSPGRP, uintptr(unsafe.Pointer(pgrp)))
	}
	if s.Ordinary {
		param := new(int32)
		add("sched_setscheduler", unix.SYS_SCHED_SETSCHEDULER, param, zero, unix.SCHED_NORMAL, uintptr(unsafe.Pointer(param)))
	}
	// Into the cgroups, before anything that counts in them; and then these are all
	// that can be seen of cgroups.
	self := linux.CString("0")
	for _, fd := range groups {
		add("write cgroup.procs", unix.SYS_WRITE, self, uintptr(fd), uintptr(unsafe.Pointer(self)), 1)
	}
	if s.Box.Has(unix.CLONE_NEWCGROUP) {
		add("unshare CLONE_NEWCGROUP", unix.SYS_UNSHARE, nil, unix.CLONE_NEWCGROUP)
	}
	calls = append(calls, linux.NoCapabilities())
	add("umask", unix.SYS_UMASK, nil, uintptr(s.Umask))
	for i := range t.Rlimits {
		l := &t.Rlimits[i]
		limit := &unix.Rlimit{Cur: l.Soft, Max: l.Hard}
		if l.Resource == unix.RLIMIT_NPROC {
			t.addOwnTasks(limit, &s.Threads)
		}
		add("prlimit64", unix.SYS_PRLIMIT64, limit, zero, uintptr(l.Resource), uintptr(unsafe.Pointer(limit)))
	}
	if len(t.CPUs) > 0 {
		set := new(unix.CPUSet)
		for _, cpu := range t.CPUs {
			set.Set(int(cpu))
		}
		add("sched_setaffinity", unix.SYS_SCHED_SETAFFINITY, set, zero, unsafe.Sizeof(*set), uintptr(unsafe.Pointer(set)))
	}
	if t.Tells {
		add("prctl PR_SET_TIMERSLACK", unix.SYS_PRCTL, nil, unix.PR_SET_TIMERSLACK, uintptr(handoff.MonitorSlack))
	}
	if s.Ruleset >= 0 {
		flags := uintptr(0)
		if t.Audit {
			flags = unix.LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON
		}
		add("landlock_restrict_self", unix.SYS_LANDLOCK_RESTRICT_SELF, nil, uintptr(s.Ruleset), flags)
	}
	unblocked := new(unix.Sigset_t)
	if !s.Box.Has(unix.CLONE_NEWPID) {
		calls = append(calls, linux.SignalDefaults(unblocked)...) // a guard ignores them
	}
	add("rt_sigprocmask", unix.SYS_RT_SIGPROCMASK, unblocked, unix.SIG_SETMASK, uintptr(unsafe.Pointer(unblocked)), 0, 8)
	// Last but one, so that nothing of ours has to be allowed by the policy
	// except execve itself.
	calls = append(calls, f.load()...)
	exec := linux.Exec(t.path, t.Argv, t.Env)
	exec.Args[passArg] = uintptr(f.pass)
	return append(calls, exec)
}

// lookPath finds the command as execvp does, inside: in the PATH that the
// target gets, in the root that it sees.
func lookPath(name string, env []string) (path string, err error) {
	if name == "" {
		return "", unix.ENOENT
	}
	if strings.IndexByte(name, '/') >= 0 {
		return name, executable(name)
	}
	list := "/usr/local/bin:/usr/bin:/bin"
	for _, e := range env {
		if after, ok := strings.CutPrefix(e, "PATH="); ok {
			list = after
		}
	}
	err = unix.ENOENT
	for more := true; more; {
		var dir string
		dir, list, more = strings.Cut(list, ":")
		if dir == "" {
			dir = "."
		}
		path = dir + "/" + name
		switch e := executable(path); e {
		case nil:
			return path, nil
		case unix.EACCES:
			err = e // found, but not executable; another one may be
		}
	}
	return name, err
}

func executable(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EACCES // a directory, a FIFO, …
	}
	return unix.Access(path, unix.X_OK)
}
