package guest

import (
	"io"
	"net"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

func withSocket(do func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	return do(fd)
}

// setFlags brings an interface up.
func setFlags(fd int, name string) error {
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return os.NewSyscallError("ioctl SIOCSIFFLAGS", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r))
}

func setAddress(fd int, request uint, name string, ip [4]byte) error {
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := r.SetInet4Addr(ip[:]); err != nil {
		return err
	}
	return os.NewSyscallError("ioctl of the address of "+name, unix.IoctlIfreq(fd, request, r))
}

// rtentry is that of linux/route.h, on 64-bit systems.
type rtentry struct {
	_             uint64
	dst, gw, mask unix.RawSockaddrInet4
	flags         uint16
	_             int16
	_             uint64
	_             uint64
	metric        int16
	_             [6]byte
	dev           uintptr
	mtu, window   uint64
	irtt          uint16
	_             [6]byte
}

func defaultRoute(fd int) error {
	any := unix.RawSockaddrInet4{Family: unix.AF_INET}
	r := rtentry{dst: any, mask: any, gw: unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: gateway}, flags: unix.RTF_UP | unix.RTF_GATEWAY}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCADDRT, uintptr(unsafe.Pointer(&r))); errno != 0 {
		return os.NewSyscallError("ioctl SIOCADDRT", errno)
	}
	return nil
}

// loopback is the guest's.
var loopback = [4]byte{127, 0, 0, 1}

// at is an address with its port.
func at(ip [4]byte, port int) string {
	return net.JoinHostPort(net.IP(ip[:]).String(), strconv.Itoa(port))
}

// relay leads a port of the guest's to another: one of its loopback to the host's, as far as the gateway outside lets it, or one that is published to its loopback.
func relay(from, to string) error {
	l, err := net.Listen("tcp4", from)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go lead(c, to)
		}
	}()
	return nil
}

func lead(c net.Conn, address string) {
	defer c.Close()
	to, err := net.Dial("tcp4", address)
	if err != nil {
		return
	}
	defer to.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(to, c)
		_ = to.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(c, to)
	_ = c.(*net.TCPConn).CloseWrite()
	<-done
}
