package loop

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// blackhole listens and takes nobody: who connects waits.
func blackhole(t *testing.T, address string) (port uint16) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	at := &unix.SockaddrInet4{Addr: netip.MustParseAddr(address).As4()}
	must(t, errors.Join(unix.Bind(fd, at), unix.Listen(fd, 0)))
	name, err := unix.Getsockname(fd)
	must(t, err)
	at = name.(*unix.SockaddrInet4)
	for range 4 { // full with one or two
		c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		must(t, err)
		t.Cleanup(func() { unix.Close(c) })
		_ = unix.Connect(c, at)
	}
	return uint16(at.Port)
}

func TestDialTakesTheFirstThatAnswers(t *testing.T) {
	const waits, answers, refuses = "127.1.0.1", "127.1.0.2", "127.1.0.3"
	port := blackhole(t, waits)
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(answers), port)))
	must(t, err)
	defer l.Close()
	list := func(all ...string) (list []netip.Addr) {
		for _, a := range all {
			list = append(list, netip.MustParseAddr(a))
		}
		return list
	}
	x := started(t)
	dial := func(list []netip.Addr, then func(*Conn)) (err error) {
		x.in(func() {
			var c *Conn
			if c, err = x.Dial(new(Dialer), list, port, time.Minute); err == nil {
				then(c)
				c.Close()
			}
		})
		return err
	}
	for _, all := range [][]string{{answers}, {answers, waits}, {refuses, answers}, {waits, answers}, {waits, refuses, answers}, {refuses, refuses, waits, answers}} {
		var to string
		err := dial(list(all...), func(c *Conn) { to = c.RemoteAddr().Addr().String() })
		if err != nil {
			t.Errorf("%v: %v", all, err)
			continue
		}
		if to != answers {
			t.Errorf("%v: connected to %s", all, to)
		}
	}
	if err := dial(list(refuses, refuses), nil); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("nobody answers: %v", err)
	}
	if err := dial(nil, nil); err == nil {
		t.Error("connected to nobody")
	}
	var d Dialer
	ended := make(chan error, 1)
	x.Start(func() {
		_, err := x.Dial(&d, list(waits), port, time.Hour)
		ended <- err
	})
	x.Post(d.Cancel)
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("cancelled: %v", err)
	}
	x.Start(func() {
		_, err := x.Dial(new(Dialer), list(waits, waits), port, time.Millisecond)
		ended <- err
	})
	if err := <-ended; !errors.Is(err, unix.ETIMEDOUT) {
		t.Errorf("out of patience: %v", err)
	}
}
