package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

// local are datagrams between sockets of one's own, by path and by abstract name.
func local() error {
	dir, err := os.MkdirTemp(".", "attempt") // short enough for an address
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{dir + "/s", fmt.Sprintf("@attempt-message-%d", os.Getpid())} {
		a, err1 := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		b, err2 := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err := errors.Join(err1, err2, unix.Bind(b, &unix.SockaddrUnix{Name: name})); err != nil {
			return err
		}
		if _, err := unix.SendmsgN(a, []byte("message"), unix.UnixRights(a), &unix.SockaddrUnix{Name: name}, 0); err != nil {
			return fmt.Errorf("sendmsg %s: %w", name, err)
		}
		if err := unix.Sendto(a, []byte("message"), 0, &unix.SockaddrUnix{Name: name}); err != nil {
			return fmt.Errorf("sendto %s: %w", name, err)
		}
		p := make([]byte, 16)
		for range 2 {
			if n, err := unix.Read(b, p); err != nil || string(p[:n]) != "message" {
				return fmt.Errorf("%w: %q, %v", attempts.ErrBroken, p[:max(n, 0)], err)
			}
		}
		unix.Close(b)
		_, err := unix.SendmsgN(a, []byte("x"), nil, &unix.SockaddrUnix{Name: name}, 0)
		if err := want("nobody there", err, unix.ECONNREFUSED); err != nil {
			return err
		}
	}
	a, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, none := unix.SendmsgN(a, []byte("x"), nil, &unix.SockaddrUnix{Name: dir + "/none"}, 0)
	_, folder := unix.SendmsgN(a, []byte("x"), nil, &unix.SockaddrUnix{Name: dir}, 0)
	return errors.Join(want("no file", none, unix.ENOENT), want("no socket", folder, unix.ECONNREFUSED))
}

// sizes are too many for a datagram.
func sizes() error {
	a, _, err := socketPair(unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	_, err = unix.SendmsgN(a, make([]byte, 8<<20), nil, nil, 0)
	return want("8 MiB", err, unix.EMSGSIZE)
}

// answered asks a server of datagrams, and hears it by each call.
func answered(args []string) error {
	a, err := netip.ParseAddrPort(args[0])
	if err != nil {
		return fmt.Errorf("%w: %v", attempts.ErrBroken, err)
	}
	wanted, err := sockaddr4(args[0])
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}); err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	first, second, from := make([]byte, 3), make([]byte, 61), make([]byte, 16)
	iov := []unix.Iovec{{Base: &first[0], Len: 3}, {Base: &second[0], Len: 61}}
	type mmsghdr struct {
		h unix.Msghdr
		n uint32
		_ uint32
	}
	fresh := func() *mmsghdr {
		clear(from)
		return &mmsghdr{h: unix.Msghdr{Name: &from[0], Namelen: 16, Iov: &iov[0], Iovlen: 2}}
	}
	calls := map[string]func(*mmsghdr, uintptr) (int, unix.Errno){
		"recvmsg": func(m *mmsghdr, flags uintptr) (int, unix.Errno) {
			n, _, errno := unix.Syscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.h)), flags)
			return int(n), errno
		},
		"recvmmsg": func(m *mmsghdr, flags uintptr) (int, unix.Errno) {
			n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), 1, flags, 0, 0)
			if errno == 0 && n != 1 {
				return int(n), unix.EIO
			}
			return int(m.n), errno
		},
	}
	for name, call := range calls {
		if _, errno := call(fresh(), unix.MSG_DONTWAIT); errno != unix.EAGAIN {
			return fmt.Errorf("%w: %s of nothing: %v", attempts.ErrBroken, name, errno)
		}
		if _, err := unix.SendmsgN(fd, []byte("x"), nil, to, 0); err != nil {
			return err
		}
		m := fresh()
		n, errno := call(m, 0)
		text := append(append([]byte(nil), first...), second...)
		if errno != 0 || string(text[:n]) != "good" || !bytes.Equal(from[:8], wanted[:8]) || m.h.Namelen != 16 || m.h.Flags != 0 {
			return fmt.Errorf("%w: %s: %q of %v, %v", attempts.ErrBroken, name, text[:n], from, errno)
		}
		// No room for all of it.
		if _, err := unix.SendmsgN(fd, []byte("x"), nil, to, 0); err != nil {
			return err
		}
		m = fresh()
		m.h.Iovlen = 1
		if n, errno := call(m, 0); errno != 0 || n != 3 || m.h.Flags != unix.MSG_TRUNC {
			return fmt.Errorf("%w: %s, cut: %d, %#x, %v", attempts.ErrBroken, name, n, m.h.Flags, errno)
		}
	}
	_, _, header := unix.Syscall(unix.SYS_RECVMSG, uintptr(fd), 1, unix.MSG_DONTWAIT)
	_, _, none := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), 1, 0, 0, 0, 0)
	_, _, queue := unix.Syscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&fresh().h)), unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err := errors.Join(want("a header", header, unix.EFAULT), want("the queue of errors", queue, unix.EAGAIN)); err != nil || none != 0 {
		return fmt.Errorf("of no messages: %w, %w", none, err)
	}
	fmt.Println("good")
	return nil
}
