package egress

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

func udpSocket(t *testing.T) *socket {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	k := &socket{fd: fd, family: unix.AF_INET, kind: unix.SOCK_DGRAM, protocol: unix.IPPROTO_UDP}
	t.Cleanup(k.close)
	return k
}

// The relay that was silent for longest makes room, and its sender is one no more.
func TestTheRelayThatWasSilentForLongestGoes(t *testing.T) {
	g, _ := supervised(t)
	k := udpSocket(t)
	to := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(1000+i))
	}
	var all []*relay
	for i := range maxRelays {
		r, errno := g.calls.relayTo(k, self().flow("udp", to(i)))
		if errno != 0 {
			t.Fatalf("%d: %v", i, errno)
		}
		r.seen.Store(int64(1000 + i))
		all = append(all, r)
	}
	if again, errno := g.calls.relayTo(k, self().flow("udp", to(7))); again != all[7] || errno != 0 {
		t.Errorf("the same way has another relay: %v", errno)
	}
	oldest := all[5]
	oldest.seen.Store(1)
	if g.calls.sender(k, oldest.port.at) != oldest.way.to {
		t.Error("whom it stands for isn't known")
	}
	last, errno := g.calls.relayTo(k, self().flow("udp", to(maxRelays)))
	if errno != 0 {
		t.Fatal(errno)
	}
	g.calls.mu.Lock()
	n, gone, kept := len(g.calls.between), g.calls.between[oldest.way] == nil, g.calls.between[all[6].way] == all[6]
	g.calls.mu.Unlock()
	if n != maxRelays || !gone || !kept || g.calls.sender(k, last.port.at) != last.way.to || last.port != oldest.port {
		t.Errorf("%d relays; the oldest is gone: %v; the next is kept: %v", n, gone, kept)
	}
	// What is still said in its name reaches nobody, least of all whom its port serves now.
	oldest.say([]byte("old"))
	last.say([]byte("new"))
	must(t, unix.SetsockoptTimeval(k.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}))
	b := make([]byte, 16)
	if n, err := unix.Read(k.fd, b); err != nil || string(b[:n]) != "new" {
		t.Errorf("%q, %v", b[:max(n, 0)], err)
	}
}

// Whoever is refused hears that nobody is there, and the port stays ours.
func TestARefusedRelayKeepsItsPort(t *testing.T) {
	g, _ := supervised(t)
	k := udpSocket(t)
	r, errno := g.calls.relayTo(k, self().flow("udp", netip.MustParseAddrPort("192.0.2.1:9")))
	if errno != 0 {
		t.Fatal(errno)
	}
	if errno := rawConnect(k.fd, k.sockaddr(r.port.at)); errno != 0 {
		t.Fatal(errno)
	}
	r.refuse()
	r.refuse()
	if _, err := unix.Write(k.fd, []byte("x")); err != nil {
		t.Fatal(err)
	}
	must(t, unix.SetsockoptTimeval(k.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}))
	if _, err := unix.Read(k.fd, make([]byte, 1)); err != unix.ECONNREFUSED {
		t.Errorf("it hears %v", err)
	}
	if c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(r.port.at)); err == nil {
		c.Close()
		t.Error("its port is anybody's")
	}
}

// Whichever resolver is asked, ours answers, in the name of that one.
func TestAQuestionByDatagramIsAnswered(t *testing.T) {
	g, _ := supervised(t)
	k := udpSocket(t)
	r, errno := g.calls.relayTo(k, self().flow("udp", netip.MustParseAddrPort("192.0.2.53:53")))
	if errno != 0 {
		t.Fatal(errno)
	}
	if errno := rawConnect(k.fd, k.sockaddr(r.port.at)); errno != 0 {
		t.Fatal(errno)
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 77}, Questions: []dnsmessage.Question{{
		Name: dnsmessage.MustNewName("refused.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
	}}}
	query, err := m.Pack()
	must(t, err)
	// One that is too long for a question goes unanswered, and the next doesn't.
	for _, b := range [][]byte{make([]byte, maxQuestion+1), query} {
		if _, err := unix.Write(k.fd, b); err != nil {
			t.Fatal(err)
		}
	}
	must(t, unix.SetsockoptTimeval(k.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}))
	b := make([]byte, 1024)
	n, err := unix.Read(k.fd, b)
	must(t, err)
	var p dnsmessage.Parser
	if h, err := p.Start(b[:n]); err != nil || h.ID != 77 || !h.Response {
		t.Errorf("%+v, %v", h, err)
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
