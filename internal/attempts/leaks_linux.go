package attempts

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// leakTries are what of the caller could be left lying about, and what privileges there could be.
var leakTries = []Try{
	{"inherited", 0, inherited},   // is a descriptor open beyond the three streams?
	{"variable", 1, variable},     // NAME: is it in the environment?
	{"segment", 1, segment},       // KEY: shared memory of System V
	{"memory", 1, memory},         // PID: /proc/PID/mem
	{"environ", 1, environ},       // PID: /proc/PID/environ
	{"rootof", 2, rootOf},         // PID FILE: by way of its root
	{"signal", 1, signalTo},       // PID: one that does it no harm
	{"capable", 0, capable},       // of anything
	{"gains", 0, gains},           // may execve give privileges?
	{"suid", 1, suid},             // FILE: a copy of this program with a set-id bit
	{"changed", 0, changed},       // is this process somebody else than who started it?
	{"remount", 1, remount},       // DIR, so that it can be written
	{"joincgroup", 0, joinCgroup}, // another cgroup than the own, or a new one

	{"tty", 0, func([]string) error { return opens("/dev/tty", unix.O_RDWR) }}, // a controlling terminal
}

func inherited([]string) error {
	open, err := openFDs()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(open, func(n int) bool { return n > 2 })
	if at < 0 {
		return fmt.Errorf("none but 0, 1, 2: %w", unix.EBADF)
	}
	to, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(open[at]))
	fmt.Println(open[at], to)
	return nil
}

func variable(args []string) error {
	if os.Getenv(args[0]) == "" {
		return fmt.Errorf("%s is not set", args[0])
	}
	return nil
}

func segment(args []string) error {
	id, err := unix.SysvShmGet(int(Number(args[0])), 0, 0)
	if err != nil {
		return during("shmget", err)
	}
	b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return during("shmat", err)
	}
	return unix.SysvShmDetach(b)
}

// withPID is for what is done to another process: "parent", "child", which is one
// that is started for it, or a number.
func withPID(word string, do func(pid int) error) error {
	switch word {
	case "parent":
		return do(os.Getppid())
	case "child":
		return withChild(do)
	}
	return do(int(Number(word)))
}

// withChild starts this program once more, and waits until it says so: what is being executed has no environment yet.
func withChild(do func(pid int) error) error {
	cmd := again("awake", "20")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return do(cmd.Process.Pid)
}

// memory: the kernel checks at the open.
func memory(args []string) error {
	return withPID(args[0], func(pid int) error { return opens(fmt.Sprintf("/proc/%d/mem", pid), unix.O_RDWR) })
}

func environ(args []string) error {
	return withPID(args[0], func(pid int) error {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && len(b) == 0 {
			return io.ErrUnexpectedEOF
		}
		return err
	})
}

func rootOf(args []string) error {
	return withPID(args[0], func(pid int) error { return read(fmt.Sprintf("/proc/%d/root%s", pid, args[1])) })
}

func signalTo(args []string) error {
	return withPID(args[0], func(pid int) error { return unix.Kill(pid, unix.SIGCONT) })
}

// own is a line of /proc/self/status.
func own(key string) (string, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrBroken, err)
	}
	for line := range strings.Lines(string(b)) {
		if k, v, _ := strings.Cut(line, ":"); k == key {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("%w: no %s in /proc/self/status", ErrBroken, key)
}

func capable([]string) error {
	for _, set := range []string{"CapPrm", "CapEff", "CapInh", "CapAmb"} {
		v, err := own(set)
		if err != nil {
			return err
		}
		if strings.Trim(v, "0") != "" {
			fmt.Println(set, v)
			return nil
		}
	}
	return fmt.Errorf("every set is empty: %w", unix.EPERM)
}

func gains([]string) error {
	v, err := own("NoNewPrivs")
	if err == nil && v != "0" {
		err = fmt.Errorf("NoNewPrivs is %s: %w", v, unix.EPERM)
	}
	return err
}

func suid(args []string) error {
	return unix.Exec(args[0], append(append([]string{args[0]}, Self...), "changed"), os.Environ())
}

func changed([]string) error {
	if os.Geteuid() == os.Getuid() && os.Getegid() == os.Getgid() {
		return fmt.Errorf("still uid %d: %w", os.Geteuid(), unix.EPERM)
	}
	return nil
}

// remount asks for what the mount has, but for ro: the other flags may be locked.
func remount(args []string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(args[0], &st); err != nil {
		return err
	}
	flags := uintptr(unix.MS_REMOUNT | unix.MS_BIND)
	for _, f := range [...][2]int64{
		{unix.ST_NOSUID, unix.MS_NOSUID}, {unix.ST_NODEV, unix.MS_NODEV}, {unix.ST_NOEXEC, unix.MS_NOEXEC},
		{unix.ST_NOATIME, unix.MS_NOATIME}, {unix.ST_NODIRATIME, unix.MS_NODIRATIME}, {unix.ST_RELATIME, unix.MS_RELATIME},
	} {
		if st.Flags&f[0] != 0 {
			flags |= uintptr(f[1])
		}
	}
	return unix.Mount("", args[0], "", flags, "")
}

// joinCgroup tries the root of what is shown as well as what is above the own.
func joinCgroup([]string) error {
	const root = "/sys/fs/cgroup"
	var last error
	for _, dir := range []string{root, root + "/unified", root + "/memory", root + "/pids", "/proc/1/root" + root, "/proc/self/root" + root} {
		f, err := os.OpenFile(dir+"/cgroup.procs", os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString("0")
			_ = f.Close()
		}
		if err == nil {
			return nil
		}
		last = err
		name := fmt.Sprintf("%s/attempt-%d", dir, os.Getpid())
		if err = syscall.Mkdir(name, 0o755); err == nil {
			return os.Remove(name)
		}
	}
	return last
}
