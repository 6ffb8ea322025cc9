package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

var faultTries = []attempts.Try{
	{Name: "asked", Args: 2, Do: asked},         // CALL,… COMMAND…: its calls of these numbers are asked about by way of descriptor 3
	{Name: "contained", Args: 2, Do: contained}, // SECRET PORT: prints "ran", and then whatever doesn't hold
}

// asked runs args[1:] with a filter that asks whoever holds the other end of
// descriptor 3 about each call whose number is in args[0].
func asked(args []string) error {
	var filter []unix.SockFilter
	add := func(code uint16, k uint32, jt, jf uint8) {
		filter = append(filter, unix.SockFilter{Code: code, K: k, Jt: jt, Jf: jf})
	}
	// Out of the way: what this program itself does with it is nobody's business.
	const channel = 1000
	if err := unix.Dup3(3, channel, unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("%w: dup3: %w", attempts.ErrBroken, err)
	}
	unix.CloseOnExec(3)
	add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 16, 0, 0) // seccomp_data.args[0], the lower half
	add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, channel, 0, 1)
	add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0)
	add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, 0) // seccomp_data.nr
	list, err := attempts.Numbers(strings.Split(args[0], ","))
	if err != nil {
		return err
	}
	for _, nr := range list {
		add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(nr), 0, 1)
		add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_USER_NOTIF, 0, 0)
	}
	add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0)
	path, err := exec.LookPath(args[1])
	if err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("%w: seccomp: %w", attempts.ErrBroken, errno)
	}
	if err := unix.Sendmsg(channel, []byte{0}, unix.UnixRights(int(fd)), nil, 0); err != nil {
		return fmt.Errorf("%w: sendmsg: %w", attempts.ErrBroken, err)
	}
	return fmt.Errorf("%w: %w", attempts.ErrBroken, unix.Exec(path, args[1:], os.Environ()))
}

// contained looks whether the walls stand, each by itself, in as few calls as can be.
func contained(args []string) error {
	fmt.Println("ran")
	secret, port := args[0], args[1]
	var wrong []string
	hold := func(ok bool, what string, more ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(what, more...))
		}
	}
	self, err := os.ReadFile("/proc/self/status")
	hold(err == nil, "status: %v", err)
	for line := range strings.Lines(string(self)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); key {
		case "NoNewPrivs":
			hold(value == "1", "NoNewPrivs %s", value)
		case "Seccomp_filters":
			hold(value != "0", "Seccomp_filters %s", value)
		case "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
			hold(value == "0000000000000000", "%s %s", key, value)
		}
	}
	_, err = os.Stat(secret)
	hold(errors.Is(err, os.ErrNotExist), "stat of the caller's file: %v", err)
	for _, path := range []string{"/usr/bin/x", "/etc/x", "/x"} {
		err = os.WriteFile(path, nil, 0o600)
		hold(errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM), "write %s: %v", path, err)
	}
	if c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second); err == nil {
		c.Close()
		hold(false, "the caller's loopback")
	}
	first, err := os.ReadFile("/proc/1/cmdline")
	hold(err == nil && strings.HasSuffix(string(first), "__child\x00"), "PID 1: %q, %v", first, err)
	host, err := os.Hostname()
	hold(err == nil && host == "confine", "hostname %q, %v", host, err)
	fds, err := filepath.Glob("/proc/self/fd/*")
	hold(err == nil, "descriptors: %v", err)
	for _, fd := range fds {
		to, err := os.Readlink(fd)
		if n, _ := strconv.Atoi(filepath.Base(fd)); strings.HasPrefix(to, "/sys/fs/cgroup/") {
			flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0)
			hold(err == nil && flags&unix.FD_CLOEXEC != 0, "descriptor %s, inherited: %s", fd, to)
			continue // the Go runtime's own
		}
		hold(err != nil || slices.Contains([]string{"0", "1", "2"}, filepath.Base(fd)) || strings.HasPrefix(to, "anon_inode:[event"),
			"descriptor %s: %s", fd, to)
	}
	err = unix.Unshare(unix.CLONE_NEWUSER)
	hold(err != nil, "a user namespace of its own")
	var core unix.Rlimit
	err = unix.Getrlimit(unix.RLIMIT_CORE, &core)
	hold(err == nil && core.Max == 1, "core limit: %v, %v", core, err)
	for _, what := range wrong {
		fmt.Println("wrong:", what)
	}
	if len(wrong) > 0 {
		os.Exit(attempts.Refused)
	}
	return nil
}
