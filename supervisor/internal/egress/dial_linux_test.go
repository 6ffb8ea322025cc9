package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/supervisor/internal/egress/names"
)

// own4 and own6 are what the host of the tests has.
const own4, own6 = "93.184.216.2", "2606:2800:220:1::2"

// rules are compiled as the planner does.
func rules(p network.Policy) network.Rules {
	r, err := network.Compile(p)
	if err != nil {
		panic(err)
	}
	return *r
}

// allow are rules that allow these words, and don't block internal addresses.
func allow(words ...string) network.Rules { return rules(network.Policy{Allow: words}) }

// gateway is one whose names are those of zone, and nothing is asked of anybody else.
func gateway(t *testing.T, p plan.Network, zone map[string][]string) *Gateway {
	t.Helper()
	g, err := New(&p, nil)
	must.Do(t, err)
	g.Inside(-1)
	g.resolver = names.Resolver{Lookup: func(_ context.Context, name string) (list []netip.Addr, err error) {
		words, ok := zone[name]
		if !ok {
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		}
		for _, word := range words {
			list = append(list, netip.MustParseAddr(word))
		}
		return list, nil
	}}
	g.own = func(a netip.Addr, _ *flow) bool {
		return a == netip.MustParseAddr(own4) || a == netip.MustParseAddr(own6)
	}
	return g
}

func TestAddresses(t *testing.T) {
	zone := map[string][]string{
		"ok.test.":     {"93.184.216.34", "2606:2800::34"},
		"both.test.":   {"10.0.0.1", "93.184.216.34", "::1"},
		"ten.test.":    {"10.0.0.1"},
		"own.test.":    {own4, own6},
		"mapped.test.": {"::ffff:127.0.0.1", "::ffff:" + own4, "::ffff:93.184.216.34"},
		"zone.test.":   {"fe80::1%1"},
	}
	for name, c := range map[string]struct {
		allow []string
		open  bool // BlockInternal=false
		name  string
		addr  string
		use   handoff.Use
		want  []string
		why   network.Reason
		err   error
	}{
		"all of a name":                 {allow: []string{"ok.test"}, name: "ok.test", want: []string{"93.184.216.34", "2606:2800::34"}},
		"those that are not internal":   {allow: []string{"both.test"}, name: "both.test", want: []string{"93.184.216.34"}},
		"none":                          {allow: []string{"ten.test"}, name: "ten.test", why: network.ReasonInternal, err: errRefused},
		"an internal one that is named": {allow: []string{"ten.test", "10.0.0.0/8"}, name: "ten.test", want: []string{"10.0.0.1"}},
		"internal ones are open":        {allow: []string{"both.test"}, open: true, name: "both.test", want: []string{"10.0.0.1", "93.184.216.34", "::1"}},
		"the host's own":                {allow: []string{"own.test"}, name: "own.test", why: network.ReasonInternal, err: errRefused},
		"the host's own, in a range":    {allow: []string{"own.test", "93.184.216.0/24"}, name: "own.test", why: network.ReasonInternal, err: errRefused},
		"the host's own, by its number": {allow: []string{"own.test", own4}, name: "own.test", want: []string{own4}},
		"the host's own are open":       {allow: []string{"own.test"}, open: true, name: "own.test", want: []string{own4, own6}},
		"mapped into IPv6":              {allow: []string{"mapped.test"}, name: "mapped.test", want: []string{"93.184.216.34"}},
		"with a zone":                   {allow: []string{"zone.test"}, name: "zone.test", why: network.ReasonInternal, err: errRefused},
		"no such name":                  {allow: []string{"no.test"}, name: "no.test", err: names.ErrNotFound},
		"a bare address":                {allow: []string{"93.184.216.0/24"}, addr: "93.184.216.34", want: []string{"93.184.216.34"}},
		"a bare one of the host's":      {allow: []string{"93.184.216.0/24"}, addr: own4, why: network.ReasonInternal, err: errRefused},
		"a bare one, by its number":     {allow: []string{own6}, addr: own6, want: []string{own6}},
		"localhost":                     {allow: []string{"localhost"}, addr: "127.0.0.1", use: handoff.UseLocalhost, want: []string{"127.0.0.1", "::1"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := gateway(t, plan.Network{Rules: rules(network.Policy{Allow: c.allow, BlockInternal: !c.open})}, zone)
			to := "198.18.0.16"
			if c.addr != "" {
				to = c.addr
			}
			f := &flow{name: c.name, to: netip.AddrPortFrom(netip.MustParseAddr(to), 80), use: c.use, verdict: network.Verdict{Allowed: true}}
			list, err := g.addresses(t.Context(), f)
			var got []string
			for _, a := range list {
				got = append(got, a.String())
			}
			if !errors.Is(err, c.err) || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v, %v; want %v, %v", got, err, c.want, c.err)
			}
			if c.why != "" && f.verdict.Why != c.why {
				t.Errorf("it is %q, want %q", f.verdict.Why, c.why)
			}
		})
	}
}

func TestOwnAddressesThatAreUnknownAreAll(t *testing.T) {
	for _, c := range []struct {
		kind uint8
		err  error
		own  bool
	}{
		{unix.RTN_UNICAST, nil, false},
		{unix.RTN_LOCAL, nil, true},
		{unix.RTN_ANYCAST, nil, true},
		{unix.RTN_BROADCAST, nil, true},
		{0, unix.EMFILE, true},
		{0, unix.EAGAIN, true},
		{0, unix.ENETUNREACH, false}, // and it isn't reached
		{0, unix.EHOSTUNREACH, false},
	} {
		if own := staysHere(c.kind, c.err); own != c.own {
			t.Errorf("%d, %v: %v", c.kind, c.err, own)
		}
	}
}

// Datagrams to localhost go to whichever of its two addresses a server is at.
func TestDatagramsGoWhereTheServerIs(t *testing.T) {
	g := gateway(t, plan.Network{Rules: allow("localhost")}, nil)
	for _, c := range []struct{ network, at, want string }{
		{"udp4", "127.0.0.1:0", "127.0.0.1"}, {"udp4", "0.0.0.0:0", "127.0.0.1"}, {"udp6", "[::1]:0", "::1"}, {"udp6", "[::]:0", "::1"},
	} {
		s, err := net.ListenPacket(c.network, c.at)
		if err != nil {
			t.Logf("%s: %v", c.at, err) // no IPv6
			continue
		}
		port := uint16(s.LocalAddr().(*net.UDPAddr).Port)
		f := &flow{protocol: "udp", use: handoff.UseLocalhost, to: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)}
		list, err := g.addresses(t.Context(), f)
		if err != nil || len(list) != 1 || list[0].String() != c.want {
			t.Errorf("%s: %v, %v", c.at, list, err)
		}
		f.protocol = "tcp"
		if list, _ := g.addresses(t.Context(), f); len(list) != 2 {
			t.Errorf("%s, TCP: %v", c.at, list)
		}
		_ = s.Close()
		if got := servedAt(port).String(); got != "127.0.0.1" {
			t.Errorf("%s, closed: %s", c.at, got)
		}
	}
}

// blackhole listens and takes nobody: who connects waits.
func blackhole(t *testing.T, address string) (port uint16) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	at := &unix.SockaddrInet4{Addr: netip.MustParseAddr(address).As4()}
	must.Do(t, errors.Join(unix.Bind(fd, at), unix.Listen(fd, 0)))
	name, err := unix.Getsockname(fd)
	must.Do(t, err)
	at = name.(*unix.SockaddrInet4)
	for range 4 { // full with one or two
		c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		must.Do(t, err)
		t.Cleanup(func() { unix.Close(c) })
		_ = unix.Connect(c, at)
	}
	return uint16(at.Port)
}

func addrs(all ...string) (list []netip.Addr) {
	for _, a := range all {
		list = append(list, netip.MustParseAddr(a))
	}
	return list
}

func TestDialTakesTheFirstThatAnswers(t *testing.T) {
	const waits, answers, refuses = "127.1.0.1", "127.1.0.2", "127.1.0.3"
	port := blackhole(t, waits)
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(answers), port)))
	must.Do(t, err)
	defer l.Close()
	for _, all := range [][]string{{answers}, {answers, waits}, {refuses, answers}, {waits, answers}, {waits, refuses, answers}, {refuses, refuses, waits, answers}} {
		c, err := dialTCP(t.Context(), addrs(all...), port)
		if err != nil {
			t.Errorf("%v: %v", all, err)
			continue
		}
		if to := endpoint(c.RemoteAddr()).Addr().String(); to != answers {
			t.Errorf("%v: connected to %s", all, to)
		}
		_ = c.Close()
	}
	if _, err := dialTCP(t.Context(), addrs(refuses, refuses), port); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("nobody answers: %v", err)
	}
	if _, err := dialTCP(t.Context(), nil, port); err == nil {
		t.Error("connected to nobody")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := dialTCP(ctx, addrs(waits, waits), port); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("out of patience: %v", err)
	}
}

// A name with many addresses where nobody answers takes no more descriptors than any other.
func TestDialTakesFewDescriptors(t *testing.T) {
	const waits = "127.1.1.1"
	port := blackhole(t, waits)
	ctx, cancel := context.WithTimeout(t.Context(), 4*headStart)
	defer cancel()
	before, most := openDescriptors(t), 0
	ended := make(chan error, 1)
	go func() {
		_, err := dialTCP(ctx, addrs(waits, waits, waits, waits), port)
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if most-before > maxTried {
				t.Errorf("%d descriptors", most-before)
			}
			if now := openDescriptors(t); now > before {
				t.Errorf("%d descriptors are left", now-before)
			}
			return
		case <-time.After(headStart / 4): // only to look now and then
			most = max(most, openDescriptors(t))
		}
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	return len(all)
}

// Where nobody listens, a socket on the same host may be given just that port, and so be
// connected to itself: that would keep the port from who is to listen there.
func TestASocketConnectedToItselfIsTold(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	must.Do(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := unix.Getsockname(fd)
	must.Do(t, err)
	must.Do(t, unix.Connect(fd, at))
	c, err := net.FileConn(f)
	must.Do(t, err)
	defer c.Close()
	if !toItself(c) {
		t.Error("it isn't")
	}
	if other, _ := pair(t); toItself(other) {
		t.Error("another is, too")
	}
}
