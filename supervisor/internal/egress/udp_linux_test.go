package egress

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// udpListenerOf is one that nothing arrives at but what the test takes.
func udpListenerOf(t *testing.T, g *Gateway) *udpListener {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must.Do(t, err)
	t.Cleanup(func() { c.Close() })
	return &udpListener{g: g, conn: c, redirected: true, flows: map[[2]netip.AddrPort]*session{}}
}

// source is one of many that datagrams come from.
func source(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, 0, 2}), uint16(1024+i))
}

// meantBy is the address that stands for a name.
func meantBy(t *testing.T, g *Gateway, name string, port uint16) netip.AddrPort {
	t.Helper()
	pair, err := g.pool.Give(name)
	must.Do(t, err)
	return netip.AddrPortFrom(pair.V4, port)
}

// TestDatagramsThatWaitAreBounded: a target that asks for a name which nobody answers
// for could fill the memory of the supervisor, which no limit of the run bounds.
func TestDatagramsThatWaitAreBounded(t *testing.T) {
	g := gateway(t, plan.Network{Rules: allow("slow.test")}, nil)
	asked := make(chan struct{}, 1000)
	g.resolver.Lookup = func(ctx context.Context, _ string) ([]netip.Addr, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	d, to := udpListenerOf(t, g), meantBy(t, g, "slow.test", 1006)
	payload := make([]byte, 60000)
	var sessions []*session
	for i := range 30 {
		for range datagramsHeld {
			d.take(source(i), to, payload)
		}
		d.mu.Lock()
		sessions = append(sessions, d.flows[[2]netip.AddrPort{source(i), to}])
		d.mu.Unlock()
	}
	<-asked // it waits for the name
	held := 0
	for _, e := range sessions {
		held += len(e.queue) * len(payload)
	}
	if held == 0 || held > bytesHeld {
		t.Errorf("%d bytes wait", held)
	}
	if got := g.held.Load(); got != int64(held) {
		t.Errorf("%d bytes are counted, and %d wait", got, held)
	}
	g.Close()
	if got := g.held.Load(); got != 0 {
		t.Errorf("%d bytes are still counted", got)
	}
}

// echo answers datagrams.
func echo(t *testing.T) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must.Do(t, err)
	t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, maxDatagram)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	return endpoint(c.LocalAddr())
}

// TestAnswersCountToo: what comes back uses the limit of bytes up like what goes out, and is told so.
func TestAnswersCountToo(t *testing.T) {
	server := echo(t)
	told := make(chan status.Attempt, 10)
	g := gateway(t, plan.Network{Rules: allow("echo.test"), MaxBytes: 1500}, map[string][]string{"echo.test.": {"127.0.0.1"}})
	g.log.tell = func(a status.Attempt) { told <- a }
	d := udpListenerOf(t, g)
	d.take(source(0), meantBy(t, g, "echo.test", server.Port()), make([]byte, 1000))
	if a := <-told; a.Verdict != status.AttemptBlocked || a.Why != whyBytes {
		t.Errorf("told is %+v", a)
	}
	g.Close()
	if s := g.Summary(); !s.Exhausted {
		t.Errorf("the summary is %+v", s)
	}
	if len(told) > 0 {
		t.Errorf("told twice: %+v", <-told)
	}
}
