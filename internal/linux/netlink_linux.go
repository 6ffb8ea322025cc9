package linux

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Netlink sends whole messages to one of the kernel's netlink families and waits for
// as many of them to be acknowledged as are to be. The first that is refused is the error.
func Netlink(protocol int, messages string, acks int) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, []byte(messages), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	// The kernel has answered before sendto returns: nothing to come is nothing more.
	buf := make([]byte, 16<<10)
	for acks > 0 {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		got, err := acknowledged(buf[:n])
		if err != nil {
			return err
		}
		acks -= got
	}
	return nil
}

// acknowledged counts what messages of netlink acknowledge; one that refuses is an error.
func acknowledged(b []byte) (acks int, err error) {
	for len(b) >= unix.SizeofNlMsghdr {
		h := (*unix.NlMsghdr)(unsafe.Pointer(&b[0]))
		size := int(h.Len)
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return 0, unix.EBADMSG
		}
		if h.Type == unix.NLMSG_ERROR {
			if size < unix.SizeofNlMsghdr+4 {
				return 0, unix.EBADMSG
			}
			if errno := -*(*int32)(unsafe.Pointer(&b[unix.SizeofNlMsghdr])); errno != 0 {
				return 0, unix.Errno(errno)
			}
			acks++
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return acks, nil
}
