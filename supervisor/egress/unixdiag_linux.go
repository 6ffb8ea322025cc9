package egress

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// unixSocket is one of the host's, as the kernel lists them (sock_diag(7)).
type unixSocket struct {
	kind, state uint8
	cookie      uint64
	name        []byte
	file        bool // it was bound to one:
	ino, dev    uint32
}

const (
	established = 1 // TCP_ESTABLISHED, which unix sockets use, too

	sockDiagByFamily = 20
	sizeofDiag       = 16 // struct unix_diag_msg
	diagName         = 0  // UNIX_DIAG_NAME
	diagVFS          = 1
	showNameAndVFS   = 1<<diagName | 1<<diagVFS
)

var errShort = os.NewSyscallError("sock_diag", unix.EBADMSG)

// unixSockets asks for all.
func unixSockets() (list []unixSocket, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n := binary.NativeEndian
	ask := n.AppendUint32(nil, unix.SizeofNlMsghdr+24)
	ask = n.AppendUint16(ask, sockDiagByFamily)
	ask = n.AppendUint16(ask, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	ask = append(ask, make([]byte, 8)...)
	ask = append(ask, unix.AF_UNIX, 0, 0, 0)
	ask = n.AppendUint32(ask, ^uint32(0)) // states
	ask = n.AppendUint32(ask, 0)
	ask = n.AppendUint32(ask, showNameAndVFS)
	ask = append(ask, make([]byte, 8)...)
	if err := unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	buf := make([]byte, 64<<10)
	for {
		size, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		done, err := parseSockets(buf[:size], &list)
		if done || err != nil {
			return list, err
		}
	}
}

// parseSockets takes one datagram of the answer.
func parseSockets(b []byte, list *[]unixSocket) (done bool, err error) {
	n := binary.NativeEndian
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(n.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return true, errShort
		}
		body := b[unix.SizeofNlMsghdr:size]
		switch n.Uint16(b[4:]) {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			if len(body) >= 4 && n.Uint32(body) != 0 {
				return true, os.NewSyscallError("sock_diag", unix.Errno(-int32(n.Uint32(body))))
			}
			return true, errShort
		case sockDiagByFamily:
			if len(body) < sizeofDiag {
				return true, errShort
			}
			u := unixSocket{kind: body[1], state: body[2], cookie: uint64(n.Uint32(body[8:])) | uint64(n.Uint32(body[12:]))<<32}
			u.attributes(body[sizeofDiag:])
			*list = append(*list, u)
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return false, nil
}

func (u *unixSocket) attributes(b []byte) {
	n := binary.NativeEndian
	for len(b) >= 4 {
		size := int(n.Uint16(b))
		if size < 4 || size > len(b) {
			return
		}
		value := b[4:size]
		switch n.Uint16(b[2:]) {
		case diagName:
			u.name = append([]byte(nil), value...)
		case diagVFS:
			if len(value) >= 8 {
				u.file, u.ino, u.dev = true, n.Uint32(value), n.Uint32(value[4:])
			}
		}
		b = b[min((size+3)&^3, len(b)):]
	}
}
