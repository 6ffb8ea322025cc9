package emulate

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func udpSocket(t *testing.T) *socket {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	k := &socket{fd: fd, family: unix.AF_INET, kind: unix.SOCK_DGRAM, protocol: unix.IPPROTO_UDP}
	t.Cleanup(k.close)
	return k
}

// relayTo is the relay of a socket to an address.
func relayTo(t *testing.T, s *Calls, k *socket, to string) *relay {
	t.Helper()
	r, errno := s.relays.to(k, self().flow("udp", netip.MustParseAddrPort(to)))
	if errno != 0 {
		t.Fatalf("%s: %v", to, errno)
	}
	return r
}

func connectTo(t *testing.T, k *socket, r *relay) {
	t.Helper()
	if errno := rawConnect(k.fd, k.sockaddr(r.port.at)); errno != 0 {
		t.Fatal(errno)
	}
}

// The relay that was silent for longest makes room, and its sender is one no more.
func TestTheRelayThatWasSilentForLongestGoes(t *testing.T) {
	s, _ := supervised(t)
	k := udpSocket(t)
	to := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(1000+i))
	}
	var all []*relay
	for i := range maxRelays {
		r := relayTo(t, s, k, to(i).String())
		r.seen.Store(int64(1000 + i))
		all = append(all, r)
	}
	if again, errno := s.relays.to(k, self().flow("udp", to(7))); again != all[7] || errno != 0 {
		t.Errorf("the same way has another relay: %v", errno)
	}
	oldest := all[5]
	oldest.seen.Store(1)
	if s.relays.sender(k, oldest.port.at) != oldest.ends.to {
		t.Error("whom it stands for isn't known")
	}
	last := relayTo(t, s, k, to(maxRelays).String())
	s.relays.mu.Lock()
	n, gone, kept := len(s.relays.between), s.relays.between[oldest.ends] == nil, s.relays.between[all[6].ends] == all[6]
	s.relays.mu.Unlock()
	if n != maxRelays || !gone || !kept || s.relays.sender(k, last.port.at) != last.ends.to || last.port != oldest.port {
		t.Errorf("%d relays; the oldest is gone: %v; the next is kept: %v", n, gone, kept)
	}
	// What is still said in its name reaches nobody, least of all whom its port serves now.
	oldest.Say([]byte("old"))
	last.Say([]byte("new"))
	if got := heard(t, k); got != "new" {
		t.Errorf("%q", got)
	}
}

// Whoever is refused hears that nobody is there, and the port stays ours.
func TestARefusedRelayKeepsItsPort(t *testing.T) {
	s, _ := supervised(t)
	k := udpSocket(t)
	r := relayTo(t, s, k, "192.0.2.1:9")
	connectTo(t, k, r)
	r.Refuse()
	r.Refuse()
	if _, err := unix.Write(k.fd, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got := heard(t, k); got != unix.ECONNREFUSED.Error() {
		t.Errorf("it hears %q", got)
	}
	if c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(r.port.at)); err == nil {
		c.Close()
		t.Error("its port is anybody's")
	}
}

// What comes back for a datagram comes from the address that it was sent to.
func TestADatagramIsAnswered(t *testing.T) {
	s, _ := supervised(t)
	k := udpSocket(t)
	r := relayTo(t, s, k, "192.0.2.53:53")
	connectTo(t, k, r)
	_, err := unix.Write(k.fd, []byte("query"))
	must.Do(t, err)
	if got := heard(t, k); got != "query" {
		t.Errorf("%q", got)
	}
}

// What isn't a number of the kernel's is an error of input and output, never none.
func TestEveryErrorHasANumber(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]unix.Errno{
		unix.EPERM: unix.EPERM, os.ErrClosed: unix.EIO, errors.New("x"): unix.EIO,
	} {
		if got := errnoOf(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	if _, errno := (&socket{fd: -1, family: unix.AF_INET}).from(netip.MustParseAddr("127.0.0.1")); errno != unix.EBADF {
		t.Errorf("no socket: %v", errno)
	}
}

// made is a socket as a caller gets it.
func made(t *testing.T, s *Calls, family int) *socket {
	t.Helper()
	fd, errno := s.relays.newSocket(family, unix.SOCK_DGRAM, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	k := &socket{fd: fd, family: family, kind: unix.SOCK_DGRAM, protocol: unix.IPPROTO_UDP}
	t.Cleanup(k.close)
	must.Do(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}))
	return k
}

// bound binds a socket to every address that it can have, and says which port it got.
func bound(t *testing.T, k *socket) uint16 {
	t.Helper()
	any := netip.IPv4Unspecified()
	if k.family == unix.AF_INET6 {
		any = netip.IPv6Unspecified()
	}
	b := k.sockaddr(netip.AddrPortFrom(any, 0))
	if _, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(k.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b))); errno != 0 {
		t.Fatal(errno)
	}
	own, err := unix.Getsockname(k.fd)
	must.Do(t, err)
	return addrPort(own).Port()
}

// dropped waits until so many datagrams have been dropped, or one is there to be read.
func dropped(t *testing.T, k *socket, n uint32) {
	t.Helper()
	for range 2000 {
		var info [9]uint32
		size := uint32(len(info) * 4)
		if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(k.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0); errno != 0 {
			t.Fatal(errno)
		}
		if info[8] >= n {
			break
		}
		if ready, _ := unix.Poll([]unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}}, 10); ready > 0 {
			break
		}
	}
	b := make([]byte, 16)
	if n, err := unix.Read(k.fd, b); err != unix.EAGAIN {
		t.Errorf("heard %q, %v", b[:max(n, 0)], err)
	}
}

func TestASocketHearsPortsOfOursAlone(t *testing.T) {
	s, _ := supervised(t)
	other, err := net.ListenPacket("udp", ":0")
	must.Do(t, err)
	defer other.Close()
	for name, c := range map[string]struct {
		family int
		at, to string
	}{
		"IPv4": {unix.AF_INET, "127.0.0.1", "192.0.2.1:9"}, "IPv6": {unix.AF_INET6, "::1", "[2001:db8::1]:9"},
		"IPv4 on a socket of both": {unix.AF_INET6, "127.0.0.1", "192.0.2.1:9"},
	} {
		addr := netip.MustParseAddr(c.at)
		if addr.Is6() && !s.tcp[1].IsValid() {
			continue // a host without IPv6
		}
		// The control: a socket that nobody has made for its caller.
		fd, err := unix.Socket(c.family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		must.Do(t, err)
		bare := &socket{fd: fd, family: c.family}
		defer bare.close()
		k := made(t, s, c.family)
		for _, each := range []*socket{bare, k} {
			if _, err := other.WriteTo([]byte("other"), net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, bound(t, each)))); err != nil {
				t.Fatal(err)
			}
		}
		if got := heard(t, bare); got != "other" {
			t.Errorf("%s: the control heard %q", name, got)
		}
		must.Do(t, unix.SetNonblock(k.fd, true))
		dropped(t, k, 1)
		must.Do(t, unix.SetNonblock(k.fd, false))
		r := relayTo(t, s, k, c.to)
		r.Say([]byte("ours"))
		if got := heard(t, k); got != "ours" {
			t.Errorf("%s: heard %q", name, got)
		}
	}
}

// A relay's number on another address of loopback is anybody's.
func TestAPortIsOneAddressAlone(t *testing.T) {
	s, _ := supervised(t)
	k := made(t, s, unix.AF_INET)
	r := relayTo(t, s, k, "192.0.2.1:9")
	at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), r.port.at.Port()))
	other, err := net.ListenUDP("udp", at)
	if err != nil {
		t.Skip(err) // somebody has it already
	}
	defer other.Close()
	if _, err := other.WriteToUDPAddrPort([]byte("other"), r.ends.from); err != nil {
		t.Fatal(err)
	}
	must.Do(t, unix.SetNonblock(k.fd, true))
	dropped(t, k, 1)
}

// All ports fit into a filter, and the last is heard like the first.
func TestEveryPortIsHeard(t *testing.T) {
	s, _ := supervised(t)
	k := made(t, s, unix.AF_INET6)
	bound(t, k)
	for _, host := range []string{"192.0.2.1", "2001:db8::1"} {
		addr := netip.MustParseAddr(host)
		if addr.Is6() && !s.tcp[1].IsValid() {
			continue
		}
		for i := range maxRelays {
			r := relayTo(t, s, k, netip.AddrPortFrom(addr, uint16(1000+i)).String())
			text := binary.BigEndian.AppendUint16([]byte("n"), uint16(i))
			r.Say(text)
			if got := heard(t, k); got != string(text) {
				t.Fatalf("%s, %d: heard %q", host, i, got)
			}
		}
	}
}

// A socket that the run was given has no filter, and gets none.
func TestASocketOfTheCallersIsLeftAlone(t *testing.T) {
	s, _ := supervised(t)
	k := udpSocket(t)
	relayTo(t, s, k, "192.0.2.1:9")
	n := uint32(0)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(k.fd), unix.SOL_SOCKET, unix.SO_GET_FILTER, 0, uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 || n != 0 {
		t.Errorf("%d instructions, %v", n, errno)
	}
}

// Sockets are bounded by how many there are, not by how many there were.
func TestSocketsAreCounted(t *testing.T) {
	s, _ := supervised(t)
	var all []int
	defer func() {
		for _, fd := range all {
			_ = unix.Close(fd)
		}
	}()
	for i := range maxMade {
		fd, errno := s.relays.newSocket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if errno != 0 {
			t.Fatalf("%d: %v", i, errno)
		}
		all = append(all, fd)
	}
	if fd, errno := s.relays.newSocket(unix.AF_INET, unix.SOCK_DGRAM, 0); errno != unix.ENOBUFS {
		t.Errorf("one more: %d, %v", fd, errno)
	}
	again, err := unix.Dup(all[0])
	must.Do(t, err)
	all = append(all, again)
	_ = unix.Close(all[0])
	all = all[1:]
	if fd, errno := s.relays.newSocket(unix.AF_INET, unix.SOCK_DGRAM, 0); errno != unix.ENOBUFS {
		t.Errorf("a duplicate is left: %d, %v", fd, errno)
	}
	_ = unix.Close(again)
	all = all[:len(all)-1]
	fd, errno := s.relays.newSocket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if errno != 0 {
		t.Fatalf("one is closed: %v", errno)
	}
	all = append(all, fd)
}
