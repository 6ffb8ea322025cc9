package egress

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// echoes serves what it is sent, on a port of loopback.
func echoes(t *testing.T) (port uint16) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.Do(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return endpoint(l.Addr()).Port()
}

// connected is a connection of somebody inside to a name, or to the caller's loopback.
func connected(t *testing.T, g *Gateway, name string, port uint16) (client *net.TCPConn, ended chan struct{}) {
	t.Helper()
	client, near := pair(t)
	f := &flow{protocol: "tcp", from: netip.MustParseAddrPort("198.18.0.2:1000"), use: handoff.UseLocalhost, to: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)}
	if name != "" {
		f.use, f.to = handoff.UseConnect, meantBy(t, g, name, port)
	}
	ended = make(chan struct{})
	g.all.Go(func() {
		defer close(ended)
		g.carry(f, newConn(near))
	})
	return client, ended
}

// talks says whether something that is said comes back.
func talks(c *net.TCPConn) bool {
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	defer func() { _ = c.SetDeadline(time.Time{}) }()
	if _, err := io.WriteString(c, "raw\n"); err != nil {
		return false
	}
	_, err := io.ReadFull(c, make([]byte, 4))
	return err == nil
}

func TestSwapEndsWhatIsNotAllowedAnyMore(t *testing.T) {
	port := echoes(t)
	with := ":" + strconv.Itoa(int(port))
	here := "127.0.0.1" + with
	policies := map[string]network.Policy{
		"nothing":         {},
		"another name":    {Allow: []string{"other.test", here}},
		"another port":    {Allow: []string{"ok.test:1", here}},
		"denied":          {Allow: []string{"*", here}, Deny: []string{"ok.test"}},
		"address denied":  {Allow: []string{"*"}, Deny: []string{"127.0.0.0/8"}},
		"internal":        {Allow: []string{"*"}, BlockInternal: true},
		"other protocol":  {Allow: []string{"https://ok.test" + with, here}},
		"some paths":      {Allow: []string{"http://ok.test" + with + "/only", here}},
		"the same":        {Allow: []string{"ok.test", here}},
		"more":            {Allow: []string{"*", here}},
		"by another word": {Allow: []string{"*.test", here}},
	}
	stays := map[string]bool{"the same": true, "more": true, "by another word": true}
	for name, p := range policies {
		t.Run(name, func(t *testing.T) {
			g := gateway(t, plan.Network{Rules: allow("ok.test", here)}, map[string][]string{"ok.test.": {"127.0.0.1"}})
			defer g.Close()
			c, ended := connected(t, g, "ok.test", port)
			if !talks(c) {
				t.Fatal("it doesn't talk before")
			}
			must.Do(t, g.Swap(&plan.Network{Rules: rules(p)}, false))
			if got := talks(c); got != stays[name] {
				t.Errorf("it talks afterwards: %v", got)
			}
			_ = c.Close()
			<-ended
			s := g.Summary()
			want := status.AttemptBlocked
			if stays[name] {
				want = status.AttemptAllowed
			}
			if len(s.Attempts) != 1 || s.Attempts[0].Verdict != want || s.Attempts[0].SentBytes < 4 || s.Attempts[0].Address != "127.0.0.1" {
				t.Errorf("told: %+v", s.Attempts)
			}
		})
	}
}

// TestWhatIsGivenLaterIsReached: by a name that was refused, and whose address is known inside since.
func TestWhatIsGivenLaterIsReached(t *testing.T) {
	port := echoes(t)
	g := gateway(t, plan.Network{Rules: allow("*")}, map[string][]string{"ok.test.": {"127.0.0.1"}})
	defer g.Close()
	must.Do(t, g.Swap(&plan.Network{}, false))
	for range 2 { // the answer of before is worth nothing
		c, ended := connected(t, g, "ok.test", port)
		<-ended
		if talks(c) {
			t.Fatal("it is reached without a rule")
		}
	}
	must.Do(t, g.Swap(&plan.Network{Rules: allow("ok.test", "127.0.0.1")}, false))
	c, _ := connected(t, g, "ok.test", port)
	if !talks(c) {
		t.Error("it isn't reached")
	}
	_ = c.Close()
}

// TestLimitsThatComeLaterHold: of bytes, for what is open already.
func TestLimitsThatComeLaterHold(t *testing.T) {
	port := echoes(t)
	all := allow("localhost:" + strconv.Itoa(int(port)))
	g := gateway(t, plan.Network{Rules: all}, nil)
	defer g.Close()
	c, ended := connected(t, g, "", port)
	if !talks(c) {
		t.Fatal("it doesn't talk before")
	}
	must.Do(t, g.Swap(&plan.Network{Rules: all, MaxBytes: 10}, false))
	if talks(c) {
		t.Error("more passes than may")
	}
	<-ended
	if s := g.Summary(); !s.Exhausted {
		t.Errorf("%+v", s)
	}
}

// TestNoConnectionOutlivesASwap: connections are made all the time, while rules come that refuse them. Whatever stage one is
// in, nothing of it is left when Swap has returned, and nothing passes.
func TestNoConnectionOutlivesASwap(t *testing.T) {
	port := echoes(t)
	yes, no := plan.Network{Rules: allow("localhost:" + strconv.Itoa(int(port)))}, plan.Network{}
	g := gateway(t, yes, nil)
	defer g.Close()
	for round := range 60 {
		must.Do(t, g.Swap(&yes, false))
		stop := make(chan struct{})
		var making sync.WaitGroup
		var mu sync.Mutex
		var made []*net.TCPConn
		for range 4 {
			making.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					c, _ := connected(t, g, "", port)
					mu.Lock()
					made = append(made, c)
					mu.Unlock()
				}
			})
		}
		time.Sleep(time.Duration(round%7) * 300 * time.Microsecond)
		must.Do(t, g.Swap(&no, false))
		close(stop)
		making.Wait()
		for i, c := range made {
			_ = c.SetDeadline(time.Now().Add(5 * time.Second))
			_, err := io.WriteString(c, "raw\n")
			n := 0
			if err == nil {
				n, err = io.ReadFull(c, make([]byte, 4))
			}
			if n > 0 || err == nil || isTimeout(err) || errors.Is(err, net.ErrClosed) {
				t.Fatalf("round %d: connection %d of %d: %d bytes came back, %v", round, i, len(made), n, err)
			}
			_ = c.Close()
		}
	}
}

// TestASwapWhileItIsDialledCounts: the flow was judged, and its address too, by rules that hold no more when it gets there.
func TestASwapWhileItIsDialledCounts(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.Do(t, err)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
			_, _ = io.WriteString(c, "welcome") // the client's first word would be judged once more
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	port := endpoint(l.Addr()).Port()
	p := rules(network.Policy{Allow: []string{"ok.test", "127.0.0.1"}, BlockInternal: true})
	g := gateway(t, plan.Network{Rules: p}, map[string][]string{"ok.test.": {"127.0.0.1"}})
	defer g.Close()
	g.own = func(netip.Addr, *flow) bool {
		must.Do(t, g.Swap(&plan.Network{}, false))
		return false
	}
	c, ended := connected(t, g, "ok.test", port)
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if n, err := c.Read(make([]byte, 10)); n > 0 || isTimeout(err) {
		t.Errorf("it got through: %d bytes, %v", n, err)
	}
	_ = c.Close()
	<-ended
	if s := g.Summary(); len(s.Attempts) != 1 || s.Attempts[0].Verdict != status.AttemptBlocked {
		t.Errorf("told: %+v", s.Attempts)
	}
}

// TestSwapEndsDatagramsToo, those of a session that has begun, and of one that would begin.
func TestSwapEndsDatagramsToo(t *testing.T) {
	server := echo(t)
	g := gateway(t, plan.Network{Rules: allow("echo.test", "127.0.0.1")}, map[string][]string{"echo.test.": {"127.0.0.1"}})
	told := make(chan status.Attempt, 10)
	g.log.tell = func(a status.Attempt) { told <- a }
	d, to := udpListenerOf(t, g), meantBy(t, g, "echo.test", server.Port())
	d.take(source(0), to, []byte("before"))
	d.mu.Lock()
	e := d.flows[[2]netip.AddrPort{source(0), to}]
	d.mu.Unlock()
	for e.received.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	must.Do(t, g.Swap(&plan.Network{}, false))
	if a := <-told; a.Verdict != status.AttemptBlocked || a.SentBytes != 6 || a.ReceivedBytes != 6 {
		t.Errorf("told is %+v", a)
	}
	for range 1000 {
		d.mu.Lock()
		left := len(d.flows)
		d.mu.Unlock()
		if left == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	d.take(source(0), to, []byte("after"))
	g.Close()
	s := g.Summary()
	if len(s.Attempts) != 1 || s.Attempts[0].Count != 2 || s.Attempts[0].SentBytes != 6 {
		t.Errorf("%+v", s.Attempts)
	}
}

// TestPortsThatNobodyListensOnAreNotPromised where flows can't be led to the gateway: nothing changes.
func TestPortsThatNobodyListensOnAreNotPromised(t *testing.T) {
	g := gateway(t, plan.Network{Rules: allow("ok.test:80")}, nil)
	defer g.Close()
	g.sockets.served[80] = true
	for want, p := range map[PortError]network.Policy{81: {Allow: []string{"ok.test:81"}}, 0: {Allow: []string{"ok.test"}}} {
		var port PortError
		if err := g.Swap(&plan.Network{Rules: rules(p)}, true); !errors.As(err, &port) || port != want {
			t.Errorf("%v: %v", p, err)
		}
		if !g.rules().Connect("ok.test", 80).Allowed {
			t.Error("something has changed")
		}
	}
	for _, p := range []network.Policy{{}, {Allow: []string{"other.test:80"}}, {Allow: []string{"other.test"}, Ports: []int{80}}} {
		if err := g.Swap(&plan.Network{Rules: rules(p)}, true); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
}
