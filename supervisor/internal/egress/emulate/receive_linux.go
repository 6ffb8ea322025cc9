package emulate

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// incoming is where a caller wants a datagram, and what is said about it.
type incoming struct {
	fd, flags      int
	name, nameSize uint64 // where the sender's address goes, and where its size stands
	room           uint32 // for the address
	spans          []span
	total          uint64
	header         uint64 // where the message's header lies; 0: there is none
	length         uint64 // where the number of its bytes goes, of many messages
}

// receive receives datagrams, to show the caller the address that it sent to as their sender, and errors (MSG_ERRQUEUE),
// whose text others choose. All other calls are not done and go on by themselves. That is safe: receiving
// reaches nobody, and MSG_ERRQUEUE is in the call's registers, which nobody can change.
func (s *Calls) receive(c *caller) (value int64, errno unix.Errno, done bool) {
	a := &c.asked.Args
	w := incoming{fd: int(int32(a[0])), flags: int(int32(a[3]))}
	if c.asked.Nr == unix.SYS_RECVMSG {
		w.flags = int(int32(a[2]))
	}
	errors := w.flags&unix.MSG_ERRQUEUE != 0
	k, errno := c.socket(w.fd)
	if errno != 0 {
		return 0, errno, errors
	}
	defer k.close()
	switch {
	case errors && !k.inet():
		return 0, unix.EAGAIN, true
	case !errors && !k.udp():
		return 0, 0, false
	}
	switch c.asked.Nr {
	case unix.SYS_RECVFROM:
		w.name, w.nameSize, w.spans, w.total = a[4], a[5], []span{{a[1], a[2]}}, a[2]
		if w.name != 0 {
			size, errno := c.read(span{w.nameSize, 4})
			if errno != 0 {
				return 0, errno, true
			}
			w.room = binary.NativeEndian.Uint32(size)
		}
	case unix.SYS_RECVMSG:
		errno = w.readHeader(c, a[1])
	default:
		if a[2] == 0 {
			return 0, 0, true
		}
		w.flags &^= unix.MSG_WAITFORONE
		w.length = a[1] + sizeofMsghdr
		errno = w.readHeader(c, a[1])
	}
	if errno != 0 {
		return 0, errno, true
	}
	var n int
	if errors {
		errno = s.takeError(c, k, &w)
	} else {
		n, errno = s.take(c, k, &w)
	}
	if errno == 0 && w.length != 0 {
		return 1, c.write(binary.NativeEndian.AppendUint32(nil, uint32(n)), span{w.length, 4}), true
	}
	return int64(n), errno, true
}

// takeError takes one error from a socket's queue. That there was one is all that is told.
func (s *Calls) takeError(c *caller, k *socket, w *incoming) unix.Errno {
	if _, _, _, _, err := unix.Recvmsg(k.fd, nil, nil, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT); err != nil {
		return errnoOf(err)
	}
	return s.writeSender(c, k, w, nil, unix.MSG_ERRQUEUE)
}

func (w *incoming) readHeader(c *caller, at uint64) unix.Errno {
	h, errno := c.header(at)
	if errno != 0 {
		return errno
	}
	w.header, w.name, w.nameSize, w.room = at, h.name, at+8, h.nameSize
	w.spans, errno = c.spans(&h)
	for _, s := range w.spans {
		w.total += s.size
	}
	return errno
}

// take receives one datagram and puts it where the caller wants it.
func (s *Calls) take(c *caller, k *socket, w *incoming) (int, unix.Errno) {
	buf := make([]byte, max(1, min(w.total, maxDatagram)))
	var name [maxAddress]byte
	var h unix.Msghdr
	iov := unix.Iovec{Base: &buf[0]}
	iov.SetLen(int(min(w.total, maxDatagram)))
	do := func() (int, error) {
		h = unix.Msghdr{Name: &name[0], Namelen: maxAddress, Iov: &iov}
		h.SetIovlen(1)
		n, _, errno := unix.Syscall(unix.SYS_RECVMSG, uintptr(k.fd), uintptr(unsafe.Pointer(&h)), uintptr(w.flags|unix.MSG_DONTWAIT))
		if errno != 0 {
			return 0, errno
		}
		return int(n), nil
	}
	n, errno := c.retryBlocking(k, w.flags, unix.POLLIN, unix.SO_RCVTIMEO, do)
	if errno != 0 {
		return 0, errno
	}
	if errno := c.write(buf[:min(n, len(buf), int(min(w.total, maxDatagram)))], w.spans...); errno != 0 {
		return 0, errno
	}
	return n, s.writeSender(c, k, w, name[:h.Namelen], int(h.Flags))
}

// writeSender writes what is said about a datagram.
func (s *Calls) writeSender(c *caller, k *socket, w *incoming, name []byte, flags int) unix.Errno {
	size := uint32(0)
	if len(name) > 0 {
		if from, errno := k.target(name); errno == 0 {
			name = k.sockaddr(s.relays.sender(k, from))
		}
		size = uint32(len(name))
	}
	if w.name != 0 {
		if errno := c.write(name[:min(len(name), int(w.room))], span{w.name, uint64(w.room)}); errno != 0 {
			return errno
		}
		if errno := c.write(binary.NativeEndian.AppendUint32(nil, size), span{w.nameSize, 4}); errno != 0 {
			return errno
		}
	}
	if w.header == 0 {
		return 0
	}
	// msg_controllen and msg_flags; nothing is said of the way that it came.
	rest := binary.NativeEndian.AppendUint32(make([]byte, 8), uint32(flags))
	return c.write(rest, span{w.header + 40, 12})
}
