package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// olderTries are what a kernel that lacks something would make of a command.
var olderTries = map[string]try{"older": {2, older}}

// missing are calls that older kernels don't have.
var missing = map[string]uint32{
	"mount_setattr": unix.SYS_MOUNT_SETATTR, // before Linux 5.12
	"close_range":   unix.SYS_CLOSE_RANGE,   // before Linux 5.9
	"keyctl":        unix.SYS_KEYCTL,        // without CONFIG_KEYS
}

// older runs args[1:] on a kernel that answers ENOSYS to the calls named in args[0].
func older(args []string) error {
	var filter []unix.SockFilter
	add := func(code uint16, k uint32, jt, jf uint8) {
		filter = append(filter, unix.SockFilter{Code: code, K: k, Jt: jt, Jf: jf})
	}
	add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, 0) // seccomp_data.nr
	for _, name := range strings.Split(args[0], ",") {
		nr, ok := missing[name]
		if !ok {
			return fmt.Errorf("%w: unknown call %q", errBroken, name)
		}
		add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, nr, 0, 1)
		add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS), 0, 0)
	}
	add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0)
	path, err := exec.LookPath(args[1])
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return fmt.Errorf("%w: %w", errBroken, unix.Exec(path, args[1:], os.Environ()))
}
