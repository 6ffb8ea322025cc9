package linux

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxFrame bounds what SendFrame and ReceiveFrame carry: execve itself takes no
// more than a few megabytes of arguments.
const MaxFrame = 64 << 20

// SendFrame writes frame with its length before it, and fds with its first byte.
// It never raises SIGPIPE.
func SendFrame(sock int, frame []byte, fds ...int) error {
	n := uint32(len(frame))
	head := []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	for len(head)+len(frame) > 0 {
		n, err := Again(func() (int, error) {
			return unix.SendmsgBuffers(sock, [][]byte{head, frame}, oob, nil, unix.MSG_NOSIGNAL)
		})
		if err != nil {
			return err
		}
		sent := min(n, len(head))
		head, frame, oob = head[sent:], frame[n-sent:], nil
	}
	return nil
}

// ReceiveFrame reads one frame, and the descriptors that came with it,
// close-on-exec. The end of the stream is ECONNRESET: the other side is gone.
func ReceiveFrame(sock int) (frame []byte, fds []int, err error) {
	var head [4]byte
	if fds, err = receive(sock, head[:]); err != nil {
		return nil, fds, err
	}
	n := uint32(head[0]) | uint32(head[1])<<8 | uint32(head[2])<<16 | uint32(head[3])<<24
	if n > MaxFrame {
		return nil, fds, unix.EMSGSIZE
	}
	frame = make([]byte, n)
	got := receiveThere(sock, frame)
	more, err := receive(sock, frame[got:])
	return frame, append(fds, more...), err
}

// receiveThere takes what is there of a frame whose length was read, which is all of it mostly. It doesn't wait, so the Go scheduler
// isn't told, which would have to give the processor back. Descriptors come with a frame's first byte, which was read.
func receiveThere(sock int, buf []byte) int {
	if len(buf) == 0 {
		return 0
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(sock), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// receive fills buf.
func receive(sock int, buf []byte) (fds []int, err error) {
	var oob [1040]byte // room for all the descriptors that the kernel lets one message carry
	for len(buf) > 0 {
		n, oobn, flags, _, err := unix.Recvmsg(sock, buf, oob[:], unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fds, err
		}
		if oobn > 0 {
			fds = append(fds, rights(oob[:oobn])...)
		}
		if flags&unix.MSG_CTRUNC != 0 { // there was no number for some: whoever takes the rest in order would take one for another
			return fds, unix.EMFILE
		}
		if n == 0 {
			return fds, unix.ECONNRESET
		}
		buf = buf[n:]
	}
	return fds, nil
}

func rights(oob []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}
