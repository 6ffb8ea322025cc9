package emulate

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	sizeofMsghdr  = 56 // of 64-bit machines, all that there are
	sizeofMmsghdr = 64
	sizeofIovec   = 16
	maxIovecs     = 1024
	maxPayload    = 256 << 10 // of one message
	maxPiece      = 64 << 10  // of a stream at one time
	maxRights     = 253       // SCM_MAX_FD
	maxControl    = 16 << 10
	maxMessages   = 1024
)

// header is a struct msghdr.
type header struct {
	at                       uint64 // where it lies
	name, iov, iovs, control uint64
	nameSize                 uint32
	controlSize              uint64
}

func (c *caller) header(at uint64) (h header, errno unix.Errno) {
	b, errno := c.read(span{at, sizeofMsghdr})
	if errno != 0 {
		return h, errno
	}
	n := binary.NativeEndian
	h = header{
		at: at, name: n.Uint64(b), nameSize: n.Uint32(b[8:]), iov: n.Uint64(b[16:]), iovs: n.Uint64(b[24:]),
		control: n.Uint64(b[32:]), controlSize: n.Uint64(b[40:]),
	}
	if h.iovs > maxIovecs {
		return h, unix.EMSGSIZE
	}
	return h, 0
}

// spans are the pieces that a message's bytes lie in.
func (c *caller) spans(h *header) (list []span, errno unix.Errno) {
	b, errno := c.read(span{h.iov, h.iovs * sizeofIovec})
	if errno != 0 {
		return nil, errno
	}
	for ; len(b) >= sizeofIovec; b = b[sizeofIovec:] {
		s := span{binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:])}
		if s.size > 1<<31-1 {
			return nil, unix.EINVAL
		}
		list = append(list, s)
	}
	return list, 0
}

// message is what is to be sent: bytes that nobody else can change any more.
type message struct {
	to      []byte // sockaddr; none: the address that the socket is connected to
	payload []byte
	control []byte
	flags   int
}

// payload reads what is to be sent, of a stream what is at its front.
func (c *caller) payload(k *socket, spans []span) ([]byte, unix.Errno) {
	most := uint64(maxPayload)
	if k.kind == unix.SOCK_STREAM {
		most = maxPiece
	}
	front := make([]span, 0, len(spans))
	for _, s := range spans {
		if s.size > most && k.kind != unix.SOCK_STREAM {
			return nil, unix.EMSGSIZE
		}
		s.size = min(s.size, most)
		most -= s.size
		front = append(front, s)
	}
	return c.read(front...)
}

// remaining is what is left of spans after n bytes.
func remaining(spans []span, n uint64) []span {
	rest := make([]span, 0, len(spans))
	for _, s := range spans {
		skip := min(n, s.size)
		n -= skip
		if s.size > skip {
			rest = append(rest, span{s.at + skip, s.size - skip})
		}
	}
	return rest
}

// sendAll sends what lies in spans: of a stream piece by piece, since whoever waits
// waits for all of it.
func (s *Calls) sendAll(c *caller, k *socket, m *message, spans []span) (total int, errno unix.Errno) {
	for {
		if m.payload, errno = c.payload(k, spans); errno == 0 {
			var n int
			n, errno = s.send(c, k, m)
			total += n
			spans = remaining(spans, uint64(n))
		}
		switch {
		case errno != 0 && total > 0:
			return total, 0
		case errno == unix.EPIPE && m.flags&unix.MSG_NOSIGNAL == 0 && k.kind == unix.SOCK_STREAM && c.asked.Waits():
			c.identify() // of the kinds of sockets only streams signal, and only where nothing was sent
			_ = unix.Tgkill(c.pid, c.asked.TID, unix.SIGPIPE)
			return 0, errno
		case errno != 0 || len(spans) == 0 || k.kind != unix.SOCK_STREAM || !k.blocks(m.flags):
			return total, errno
		}
		m.control = nil // it goes with the first
	}
}

// sendmmsg is sendmmsg(2): each message is judged by itself.
func (s *Calls) sendmmsg(c *caller, k *socket) (int, unix.Errno) {
	a := &c.asked.Args
	most := min(uint32(a[2]), maxMessages)
	for i := range most {
		at := a[1] + uint64(i)*sizeofMmsghdr
		n, errno := s.sendHeader(c, k, at, int(int32(a[3])))
		if errno == 0 {
			errno = c.write(binary.NativeEndian.AppendUint32(nil, uint32(n)), span{at + sizeofMsghdr, 4})
		}
		if errno != 0 && i == 0 {
			return 0, errno
		}
		if errno != 0 {
			return int(i), 0
		}
	}
	return int(most), 0
}

func (s *Calls) sendHeader(c *caller, k *socket, at uint64, flags int) (n int, errno unix.Errno) {
	h, errno := c.header(at)
	if errno != 0 {
		return 0, errno
	}
	m := &message{flags: flags}
	if h.name != 0 && h.nameSize != 0 {
		if m.to, errno = c.address(h.name, uint64(h.nameSize)); errno != 0 {
			return 0, errno
		}
	}
	spans, errno := c.spans(&h)
	if errno != 0 {
		return 0, errno
	}
	if h.controlSize > 0 {
		var done func()
		if m.control, done, errno = c.controls(k, &h); errno != 0 {
			return 0, errno
		}
		defer done()
	}
	return s.sendAll(c, k, m, spans)
}

// passedFlags are about how a message is sent, and nothing else.
const passedFlags = unix.MSG_OOB | unix.MSG_DONTROUTE | unix.MSG_EOR | unix.MSG_CONFIRM | unix.MSG_MORE

// send sends what was read, to where it may go.
func (s *Calls) send(c *caller, k *socket, m *message) (int, unix.Errno) {
	switch {
	case m.flags&unix.MSG_FASTOPEN != 0: // a connection that connect hasn't seen
		return 0, unix.EOPNOTSUPP
	case m.flags&unix.MSG_ZEROCOPY != 0: // of memory that is ours
		return 0, unix.ENOBUFS
	case k.family == unix.AF_UNIX:
		if m.to != nil {
			to, done, errno := s.unixTarget(c, k, m.to)
			if errno != 0 {
				return 0, errno
			}
			defer done()
			m.to = to
		}
	case k.tcp():
		m.to, m.control = nil, nil // nobody looks at it
	case !k.udp():
		return 0, unix.EACCES
	case m.to != nil && familyOf(m.to) == unix.AF_UNSPEC:
		return 0, unix.EAFNOSUPPORT
	case m.to != nil:
		to, errno := k.target(m.to)
		if errno != 0 {
			return 0, errno
		}
		f := c.flow("udp", to)
		if !s.g.Admit(f) {
			return 0, unix.EACCES
		}
		r, errno := s.relays.to(k, f)
		if errno != 0 {
			return 0, errno
		}
		m.to = k.sockaddr(r.port.at)
	}
	flags := m.flags&passedFlags | unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
	do := func() (int, error) { return rawSendmsg(k.fd, m, flags) }
	return c.retryBlocking(k, m.flags, unix.POLLOUT, unix.SO_SNDTIMEO, do)
}

// rawSendmsg is sendmsg(2) of what is in our memory.
func rawSendmsg(fd int, m *message, flags int) (int, error) {
	var h unix.Msghdr
	var iov unix.Iovec
	if len(m.to) > 0 {
		h.Name, h.Namelen = &m.to[0], uint32(len(m.to))
	}
	if len(m.payload) > 0 {
		iov.Base = &m.payload[0]
		iov.SetLen(len(m.payload))
		h.Iov = &iov
		h.SetIovlen(1)
	}
	if len(m.control) > 0 {
		h.Control = &m.control[0]
		h.SetControllen(len(m.control))
	}
	n, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&h)), uintptr(flags))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// controls are the control messages that go along. Descriptors are duplicates of the
// caller's, which done closes again.
func (c *caller) controls(k *socket, h *header) (control []byte, done func(), errno unix.Errno) {
	var fds []int
	done = func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}
	defer func() {
		if errno != 0 {
			done()
		}
	}()
	if h.controlSize > maxControl {
		return nil, done, unix.ENOBUFS
	}
	b, errno := c.read(span{h.control, h.controlSize})
	if errno != 0 {
		return nil, done, errno
	}
	list, err := unix.ParseSocketControlMessage(b)
	if err != nil {
		return nil, done, unix.EINVAL
	}
	for i := range list {
		m := &list[i]
		switch {
		case k.inet() && m.Header.Level == unix.SOL_UDP:
			return nil, done, unix.EIO // what a device says that can't segment
		case k.inet(): // by which interface, and with what marks: not over loopback
			continue
		case m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_RIGHTS:
			return nil, done, unix.EPERM // who sends could not be made to be the caller
		}
		if len(fds)+len(m.Data)/4 > maxRights {
			return nil, done, unix.EINVAL
		}
		var own []int
		for data := m.Data; len(data) >= 4; data = data[4:] {
			fd, err := unix.PidfdGetfd(c.pidfd, int(int32(binary.NativeEndian.Uint32(data))), 0)
			if err != nil {
				return nil, done, errnoOf(err)
			}
			fds, own = append(fds, fd), append(own, fd)
		}
		control = append(control, unix.UnixRights(own...)...)
	}
	return control, done, 0
}
