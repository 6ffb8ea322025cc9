package audit

import (
	"encoding/binary"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Why nothing is read.
var (
	ErrOff    = errors.New("audit is off")
	ErrOld    = errors.New("before Linux 6.15 nothing is logged")
	ErrDenied = errors.New("it takes CAP_AUDIT_READ in the initial user namespace, and the initial pid namespace")
)

const (
	readlog     = 1 << 0 // AUDIT_NLGRP_READLOG, as a mask of groups
	auditGet    = 1000   // AUDIT_GET
	minABI      = 7
	initialPIDs = "pid:[4026531836]" // PROC_PID_INIT_INO
	header      = unix.SizeofNlMsghdr
)

// Reader hears of denials. A nil one hears of none.
type Reader struct {
	file *os.File
	done chan struct{}
}

// Subscribe begins to listen; what is heard waits until Read.
func Subscribe() (*Reader, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < minABI {
		return nil, ErrOld
	}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err != nil || ns != initialPIDs {
		return nil, ErrDenied
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_AUDIT)
	if err != nil {
		return nil, ErrDenied
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: readlog}); err != nil {
		_ = unix.Close(fd)
		return nil, ErrDenied
	}
	if on, err := enabled(); err == nil && !on {
		_ = unix.Close(fd)
		return nil, ErrOff
	}
	return &Reader{os.NewFile(uintptr(fd), "audit"), make(chan struct{})}, nil
}

// enabled asks for the settings, which takes CAP_AUDIT_CONTROL.
func enabled() (bool, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_AUDIT)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	return ask(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// ask asks whoever is at to.
func ask(fd int, to unix.Sockaddr) (on bool, err error) {
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return false, err
	}
	request := make([]byte, header)
	binary.NativeEndian.PutUint32(request, header)
	binary.NativeEndian.PutUint16(request[4:], auditGet)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST)
	if err := unix.Sendto(fd, request, 0, to); err != nil {
		return false, err
	}
	reply := make([]byte, 512)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil || n < header+8 || binary.NativeEndian.Uint16(reply[4:]) != auditGet {
		return false, errors.Join(err, errors.New("no settings"))
	}
	return binary.NativeEndian.Uint32(reply[header+4:]) != 0, nil // struct audit_status: mask, enabled
}

// Read tells of the denials of the domain that a process made, from the subscription on.
func (r *Reader) Read(ours func(pid int) bool, tell func(Denial)) {
	go func() {
		defer close(r.done)
		m := matcher{ours: ours, domains: map[string]bool{}, waiting: map[string][]Denial{}}
		b := make([]byte, 16<<10)
		for {
			n, err := r.file.Read(b)
			if errors.Is(err, unix.ENOBUFS) {
				continue // some were lost
			}
			if err != nil {
				return
			}
			if n <= header {
				continue
			}
			// The length in the header is not always the message's.
			for _, d := range m.take(binary.NativeEndian.Uint16(b[4:]), string(b[header:n])) {
				tell(d)
			}
		}
	}()
}

// linger is how long records of the last moment are waited for: the kernel sends them
// from a thread of its own.
const linger = 50 * time.Millisecond

// Close ends it, once what is there has been read. Read must have been called.
func (r *Reader) Close() {
	if r == nil {
		return
	}
	_ = r.file.SetReadDeadline(time.Now().Add(linger))
	<-r.done
	_ = r.file.Close()
}

// Discard ends one that was not read.
func (r *Reader) Discard() {
	if r != nil {
		_ = r.file.Close()
	}
}
