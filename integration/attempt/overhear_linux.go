package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

// overhearTries are about datagrams of somebody else's, who sends them to whatever port there is.
var overhearTries = []attempts.Try{
	{Name: "overheard", Args: 1, Do: overheard}, // COMMAND…: which says its ports, and is sent datagrams there
	{Name: "overhear", Args: 1, Do: overhear},   // HOW: by a socket that got its port so
	{Name: "quoted", Args: 2, Do: quoted},       // BAD CALL: what an error quotes, who isn't there
}

// overheard sends to each port that the command names, and says what became of it.
func overheard(args []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return fmt.Errorf("%w: %v", attempts.ErrBroken, err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		n, err := sendTo(strings.Fields(lines.Text()))
		if err != nil {
			_ = in.Close()
			_ = cmd.Wait()
			return err
		}
		if _, err := fmt.Fprintln(in, n); err != nil {
			break // it has ended, and says why
		}
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == attempts.Refused:
		return unix.EACCES
	}
	return fmt.Errorf("%w: %v", attempts.ErrBroken, err)
}

// sendTo sends to a port of each address, and says to how many.
func sendTo(fields []string) (n int, err error) {
	if len(fields) < 2 {
		return 0, fmt.Errorf("%w: %q are no port and addresses", attempts.ErrBroken, fields)
	}
	for _, host := range fields[1:] {
		c, err := net.Dial("udp", net.JoinHostPort(host, fields[0]))
		if err != nil {
			return 0, fmt.Errorf("%w: %v", attempts.ErrBroken, err)
		}
		_, err = c.Write([]byte("overheard"))
		c.Close()
		if err != nil {
			return 0, fmt.Errorf("%w: %v", attempts.ErrBroken, err)
		}
		n++
	}
	return n, nil
}

// overhear has a socket, and hears what is sent to it: it goes on until that has come, or has
// been dropped.
func overhear(args []string) error {
	family := unix.AF_INET
	if args[0] == "six" {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	hosts := []string{"127.0.0.1", "127.0.0.2"}
	any4, any6 := &unix.SockaddrInet4{}, &unix.SockaddrInet6{}
	everything := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1}
	switch how := args[0]; how {
	case "bind":
		err = unix.Bind(fd, any4)
	case "six":
		hosts = append(hosts, "::1")
		err = unix.Bind(fd, any6)
	case "write": // to nobody, which gives it a port
		if _, err := unix.Write(fd, []byte("x")); err != unix.EDESTADDRREQ {
			return fmt.Errorf("write: %w", err)
		}
	case "detach":
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0); err != nil && err != unix.ENOENT {
			fmt.Fprintln(os.Stderr, "detach:", err)
		}
		err = unix.Bind(fd, any4)
	case "attach":
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &everything}); err != nil {
			fmt.Fprintln(os.Stderr, "attach:", err)
		}
		err = unix.Bind(fd, any4)
	default:
		return fmt.Errorf("%w: by %q", attempts.ErrBroken, how)
	}
	if err != nil {
		return err
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	fmt.Println(portOf(own), strings.Join(hosts, " "))
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return fmt.Errorf("%w: %v", attempts.ErrBroken, err)
	}
	sent, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return fmt.Errorf("%w: %v", attempts.ErrBroken, err)
	}
	return hearOrDrop(fd, sent)
}

func portOf(a unix.Sockaddr) int {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return 0
}

// hearOrDrop waits until something is heard, or all of it was dropped.
func hearOrDrop(fd, sent int) error {
	for range 2000 {
		ready, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10)
		if ready > 0 {
			b := make([]byte, 16)
			n, from, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%s from port %d\n", b[:n], portOf(from))
			return nil
		}
		var info [9]uint32 // SK_MEMINFO_DROPS is the last
		size := uint32(len(info) * 4)
		if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0); errno != 0 {
			return errno
		}
		if int(info[8]) >= sent {
			return fmt.Errorf("%d were dropped: %w", sent, unix.EACCES)
		}
	}
	return fmt.Errorf("%w: neither heard nor dropped", attempts.ErrBroken)
}

// quoted sends to somebody who isn't there until there is an error, and reads what it quotes.
func quoted(args []string) error {
	a, err := netip.ParseAddrPort(args[0])
	if err != nil {
		return fmt.Errorf("%w: %v", attempts.ErrBroken, err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_RECVERR, 1); err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}); err != nil {
		return err
	}
	poll := []unix.PollFd{{Fd: int32(fd)}}
	for range 2000 {
		_, _ = unix.Write(fd, []byte("quoted")) // it may say what became of the last
		if n, _ := unix.Poll(poll, 10); n > 0 {
			break
		}
	}
	b := make([]byte, 16)
	iov := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	m := struct {
		h unix.Msghdr
		n uint32
		_ uint32
	}{h: unix.Msghdr{Iov: &iov, Iovlen: 1}}
	const flags = unix.MSG_ERRQUEUE | unix.MSG_DONTWAIT
	var n uintptr
	var errno unix.Errno
	switch args[1] {
	case "recvfrom":
		n, _, errno = unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), flags, 0, 0)
	case "recvmsg":
		n, _, errno = unix.Syscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.h)), flags)
	case "recvmmsg":
		_, _, errno = unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m)), 1, flags, 0, 0)
		n = uintptr(m.n)
	}
	switch {
	case errno != 0:
		return fmt.Errorf("%w: %s: %v", attempts.ErrBroken, args[1], errno)
	case string(b[:n]) == "quoted":
		return nil
	case n != 0:
		return fmt.Errorf("%w: %s: %q", attempts.ErrBroken, args[1], b[:n])
	}
	return fmt.Errorf("an error that quotes nothing: %w", unix.EACCES)
}
