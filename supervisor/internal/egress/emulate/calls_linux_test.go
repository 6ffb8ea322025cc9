package emulate

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/must"
)

// gateway admits one address, says "good" to who connects there, and sends each datagram back.
type gateway struct {
	all       sync.WaitGroup
	listeners []net.Listener
	good      netip.AddrPort

	mu    sync.Mutex
	noted []string
}

func (g *gateway) note(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.noted = append(g.noted, what)
}

func (g *gateway) Go(do func()) bool { g.all.Go(do); return true }

func (g *gateway) Listen(l *net.TCPListener, serve func(*net.TCPConn)) error {
	g.listeners = append(g.listeners, l)
	g.all.Go(func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			g.all.Go(func() { serve(c) })
		}
	})
	return nil
}

func (g *gateway) Admit(f *Flow) bool                                   { return f.To == g.good }
func (g *gateway) Refused(_ *Flow, why string)                          { g.note(why) }
func (g *gateway) RefusedUnix(name, why string, _ func() (int, string)) { g.note(name + " " + why) }
func (g *gateway) Relay(_ *Flow, back Back) func([]byte)                { return back.Say }

func (g *gateway) Carry(_ *Flow, c *net.TCPConn) {
	g.note("carried")
	_, _ = c.Write([]byte("good"))
	c.Close()
}

// supervised are calls that lead to a gateway of the tests.
func supervised(t *testing.T) (*Calls, *gateway) {
	t.Helper()
	g := &gateway{good: netip.MustParseAddrPort("192.0.2.7:80")}
	s, err := New(g)
	must.Do(t, err)
	t.Cleanup(func() {
		s.Close()
		for _, l := range g.listeners {
			_ = l.Close()
		}
		g.all.Wait()
	})
	return s, g
}

func tcpSocket(t *testing.T, family int) *socket {
	t.Helper()
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	k := &socket{fd: fd, family: family, kind: unix.SOCK_STREAM, protocol: unix.IPPROTO_TCP}
	t.Cleanup(k.close)
	return k
}

// self is a caller that nobody has to be asked about.
func self() *caller { return &caller{pidfd: -1, pid: os.Getpid(), comm: "test"} }

func heard(t *testing.T, k *socket) string {
	t.Helper()
	must.Do(t, unix.SetsockoptTimeval(k.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}))
	b := make([]byte, 16)
	n, err := unix.Read(k.fd, b)
	if err != nil {
		return err.Error()
	}
	return string(b[:n])
}

func TestASocketIsLedToWhatItAskedFor(t *testing.T) {
	s, g := supervised(t)
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		k := tcpSocket(t, family)
		if errno := s.connectTCP(self(), k, g.good); errno != 0 {
			t.Fatalf("family %d: %v", family, errno)
		}
		if got := heard(t, k); got != "good" {
			t.Errorf("family %d: %q", family, got)
		}
		if errno := s.connectTCP(self(), k, g.good); errno != unix.EISCONN {
			t.Errorf("family %d: once more: %v", family, errno)
		}
	}
	other := netip.AddrPortFrom(g.good.Addr(), g.good.Port()^1)
	if errno := s.connectTCP(self(), tcpSocket(t, unix.AF_INET), other); errno != unix.EACCES {
		t.Errorf("another port: %v", errno)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.expected); n != 0 {
		t.Errorf("%d are still expected", n)
	}
}

func TestNobodyElseIsServed(t *testing.T) {
	s, g := supervised(t)
	for _, l := range s.tcp {
		if !l.IsValid() {
			continue
		}
		c, err := net.Dial("tcp", l.String())
		if errors.Is(err, unix.ECONNRESET) {
			continue // as fast as that
		}
		must.Do(t, err)
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if b, err := io.ReadAll(c); len(b) > 0 || err == nil || os.IsTimeout(err) {
			t.Errorf("%s: %q, %v; want a reset", l, b, err)
		}
		c.Close()
	}
	if len(g.noted) != 0 {
		t.Errorf("%q", g.noted)
	}
}

func TestTheSameWayIsExpectedOnce(t *testing.T) {
	s, g := supervised(t)
	ends := route{netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")}
	now := time.Now()
	first, second := &expectation{self().flow("tcp", g.good), now}, &expectation{self().flow("tcp", g.good), now}
	if !s.expect(ends, first) || s.expect(ends, second) {
		t.Error("two sockets, one way")
	}
	second.since = now.Add(2 * expectedFor)
	if !s.expect(ends, second) {
		t.Error("what never came is still waited for")
	}
	s.forget(ends, first)
	if s.expected[ends] != second {
		t.Error("another's was forgotten")
	}
}

func TestTargets(t *testing.T) {
	v4 := &socket{family: unix.AF_INET, kind: unix.SOCK_STREAM}
	v6 := &socket{family: unix.AF_INET6, kind: unix.SOCK_STREAM}
	v6udp := &socket{family: unix.AF_INET6, kind: unix.SOCK_DGRAM}
	a4, a6 := netip.MustParseAddrPort("192.0.2.1:80"), netip.MustParseAddrPort("[2001:db8::1]:443")
	for name, c := range map[string]struct {
		k     *socket
		b     []byte
		want  netip.AddrPort
		errno unix.Errno
	}{
		"IPv4":                        {v4, v4.sockaddr(a4), a4, 0},
		"IPv6":                        {v6, v6.sockaddr(a6), a6, 0},
		"IPv4 in IPv6":                {v6, v6.sockaddr(a4), a4, 0},
		"IPv4 on a socket of IPv6":    {v6, v4.sockaddr(a4), netip.AddrPort{}, unix.EAFNOSUPPORT},
		"and for datagrams":           {v6udp, v4.sockaddr(a4), a4, 0},
		"IPv6 on a socket of IPv4":    {v4, v6.sockaddr(a6), netip.AddrPort{}, unix.EAFNOSUPPORT},
		"too short":                   {v4, v4.sockaddr(a4)[:8], netip.AddrPort{}, unix.EINVAL},
		"too short for IPv6":          {v6, v6.sockaddr(a6)[:16], netip.AddrPort{}, unix.EINVAL},
		"of another family":           {v4, make([]byte, 16), netip.AddrPort{}, unix.EAFNOSUPPORT},
		"longer than it has to be":    {v4, append(v4.sockaddr(a4), make([]byte, 90)...), a4, 0},
		"IPv6 without a scope (24 B)": {v6, v6.sockaddr(a6)[:24], a6, 0},
	} {
		if got, errno := c.k.target(c.b); got != c.want || errno != c.errno {
			t.Errorf("%s: %v, %v", name, got, errno)
		}
	}
}

func TestOnlyFamiliesThatAreLedCount(t *testing.T) {
	for _, k := range []socket{
		{family: unix.AF_INET, kind: unix.SOCK_STREAM, protocol: unix.IPPROTO_MPTCP},
		{family: unix.AF_INET, kind: unix.SOCK_DGRAM, protocol: unix.IPPROTO_ICMP},
		{family: unix.AF_INET, kind: unix.SOCK_DGRAM, protocol: unix.IPPROTO_UDPLITE},
		{family: unix.AF_VSOCK, kind: unix.SOCK_STREAM, protocol: unix.IPPROTO_TCP},
		{family: unix.AF_INET, kind: unix.SOCK_RAW, protocol: unix.IPPROTO_UDP},
	} {
		if k.tcp() || k.udp() {
			t.Errorf("%+v", k)
		}
	}
}

func TestBehind(t *testing.T) {
	all := []span{{100, 4}, {200, 0}, {300, 6}}
	for n, want := range map[uint64][]span{
		0: {{100, 4}, {300, 6}}, 3: {{103, 1}, {300, 6}}, 4: {{300, 6}}, 9: {{305, 1}}, 10: {}, 11: {},
	} {
		got := remaining(all, n)
		if len(got) != len(want) {
			t.Errorf("%d: %v", n, got)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%d: %v", n, got)
			}
		}
	}
}

func TestUnixSocketsAreToldApart(t *testing.T) {
	s, _ := supervised(t)
	dir := t.TempDir()
	var st unix.Statfs_t
	must.Do(t, unix.Statfs(dir, &st))
	open := func(name string) *socket {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must.Do(t, err)
		k := &socket{fd: fd, family: unix.AF_UNIX, kind: unix.SOCK_STREAM}
		t.Cleanup(k.close)
		must.Do(t, unix.Bind(fd, &unix.SockaddrUnix{Name: name}))
		must.Do(t, unix.Listen(fd, 1))
		return k
	}
	inside, outside := open(filepath.Join(dir, "in")), open(filepath.Join(dir, "out"))
	s.rememberBound(inside)
	all, err := linux.UnixSockets()
	if err != nil {
		t.Skip(err)
	}
	cookie := func(k *socket) uint64 {
		c, err := unix.GetsockoptUint64(k.fd, unix.SOL_SOCKET, unix.SO_COOKIE)
		must.Do(t, err)
		return c
	}
	for name, k := range map[string]*socket{"in": inside, "out": outside} {
		fd, err := unix.Open(filepath.Join(dir, name), unix.O_PATH|unix.O_CLOEXEC, 0)
		must.Do(t, err)
		defer unix.Close(fd)
		var st unix.Stat_t
		must.Do(t, unix.Fstat(fd, &st))
		dev, ok := device(fd)
		if !ok {
			t.Skip("a file system whose numbers are not the kernel's")
		}
		match := func(u *linux.UnixSocket) bool { return u.File && u.Ino == uint32(st.Ino) && u.Dev == dev }
		found := 0
		for i := range all {
			if u := &all[i]; match(u) {
				found++
				if u.Cookie != cookie(k) || u.Kind != unix.SOCK_STREAM || !strings.HasSuffix(string(bytes.TrimRight(u.Name, "\x00")), "/"+name) {
					t.Errorf("%s: %+v", name, u)
				}
			}
		}
		if found != 1 {
			t.Errorf("%s: %d sockets", name, found)
		}
		want := unix.EACCES
		if name == "in" {
			want = 0
		}
		if errno := s.judgeUnix(self(), k, name, match); errno != want {
			t.Errorf("%s: %v", name, errno)
		}
	}
	if errno := s.judgeUnix(self(), inside, "nobody", func(*linux.UnixSocket) bool { return false }); errno != unix.ECONNREFUSED {
		t.Errorf("nobody: %v", errno)
	}
	// One of the run's own and one of the host's by one name: it may be either.
	if errno := s.judgeUnix(self(), inside, "both", func(u *linux.UnixSocket) bool {
		return u.Cookie == cookie(inside) || u.Cookie == cookie(outside)
	}); errno != unix.EACCES {
		t.Errorf("both: %v", errno)
	}
}
