package emulate

import (
	"bytes"
	"net/netip"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// A socket for datagrams hears whatever anybody sends to its port from the moment it has
// one, and any write(2) gives it one. So it is made here, with a filter that lets through
// what comes from our ports alone, before its caller has it. Their numbers are nobody else's
// while the run lasts, and the filter can't be taken off (setsockopt is refused).

// socket is socket(2) of datagrams over IPv4 and IPv6. Without an error it has answered.
func (s *relays) socket(c *caller) unix.Errno {
	a := &c.asked.Args
	family, kind, protocol := int(int32(a[0])), int(int32(a[1])), int(int32(a[2]))
	if family != unix.AF_INET && family != unix.AF_INET6 || kind&0xf != unix.SOCK_DGRAM {
		return unix.EACCES
	}
	fd, errno := s.newSocket(family, kind, protocol)
	if errno != 0 {
		return errno
	}
	defer unix.Close(fd)
	return c.asked.Give(fd, kind&unix.SOCK_CLOEXEC != 0)
}

// newSocket is one that hears the ports that there are, and nobody else.
func (s *relays) newSocket(family, kind, protocol int) (int, unix.Errno) {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return -1, errnoOf(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = AttachFilter(fd, s.filter); err == nil {
		err = s.made.add(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, errnoOf(err)
	}
	return fd, 0
}

// updateFilter lets a socket hear the ports that there are now. A socket without a filter came from
// the caller of the run, and is as it was. The lock is held.
func (s *relays) updateFilter(k *socket) unix.Errno {
	n := uint32(0) // asks for the number of instructions, which tells which filter it is: ports are only added
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(k.fd), unix.SOL_SOCKET, unix.SO_GET_FILTER, 0, uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 || n == 0 || int(n) == len(s.filter) {
		return errno
	}
	if err := AttachFilter(k.fd, s.filter); err != nil {
		return errnoOf(err)
	}
	return 0
}

// AttachFilter has a socket drop what a program refuses.
func AttachFilter(fd int, program []bpf.Instruction) error {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, x := range raw {
		filter[i] = unix.SockFilter{Code: x.Op, Jt: x.Jt, Jf: x.Jf, K: x.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}

const (
	loopbackIndex = 1 // of the interface lo, in every network namespace
	wholePacket   = 1<<32 - 1
	// A filter of a socket for datagrams gets them from the head of UDP on, which begins with
	// the port that they are from; what is before it lies behind SKF_NET_OFF.
	atSourcePort = 0
	networkOff   = 1<<32 - 0x100000
	atSource     = networkOff + 12
	atSourceIPv6 = networkOff + 8
)

// relaysOnly lets through what comes from the ports, over lo: from another interface, 127.0.0.1
// is who says so.
func relaysOnly(ports map[netip.AddrPort]*port) (f []bpf.Instruction) {
	load := func(at uint32) { f = append(f, bpf.LoadAbsolute{Off: at, Size: 4}) }
	require := func(value uint32) {
		f = append(f, bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipTrue: 1}, bpf.RetConstant{Val: 0})
	}
	oneOf := func(is6 bool) {
		var numbers []uint32
		for a := range ports {
			if a.Addr().Is6() == is6 {
				numbers = append(numbers, uint32(a.Port()))
			}
		}
		f = append(f, bpf.LoadAbsolute{Off: atSourcePort, Size: 2})
		for i, number := range numbers {
			f = append(f, bpf.JumpIf{Cond: bpf.JumpEqual, Val: number, SkipTrue: uint8(len(numbers) - i)})
		}
		f = append(f, bpf.RetConstant{Val: 0}, bpf.RetConstant{Val: wholePacket})
	}
	f = append(f, bpf.LoadExtension{Num: bpf.ExtInterfaceIndex})
	require(loopbackIndex)
	f = append(f, bpf.LoadExtension{Num: bpf.ExtProto}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ETH_P_IP, SkipTrue: 1})
	jump := len(f)
	f = append(f, bpf.Jump{}) // over IPv4
	load(atSource)
	require(127<<24 | 1)
	oneOf(false)
	f[jump] = bpf.Jump{Skip: uint32(len(f) - jump - 1)}
	require(unix.ETH_P_IPV6)
	for i, word := range []uint32{0, 0, 0, 1} {
		load(atSourceIPv6 + 4*uint32(i))
		require(word)
	}
	oneOf(true)
	return f
}

// maxMade bounds the sockets that there are at one time: their memory counts as ours, and not
// for the run's limit.
const maxMade = 512

// socketCount counts sockets that others have: an epoll instance keeps track of each file until the
// last descriptor of it is closed, whose ever that is.
type socketCount struct {
	epoll int // 0: there is none yet
	most  int // there are no more than these
}

func (n *socketCount) add(fd int) (err error) {
	if n.epoll == 0 {
		if n.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
			n.epoll = 0
			return err
		}
	}
	if n.most >= maxMade {
		info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(n.epoll))
		if err != nil {
			return unix.ENOBUFS
		}
		if n.most = bytes.Count(info, []byte("\ntfd:")); n.most >= maxMade {
			return unix.ENOBUFS
		}
	}
	if err := unix.EpollCtl(n.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{}); err != nil {
		return err
	}
	n.most++
	return nil
}

func (n *socketCount) close() {
	if n.epoll > 0 {
		_ = unix.Close(n.epoll)
	}
	n.epoll, n.most = 0, maxMade
}
