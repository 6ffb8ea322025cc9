package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/attempts"
)

// supervisedTries are ways past somebody who looks at a connection before it is made.
// GOOD may be reached, BAD may not; both say their own names.
var supervisedTries = []attempts.Try{
	{Name: "swap-address", Args: 2, Do: swapAddress},       // GOOD BAD: another thread writes where the address lies
	{Name: "swap-descriptor", Args: 1, Do: swapDescriptor}, // BAD: another thread puts another socket in its place
	{Name: "fastopen", Args: 1, Do: fastOpen},              // BAD: a connection that begins with what is sent
	{Name: "deferred", Args: 1, Do: deferred},              // BAD: the same, put off until then
	{Name: "mapped", Args: 1, Do: mapped},                  // BAD: as an IPv6 address
	{Name: "source-route", Args: 0, Do: sourceRoute},       // another first hop than the address
	{Name: "datagrams", Args: 2, Do: datagrams},            // GOOD BAD: several at once
	{Name: "datagram", Args: 1, Do: datagram},              // BAD: by sendmsg
	{Name: "undumpable", Args: 1, Do: undumpable},          // GOOD: by a process that can't be looked into
}

const (
	rounds  = 400
	hearing = 300 // ms
)

func sockaddr4(address string) ([]byte, error) {
	a, err := netip.ParseAddrPort(address)
	if err != nil || !a.Addr().Is4() {
		return nil, fmt.Errorf("%w: %q is no address", attempts.ErrBroken, address)
	}
	b := make([]byte, unix.SizeofSockaddrInet4)
	b[0], b[2], b[3] = unix.AF_INET, byte(a.Port()>>8), byte(a.Port())
	v4 := a.Addr().As4()
	copy(b[4:], v4[:])
	return b, nil
}

func stream() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return fd, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: hearing * 1000})
}

func connectRaw(fd int, at unsafe.Pointer, size uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(at), size); errno != 0 {
		return errno
	}
	return nil
}

// more: on a busy host the thread that swaps may hardly have run. A control, outside, goes on
// until it has shown what it is to show: ATTEMPT_ROUNDS says for how long at most. No run has that
// variable.
func more(round int, swaps *atomic.Int32) bool {
	if most, err := strconv.Atoi(os.Getenv("ATTEMPT_ROUNDS")); err == nil {
		return round < most
	}
	return round < rounds || swaps.Load() < rounds && round < 50*rounds
}

// says is what a server says; "" if nothing.
func says(fd int) string {
	b := make([]byte, 64)
	n, _ := unix.Read(fd, b)
	return strings.TrimSpace(string(b[:max(0, n)]))
}

// swapAddress: the address is 8 bytes of one word, written whole, so that it is always
// one of the two.
func swapAddress(args []string) error {
	good, err1 := sockaddr4(args[0])
	bad, err2 := sockaddr4(args[1])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	shared := make([]uint64, 2)
	word := func(b []byte) uint64 { return *(*uint64)(unsafe.Pointer(&b[0])) }
	shared[0] = word(good)
	var done atomic.Bool
	var swaps atomic.Int32
	defer done.Store(true)
	go func() {
		for ; !done.Load(); swaps.Add(1) {
			atomic.StoreUint64(&shared[0], word(bad))
			atomic.StoreUint64(&shared[0], word(good))
		}
	}()
	heard, last := 0, error(nil)
	for i := 0; more(i, &swaps); i++ {
		fd, err := stream()
		if err != nil {
			return err
		}
		if last = connectRaw(fd, unsafe.Pointer(&shared[0]), 16); last == nil {
			switch says(fd) {
			case "bad":
				unix.Close(fd)
				return nil
			case "good":
				heard++
			}
		}
		unix.Close(fd)
	}
	if heard == 0 {
		return fmt.Errorf("%w: not even the good one was reached: %v", attempts.ErrBroken, last)
	}
	return unix.EACCES
}

// swapDescriptor connects a number that is a unix socket, with its own listener's
// address, one moment, and a socket of IPv4, with the bad one's, the next.
func swapDescriptor(args []string) error {
	bad, err := sockaddr4(args[0])
	if err != nil {
		return err
	}
	l, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	name := make([]byte, 110)
	name[0] = unix.AF_UNIX
	copy(name[3:], fmt.Sprintf("attempt-%d", os.Getpid()))
	if _, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(l), uintptr(unsafe.Pointer(&name[0])), uintptr(len(name))); errno != 0 {
		return fmt.Errorf("bind: %w", errno)
	}
	if err := unix.Listen(l, 4096); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	shared := make([]uint64, 14)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&shared[0])), 112), name)
	ours, theirs := shared[0], *(*uint64)(unsafe.Pointer(&bad[0]))
	number, err := stream()
	if err != nil {
		return err
	}
	var inet, local atomic.Int32
	renew := func() error {
		a, err1 := stream()
		b, err2 := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		inet.Store(int32(a))
		local.Store(int32(b))
		return errors.Join(err1, err2)
	}
	if err := renew(); err != nil {
		return err
	}
	var done atomic.Bool
	var swaps atomic.Int32
	defer done.Store(true)
	go func() {
		for ; !done.Load(); swaps.Add(1) {
			_ = unix.Dup3(int(local.Load()), number, unix.O_CLOEXEC)
			atomic.StoreUint64(&shared[0], ours)
			dwell()
			_ = unix.Dup3(int(inet.Load()), number, unix.O_CLOEXEC)
			atomic.StoreUint64(&shared[0], theirs)
			dwell()
		}
	}()
	for i := 0; more(i, &swaps); i++ {
		_ = connectRaw(number, unsafe.Pointer(&shared[0]), 110)
		if _, err := unix.Getpeername(int(inet.Load())); err == nil && says(int(inet.Load())) == "bad" {
			return nil
		}
		a, b := inet.Load(), local.Load()
		if err := renew(); err != nil {
			return err
		}
		unix.Close(int(a))
		unix.Close(int(b))
	}
	return unix.EACCES
}

// dwell takes about as long as a call.
func dwell() {
	for range 3 {
		_ = unix.Getppid()
	}
}

func heardBad(fd int) error {
	if s := says(fd); s != "bad" {
		return fmt.Errorf("heard %q: %w", s, unix.ECONNRESET)
	}
	return nil
}

func fastOpen(args []string) error {
	bad, err := sockaddr4(args[0])
	if err != nil {
		return err
	}
	fd, err := stream()
	if err != nil {
		return err
	}
	b := []byte("x")
	_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), 1, unix.MSG_FASTOPEN,
		uintptr(unsafe.Pointer(&bad[0])), uintptr(len(bad)))
	if errno != 0 {
		return errno
	}
	return heardBad(fd)
}

func deferred(args []string) error {
	bad, err := sockaddr4(args[0])
	if err != nil {
		return err
	}
	fd, err := stream()
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1); err != nil {
		return err
	}
	if err := connectRaw(fd, unsafe.Pointer(&bad[0]), uintptr(len(bad))); err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte("x")); err != nil {
		return err
	}
	return heardBad(fd)
}

func mapped(args []string) error {
	a, err := netip.ParseAddrPort(args[0])
	if err != nil {
		return fmt.Errorf("%w: %v", attempts.ErrBroken, err)
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}); err != nil {
		return err
	}
	return heardBad(fd)
}

func sourceRoute([]string) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	header := make([]byte, 24) // of type 4 (segments), with one address
	header[1], header[2], header[23] = 2, 4, 1
	return unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_RTHDR, string(header))
}

// datagrams sends one to each, in one call, and looks who answers.
func datagrams(args []string) error {
	good, err1 := sockaddr4(args[0])
	bad, err2 := sockaddr4(args[1])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	type mmsghdr struct {
		h unix.Msghdr
		n uint32
		_ uint32
	}
	b := []byte("x")
	var all [3]mmsghdr
	for i, to := range [][]byte{good, bad, good} {
		iov := &unix.Iovec{Base: &b[0], Len: 1}
		all[i].h = unix.Msghdr{Name: &to[0], Namelen: uint32(len(to)), Iov: iov, Iovlen: 1}
	}
	n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&all[0])), uintptr(len(all)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return hears(fd, int(n))
}

// hears says whether the bad one answers; that the good one does has to be seen.
func hears(fd, most int) error {
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}); err != nil {
		return err
	}
	good := 0
	for range most {
		b := make([]byte, 64)
		n, _, err := unix.Recvfrom(fd, b, 0)
		if err != nil {
			return fmt.Errorf("%d good answers: %w", good, err)
		}
		if string(b[:n]) == "bad" {
			return nil
		}
		good++
	}
	if good == 0 {
		return fmt.Errorf("%w: nobody answers", attempts.ErrBroken)
	}
	return unix.EACCES
}

func datagram(args []string) error {
	a, err := netip.ParseAddrPort(args[0])
	if err != nil {
		return fmt.Errorf("%w: %v", attempts.ErrBroken, err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	if _, err := unix.SendmsgN(fd, []byte("x"), nil, to, 0); err != nil {
		return err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}); err != nil {
		return err
	}
	b := make([]byte, 64)
	n, from, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		return err
	}
	if f, ok := from.(*unix.SockaddrInet4); !ok || f.Port != to.Port || f.Addr != to.Addr {
		return fmt.Errorf("%w: %q from %v", attempts.ErrBroken, b[:n], from)
	}
	fmt.Printf("%s\n", b[:n])
	return nil
}

func undumpable(args []string) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: %v", attempts.ErrBroken, err)
	}
	return attempts.Connect([]string{"tcp", args[0]})
}
