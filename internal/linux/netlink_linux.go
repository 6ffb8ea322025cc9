package linux

import (
	"encoding/binary"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Netlink sends whole messages to one of the kernel's netlink families and waits for
// as many of them to be acknowledged as are to be. The first that is refused is the error.
func Netlink(protocol int, messages string, acks int) error {
	if acks == 0 {
		return exchange(protocol, []byte(messages), 0, nil)
	}
	return exchange(protocol, []byte(messages), unix.MSG_DONTWAIT, func(answer []byte) (done bool, err error) {
		got, err := acknowledged(answer)
		acks -= got
		return acks <= 0, err
	})
}

// rooms are for answers, of which the kernel never fills more.
var rooms = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// exchange sends a request and gives take each datagram of the answer, until it has all. With MSG_DONTWAIT
// what isn't there yet never comes: the kernel has answered before sendto returns, but for a dump.
func exchange(protocol int, request []byte, flags int, take func(answer []byte) (done bool, err error)) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil || take == nil {
		return err
	}
	room := rooms.Get().(*[32 << 10]byte)
	defer rooms.Put(room)
	buf := room[:]
	for done := false; !done; {
		n, _, err := unix.Recvfrom(fd, buf, flags)
		if err == unix.EINTR {
			continue
		}
		if err == nil {
			done, err = take(buf[:n])
		}
		if err != nil {
			return err
		}
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

// RouteType says what kind of route (RTN_UNICAST, RTN_LOCAL, …) the kernel takes to an address, which
// has 4 or 16 bytes, for a protocol and a port there. What it has no way to is an error.
func RouteType(to []byte, protocol uint8, port uint16) (kind uint8, err error) {
	const typeOfRoute = unix.SizeofNlMsghdr + 7 // struct rtmsg's rtm_type
	family := uint8(unix.AF_INET)
	if len(to) == 16 {
		family = unix.AF_INET6
	}
	n := binary.NativeEndian
	b := make([]byte, 0, 64)
	b = append(n.AppendUint32(b, 0), make([]byte, unix.SizeofNlMsghdr-4)...)
	b = append(b, family, uint8(8*len(to)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	attribute := func(kind uint16, value ...byte) {
		b = append(n.AppendUint16(n.AppendUint16(b, uint16(4+len(value))), kind), value...)
		b = append(b, make([]byte, -len(b)&3)...)
	}
	attribute(unix.RTA_DST, to...)
	attribute(unix.RTA_IP_PROTO, protocol)
	attribute(unix.RTA_DPORT, byte(port>>8), byte(port))
	n.PutUint32(b, uint32(len(b)))
	n.PutUint16(b[4:], unix.RTM_GETROUTE)
	n.PutUint16(b[6:], unix.NLM_F_REQUEST)

	err = exchange(unix.NETLINK_ROUTE, b, unix.MSG_DONTWAIT, func(answer []byte) (done bool, err error) {
		if _, err := acknowledged(answer); err != nil {
			return true, err
		}
		if len(answer) <= typeOfRoute || n.Uint16(answer[4:]) != unix.RTM_NEWROUTE {
			return true, unix.EBADMSG
		}
		kind = answer[typeOfRoute]
		return true, nil
	})
	return kind, err
}
