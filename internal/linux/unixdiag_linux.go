package linux

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// UnixSocket is one of this network namespace, as the kernel lists them (sock_diag(7)).
type UnixSocket struct {
	Kind, State uint8
	Cookie      uint64
	Name        []byte // what it was bound to, as given; abstract ones begin with a zero
	// File: it was bound to one. That has these numbers, wherever it was moved to since:
	// the lower half of the inode's, and the device as the kernel knows it (see Device).
	File     bool
	Ino, Dev uint32
	UID      int64 // of whoever made it; -1 where the kernel doesn't tell (before Linux 5.3)
}

// Path is the name of the file that it was bound to, or "".
func (u *UnixSocket) Path() string {
	if len(u.Name) == 0 || u.Name[0] == 0 {
		return ""
	}
	name, _, _ := bytes.Cut(u.Name, []byte{0})
	return string(name)
}

// Device is a number of /proc/self/mountinfo as UnixSocket has it.
func Device(major, minor uint32) uint32 { return major<<20 | minor }

const (
	sockDiagByFamily = 20
	sizeofDiag       = 16 // struct unix_diag_msg
	diagName         = 0  // UNIX_DIAG_NAME
	diagVFS          = 1
	diagUID          = 7
	showWhat         = 1<<diagName | 1<<diagVFS | showUID
	showUID          = 1 << 6
)

// UnixSockets asks for all. The kernel needs CONFIG_UNIX_DIAG, which may be a module.
func UnixSockets() (list []UnixSocket, err error) {
	n := binary.NativeEndian
	ask := n.AppendUint32(nil, unix.SizeofNlMsghdr+24)
	ask = n.AppendUint16(ask, sockDiagByFamily)
	ask = n.AppendUint16(ask, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	ask = append(ask, make([]byte, 8)...)
	ask = append(ask, unix.AF_UNIX, 0, 0, 0)
	ask = n.AppendUint32(ask, ^uint32(0)) // states
	ask = n.AppendUint32(ask, 0)
	ask = n.AppendUint32(ask, showWhat)
	ask = append(ask, make([]byte, 8)...)
	err = exchange(unix.NETLINK_SOCK_DIAG, ask, 0, func(answer []byte) (done bool, err error) { return parseSockets(answer, &list) })
	return list, err
}

// parseSockets takes one datagram of the answer.
func parseSockets(b []byte, list *[]UnixSocket) (done bool, err error) {
	n := binary.NativeEndian
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(n.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return true, unix.EBADMSG
		}
		body := b[unix.SizeofNlMsghdr:size]
		switch n.Uint16(b[4:]) {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			if len(body) >= 4 && n.Uint32(body) != 0 {
				return true, unix.Errno(-int32(n.Uint32(body)))
			}
			return true, unix.EBADMSG
		case sockDiagByFamily:
			if len(body) < sizeofDiag {
				return true, unix.EBADMSG
			}
			u := UnixSocket{UID: -1, Kind: body[1], State: body[2], Cookie: uint64(n.Uint32(body[8:])) | uint64(n.Uint32(body[12:]))<<32}
			u.attributes(body[sizeofDiag:])
			*list = append(*list, u)
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return false, nil
}

func (u *UnixSocket) attributes(b []byte) {
	n := binary.NativeEndian
	for len(b) >= 4 {
		size := int(n.Uint16(b))
		if size < 4 || size > len(b) {
			return
		}
		value := b[4:size]
		switch n.Uint16(b[2:]) {
		case diagName:
			u.Name = append([]byte(nil), value...)
		case diagUID:
			if len(value) >= 4 {
				u.UID = int64(n.Uint32(value))
			}
		case diagVFS:
			if len(value) >= 8 {
				u.File, u.Ino, u.Dev = true, n.Uint32(value), n.Uint32(value[4:])
			}
		}
		b = b[min((size+3)&^3, len(b)):]
	}
}
