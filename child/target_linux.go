package child

import (
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
)

// target is one process that the supervisor has asked for.
type target struct {
	*handoff.Exec
	stdio [3]int // what becomes its 0, 1 and 2
	path  string // what it executes
	pidfd int

	pty, tty int  // the two ends of its terminal, or -1
	leads    bool // a session of its own, since the init's has a terminal already

	listener   int        // of its filter, or -1
	noListener unix.Errno // why there is none although one is wanted
	tasks      uint64     // threads of this init that its RLIMIT_NPROC has room for
}

// close closes what is kept as long as the target is there.
func (t *target) close() {
	if t.tty >= 0 {
		_ = unix.Close(t.tty)
	}
}

// drop closes what was made for a target that is none.
func (t *target) drop() {
	for _, fd := range []int{t.pty, t.tty, t.pidfd, t.listener} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// start forks a target.
func (s *state) start(t *target) (pid int, failed *handoff.ExecError) {
	step, err := "chdir", fault("chdir", t.Dir, unix.Chdir(t.Dir))
	if err == nil {
		step, err = "terminal", s.terminal(t)
	}
	if err == nil {
		step = handoff.StepLookup
		t.redirect(s.instead)
		t.path, err = lookPath(t.Argv[0], t.Env)
	}
	if err == nil {
		step = "exec"
		stand(&t.stdio)
		pid, err = s.fork(t)
		stand(&[3]int{s.null, s.null, s.null})
	}
	if err == nil {
		return pid, nil
	}
	failed = &handoff.ExecError{ID: t.ID, Path: t.path, Step: step, Errno: uint32(unix.EIO)}
	switch e := err.(type) {
	case *linux.CallError:
		failed.Op, failed.Errno = e.Name, uint32(e.Errno)
		if e.Name == handoff.StepExecve {
			failed.Step = handoff.StepExecve
		}
	case *failure:
		failed.Op, failed.Path, failed.Errno = e.op, e.path, uint32(e.errno)
	case unix.Errno:
		failed.Errno = uint32(e)
	}
	return 0, failed
}

// redirect leads some of the target's environment elsewhere, where there is no overlay.
func (t *target) redirect(instead [][2]string) {
	for _, other := range instead {
		if i := slices.Index(t.Env, other[0]); i >= 0 {
			t.Env[i] = other[1]
		}
	}
}

// stand makes three descriptors 0, 1 and 2.
func stand(fds *[3]int) {
	for to, fd := range fds {
		if unix.Dup3(fd, to, 0) != nil {
			exit(125)
		}
	}
}

// fork starts the target under its filter.
func (s *state) fork(t *target) (pid int, err error) {
	for _, f := range s.filters(t) {
		if pid, t.pidfd, err = s.forkUnder(t, &f); !f.taken(err) {
			if f.listener != nil {
				t.listener = int(*f.listener)
			}
			break
		}
		t.noListener = unix.EBUSY
	}
	return pid, err
}

// forkUnder starts the target in the cgroup that it is to live in, which is not ours:
// right there, or, where clone3 is filtered as some containers do it, and in
// cgroup v1, by moving there itself.
func (s *state) forkUnder(t *target, f *filter) (pid, pidfd int, err error) {
	if s.joinDir == linux.NoCgroup {
		return linux.ForkExec(f.fork, linux.NoCgroup, s.targetCalls(t, f, s.joinProcs))
	}
	pid, pidfd, err = linux.ForkExec(f.fork, s.joinDir, s.targetCalls(t, f, nil))
	if e, ok := err.(*linux.CallError); ok && e.Name == "clone3" && e.Errno == unix.ENOSYS {
		return linux.ForkExec(f.fork, linux.NoCgroup, s.targetCalls(t, f, s.joinProcs))
	}
	return pid, pidfd, err
}

// targetCalls is everything between fork and the target's first instruction.
func (s *state) targetCalls(t *target, f *filter, groups []int) []linux.Call {
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
	// Into the cgroups, before anything that counts in them; and then these are all
	// that can be seen of cgroups.
	self := linux.CString("0")
	for _, fd := range groups {
		add("write cgroup.procs", unix.SYS_WRITE, self, uintptr(fd), uintptr(unsafe.Pointer(self)), 1)
	}
	if s.box.Namespaces&unix.CLONE_NEWCGROUP != 0 {
		add("unshare CLONE_NEWCGROUP", unix.SYS_UNSHARE, nil, unix.CLONE_NEWCGROUP)
	}
	calls = append(calls, linux.NoCapabilities())
	add("umask", unix.SYS_UMASK, nil, uintptr(s.oldUmask))
	for i := range t.Rlimits {
		l := &t.Rlimits[i]
		limit := &unix.Rlimit{Cur: l.Soft, Max: l.Hard}
		if l.Resource == unix.RLIMIT_NPROC {
			t.addOwnTasks(limit, &s.threads)
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
	if s.ruleset >= 0 {
		flags := uintptr(0)
		if s.box.Landlock.Log {
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
	exec := linux.Exec(t.path, t.Argv, t.Env)
	exec.Args[passArg] = uintptr(f.pass)
	return append(calls, exec)
}

// addOwnTasks makes room for the threads of this init, which count too, as far as
// the caller's own limit lets it.
func (t *target) addOwnTasks(limit *unix.Rlimit, own *threads) {
	var most unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NPROC, &most) != nil {
		return
	}
	own.spare()
	t.tasks = ownTasks()
	limit.Cur, limit.Max = min(limit.Cur+t.tasks, most.Max), min(limit.Max+t.tasks, most.Max)
}

// newTasks are the threads that the Go runtime has made since addOwnTasks: none, as far as
// spareThreads knows the runtime.
func (t *target) newTasks() uint32 {
	if t.tasks == 0 {
		return 0
	}
	return uint32(max(ownTasks(), t.tasks) - t.tasks)
}

// ownTasks are the threads of this init.
func ownTasks() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/task", &st) != nil || st.Nlink < 3 {
		return 1
	}
	return uint64(st.Nlink) - 2
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
