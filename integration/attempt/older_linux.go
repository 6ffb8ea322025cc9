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

// load is a word of seccomp_data: 0 is the number of the call, 16 + 8·n the lower half of an argument.
func (p *program) load(at uint32) { p.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at, 0, 0) }

func (p *program) answer(what uint32) { p.add(unix.BPF_RET|unix.BPF_K, what, 0, 0) }

// refuse answers a call by errno if an argument has one of these bits.
func (p *program) refuse(nr, arg, bits uint32, errno unix.Errno) {
	p.load(0)
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nr, 0, 3)
	p.load(16 + 8*arg)
	p.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, bits, 0, 1)
	p.answer(unix.SECCOMP_RET_ERRNO | uint32(errno))
}

// noUserns runs args with every new user namespace refused, as by a sysctl.
func noUserns(args []string) error {
	var filter program
	for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		filter.refuse(nr, 0, unix.CLONE_NEWUSER, unix.EPERM)
	}
	return filtered(filter, args)
}

// noNftables runs args where nothing of netfilter can be configured.
func noNftables(args []string) error {
	var filter program
	filter.load(0)
	filter.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.SYS_SOCKET, 0, 5)
	filter.load(16)
	filter.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.AF_NETLINK, 0, 3)
	filter.load(32)
	filter.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.NETLINK_NETFILTER, 0, 1)
	filter.answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT))
	return filtered(filter, args)
}

// older runs args[1:] on a kernel that answers ENOSYS to the calls named in args[0].
func older(args []string) error {
	var filter program
	filter.load(0)
	for _, name := range strings.Split(args[0], ",") {
		nr, ok := missing[name]
		if !ok {
			return fmt.Errorf("%w: unknown call %q", attempts.ErrBroken, name)
		}
		filter.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nr, 0, 1)
		filter.answer(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
	}
	return filtered(filter, args[1:])
}

// filtered runs a command under a filter that allows the rest.
func filtered(filter program, argv []string) error {
	filter.answer(unix.SECCOMP_RET_ALLOW)
	if err := noNewPrivs(); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	return become(argv)
}

// become is a command from here on.
func become(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err == nil {
		err = unix.Exec(path, argv, os.Environ())
	}
	return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
}

// noNewPrivs is what a filter takes, on a thread that is ours from here on.
func noNewPrivs() error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: %w", attempts.ErrBroken, err)
	}
	return nil
}

// listen loads a filter that has a listener, and allows the rest.
func listen(filter program) (fd int, err error) {
	filter.answer(unix.SECCOMP_RET_ALLOW)
	if err := noNewPrivs(); err != nil {
		return -1, err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	n, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}
