package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

// messageTries are what programs do with messages, of which a call that is made for them
// has to do all.
var messageTries = []attempts.Try{
	{Name: "message", Args: 1, Do: func(args []string) error {
		if do := messages[args[0]]; do != nil {
			return do()
		}
		return fmt.Errorf("%w: no message %q", attempts.ErrBroken, args[0])
	}},
	{Name: "answered", Args: 1, Do: answered}, // GOOD: datagrams, by all calls that receive some
}

var messages = map[string]func() error{
	"rights": rights, "wrong-rights": wrongRights, "credentials": credentials, "pieces": pieces, "faults": faults,
	"full": full, "impatient": impatient, "pipe": brokenPipe, "half": halfPipe, "local": local, "sizes": sizes,
}

// want compares what a call gave.
func want(what string, got, wanted error) error {
	if !errors.Is(got, wanted) || (got == nil) != (wanted == nil) {
		return fmt.Errorf("%w: %s: %v, not %v", attempts.ErrBroken, what, got, wanted)
	}
	return nil
}

func socketPair(kind int) (a, b int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	return fds[0], fds[1], err
}

// rights passes the reading ends of two pipes, each by a control message of its own.
func rights() error {
	a, b, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	var control []byte
	var ends [2][2]int
	for i := range ends {
		if err := unix.Pipe2(ends[i][:], unix.O_CLOEXEC); err != nil {
			return err
		}
		control = append(control, unix.UnixRights(ends[i][0])...)
	}
	if _, err := unix.SendmsgN(a, []byte("x"), control, nil, 0); err != nil {
		return err
	}
	p, oob := make([]byte, 8), make([]byte, 64)
	_, oobn, _, _, err := unix.Recvmsg(b, p, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return err
	}
	list, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return err
	}
	var passed []int
	for i := range list {
		fds, err := unix.ParseUnixRights(&list[i])
		if err != nil {
			return err
		}
		passed = append(passed, fds...)
	}
	if len(passed) != 2 {
		return fmt.Errorf("%w: %d descriptors", attempts.ErrBroken, len(passed))
	}
	for i, fd := range passed {
		if _, err := unix.Write(ends[i][1], []byte{byte('a' + i)}); err != nil {
			return err
		}
		if n, err := unix.Read(fd, p); err != nil || n != 1 || p[0] != byte('a'+i) {
			return fmt.Errorf("%w: descriptor %d: %q, %v", attempts.ErrBroken, i, p, err)
		}
	}
	return nil
}

func wrongRights() error {
	a, _, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	many := make([]int, 254)
	cut := unix.UnixRights(a)
	binary.NativeEndian.PutUint64(cut, 1<<20) // cmsg_len
	_, none := unix.SendmsgN(a, []byte("x"), unix.UnixRights(a, 987654), nil, 0)
	_, tooMany := unix.SendmsgN(a, []byte("x"), unix.UnixRights(many...), nil, 0)
	_, broken := unix.SendmsgN(a, []byte("x"), cut, nil, 0)
	iov := unix.Iovec{Base: &cut[0], Len: 1}
	h := unix.Msghdr{Iov: &iov, Iovlen: 1, Controllen: 24}
	nowhere := sendHeader(a, &h, 0)
	return errors.Join(want("no descriptor", none, unix.EBADF), want("254 descriptors", tooMany, unix.EINVAL),
		want("a length beyond the end", broken, unix.EINVAL), want("no memory", nowhere, unix.EFAULT))
}

// credentials can be sent by who has them only.
func credentials() error {
	a, _, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	control := unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())})
	_, err = unix.SendmsgN(a, []byte("x"), control, nil, 0)
	return err
}

func sendHeader(fd int, h *unix.Msghdr, flags int) error {
	if _, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(h)), uintptr(flags)); errno != 0 {
		return errno
	}
	return nil
}

// pieces sends more than a socket holds, from many places.
func pieces() error {
	a, b, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	var parts [][]byte
	for i, size := range []int{1, 0, 70 << 10, 3, 600 << 10, 0, 5} {
		parts = append(parts, bytes.Repeat([]byte{byte('a' + i)}, size))
	}
	all := bytes.Join(parts, nil)
	type sent struct {
		n   int
		err error
	}
	done := make(chan sent, 1)
	go func() {
		n, err := unix.SendmsgBuffers(a, parts, nil, nil, 0)
		_ = unix.Shutdown(a, unix.SHUT_WR)
		done <- sent{n, err}
	}()
	var got []byte
	for p := make([]byte, 32<<10); ; {
		n, err := unix.Read(b, p)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		got = append(got, p[:n]...)
	}
	if s := <-done; s.err != nil || s.n != len(all) || !bytes.Equal(got, all) {
		return fmt.Errorf("%w: %d bytes, %v; %d came", attempts.ErrBroken, s.n, s.err, len(got))
	}
	return nil
}

// faults are pointers to nothing.
func faults() error {
	a, _, err := socketPair(unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	nothing := func(h unix.Msghdr) error { return sendHeader(a, &h, 0) }
	wrong := unix.Iovec{Len: 1}
	_, _, header := unix.Syscall(unix.SYS_SENDMSG, uintptr(a), 1, 0)
	b := []byte("x")
	_, _, address := unix.Syscall6(unix.SYS_SENDTO, uintptr(a), uintptr(unsafe.Pointer(&b[0])), 1, 0, 1, 16)
	_, _, many := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(a), 1, 2, 0, 0, 0)
	_, _, closed := unix.Syscall(unix.SYS_SENDMSG, 987654, 1, 0)
	_, _, file := unix.Syscall6(unix.SYS_SENDTO, 0, uintptr(unsafe.Pointer(&b[0])), 1, 0, uintptr(unsafe.Pointer(&b[0])), 1)
	return errors.Join(
		want("a header", header, unix.EFAULT), want("pieces", nothing(unix.Msghdr{Iovlen: 1}), unix.EFAULT),
		want("a piece", nothing(unix.Msghdr{Iov: &wrong, Iovlen: 1}), unix.EFAULT),
		want("too many pieces", nothing(unix.Msghdr{Iov: &wrong, Iovlen: 1025}), unix.EMSGSIZE),
		want("an address", address, unix.EFAULT), want("many headers", many, unix.EFAULT),
		want("a closed descriptor", closed, unix.EBADF), want("no socket", file, unix.ENOTSOCK),
	)
}

// fill sends until there is no room; it says why.
func fill(fd, flags int) error {
	p := make([]byte, 8<<10)
	for {
		if _, err := unix.SendmsgN(fd, p, nil, nil, flags); err != nil {
			return err
		}
	}
}

// full: whoever doesn't want to wait doesn't.
func full() error {
	a, _, err1 := socketPair(unix.SOCK_STREAM)
	c, _, err2 := socketPair(unix.SOCK_STREAM | unix.SOCK_NONBLOCK)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return errors.Join(want("MSG_DONTWAIT", fill(a, unix.MSG_DONTWAIT), unix.EAGAIN), want("O_NONBLOCK", fill(c, 0), unix.EAGAIN))
}

// impatient waits for as long as the socket says.
func impatient() error {
	a, _, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptTimeval(a, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Usec: 100000}); err != nil {
		return err
	}
	return want("SO_SNDTIMEO", fill(a, 0), unix.EAGAIN)
}

// brokenPipe: of the kinds of sockets only streams signal.
func brokenPipe() error {
	for kind, signals := range map[int]bool{unix.SOCK_STREAM: true, unix.SOCK_SEQPACKET: false} {
		for _, flags := range []int{unix.MSG_NOSIGNAL, 0} {
			a, b, err := socketPair(kind)
			if err != nil {
				return err
			}
			unix.Close(b)
			if err := signalled(signals && flags == 0, func() error {
				_, err := unix.SendmsgN(a, []byte("x"), nil, nil, flags)
				return want("no reader", err, unix.EPIPE)
			}); err != nil {
				return fmt.Errorf("kind %d, flags %#x: %w", kind, flags, err)
			}
		}
	}
	return nil
}

// halfPipe: what was sent before the reader went is told, and nothing is signalled.
func halfPipe() error {
	a, b, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	go func() { // it reads some, so that some has been sent
		p := make([]byte, 300<<10)
		for n, got := 0, 0; got < len(p); got += n {
			if n, _ = unix.Read(b, p); n <= 0 {
				break
			}
		}
		unix.Close(b)
	}()
	return signalled(false, func() error {
		n, err := unix.SendmsgN(a, make([]byte, 8<<20), nil, nil, 0)
		if err != nil || n <= 0 || n >= 8<<20 {
			return fmt.Errorf("%w: %d bytes, %v", attempts.ErrBroken, n, err)
		}
		return nil
	})
}

// signalled says whether SIGPIPE came as it should. It comes before the call returns, and
// of what waits the lower numbers are told first.
func signalled(wanted bool, do func() error) error {
	pipe, mark := make(chan os.Signal, 8), make(chan os.Signal, 1)
	signal.Notify(pipe, unix.SIGPIPE)
	signal.Notify(mark, unix.SIGWINCH)
	defer signal.Stop(pipe)
	defer signal.Stop(mark)
	if err := do(); err != nil {
		return err
	}
	if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil {
		return err
	}
	<-mark
	if wanted {
		<-pipe
		return nil
	}
	select {
	case <-pipe:
		return fmt.Errorf("%w: SIGPIPE", attempts.ErrBroken)
	default:
		return nil
	}
}
