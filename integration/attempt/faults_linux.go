package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

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
	// Out of the way: what this program itself does with it is nobody's business.
	const channel = 1000
	if err := unix.Dup3(3, channel, unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("%w: dup3: %w", attempts.ErrBroken, err)
	}
	unix.CloseOnExec(3)
	var filter program
	filter.load(16)
	filter.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, channel, 0, 1)
	filter.answer(unix.SECCOMP_RET_ALLOW)
	filter.load(0)
	for _, nr := range attempts.Numbers(strings.Split(args[0], ",")) {
		filter.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(nr), 0, 1)
		filter.answer(unix.SECCOMP_RET_USER_NOTIF)
	}
	fd, err := listen(filter)
	if err != nil {
		return fmt.Errorf("%w: seccomp: %w", attempts.ErrBroken, err)
	}
	if err := unix.Sendmsg(channel, []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("%w: sendmsg: %w", attempts.ErrBroken, err)
	}
	return become(args[1:])
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
