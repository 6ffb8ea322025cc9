package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

// olderTries are what a kernel that lacks something would make of a command.
var olderTries = []attempts.Try{
	{Name: "older", Args: 2, Do: older},        // CALL,… COMMAND…: on a kernel that answers ENOSYS to them
	{Name: "no-userns", Args: 1, Do: noUserns}, // COMMAND…: on a host that denies user namespaces

	{Name: "no-nftables", Args: 1, Do: noNftables}, // COMMAND…: on a kernel without nftables
}

// missing are calls that older kernels don't have.
var missing = map[string]uint32{
	"mount_setattr":           unix.SYS_MOUNT_SETATTR,           // before Linux 5.12
	"close_range":             unix.SYS_CLOSE_RANGE,             // before Linux 5.9
	"keyctl":                  unix.SYS_KEYCTL,                  // without CONFIG_KEYS
	"landlock_create_ruleset": unix.SYS_LANDLOCK_CREATE_RULESET, // before Linux 5.13
}

type program []unix.SockFilter

func (p *program) add(code uint16, k uint32, jt, jf uint8) {
	*p = append(*p, unix.SockFilter{Code: code, K: k, Jt: jt, Jf: jf})
}

// noUserns runs args with every new user namespace refused, as by a sysctl.
func noUserns(args []string) error {
	var filter program
	for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		filter.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, 0) // seccomp_data.nr
		filter.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nr, 0, 3)
		filter.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 16, 0, 0) // seccomp_data.args[0]
		filter.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, unix.CLONE_NEWUSER, 0, 1)
		filter.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM), 0, 0)
	}
	filter.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0)
	return filtered(filter, args)
}

// noNftables runs args where nothing of netfilter can be configured.
func noNftables(args []string) error {
	var filter program
	filter.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, 0) // seccomp_data.nr
	filter.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.SYS_SOCKET, 0, 5)
	filter.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 16, 0, 0) // seccomp_data.args[0]
	filter.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.AF_NETLINK, 0, 3)
	filter.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 32, 0, 0) // seccomp_data.args[2]
	filter.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.NETLINK_NETFILTER, 0, 1)
	filter.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(unix.EPROTONOSUPPORT), 0, 0)
	filter.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0)
	return filtered(filter, args)
}

// older runs args[1:] on a kernel that answers ENOSYS to the calls named in args[0].
func older(args []string) error {
	var filter program
	add := filter.add
	add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, 0) // seccomp_data.nr
	for _, name := range strings.Split(args[0], ",") {
		nr, ok := missing[name]
		if !ok {
			return fmt.Errorf("%w: unknown call %q", attempts.ErrBroken, name)
		}
		add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nr, 0, 1)
		add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS), 0, 0)
	}
	add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0)
	return filtered(filter, args[1:])
}

// filtered runs a command under a filter.
func filtered(filter program, argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	return fmt.Errorf("%w: %w", attempts.ErrBroken, unix.Exec(path, argv, os.Environ()))
}
