package egress

import (
	"context"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// TestWhatWasSaidArrivesAfterTheEnd, also at one who takes it slowly: the client is gone
// and the gateway closed while it is still under way.
func TestWhatWasSaidArrivesAfterTheEnd(t *testing.T) {
	for _, name := range []string{"", "ok.test"} {
		for _, answer := range []string{"", "something that nobody hears"} {
			c := conversation(t, anyone, name)
			_ = c.server.SetReadBuffer(64 << 10)
			text := "raw\n" + strings.Repeat("x", 512<<10)
			say(t, c.client, text)
			_ = c.client.Close()
			say(t, c.server, answer)
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				c.g.Close()
			}()
			<-c.ended // before the server has read anything
			got, err := io.ReadAll(c.server)
			if answer == "" && (err != nil || string(got) != text) {
				t.Errorf("%q: %d bytes of %d, %v", name, len(got), len(text), err)
			}
			<-closed
		}
	}
}

// TestASlowReaderGetsAllAfterTheEnd: what was sent goes on as long as it gets on. Of who reads
// nothing, it is told that something is lost.
func TestASlowReaderGetsAllAfterTheEnd(t *testing.T) {
	for _, reads := range []bool{true, false} {
		c := conversation(t, anyone, "")
		_ = c.server.SetReadBuffer(16 << 10)
		all := 3 << 20
		if !reads {
			all = 64 << 20 // more than sockets hold
		}
		go func() {
			_, _ = c.client.Write(make([]byte, all))
			_ = c.client.Close()
		}()
		got := 0
		b := make([]byte, 16<<10)
		if _, err := io.ReadFull(c.server, b); err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			c.g.Close()
		}()
		for got = len(b); reads && got < all; {
			n, err := c.server.Read(b)
			if got += n; err != nil {
				t.Fatalf("%d bytes, then %v", got, err)
			}
			time.Sleep(drainPatience / 100)
		}
		if reads {
			_ = c.server.Close()
		}
		<-closed
		want := [2]string{status.AttemptAllowed, ""}
		if !reads {
			want = [2]string{status.AttemptFailed, whyCut}
		}
		if a := <-c.told; a.Verdict != want[0] || a.Why != want[1] {
			t.Errorf("reads %v: told is %+v", reads, a)
		}
	}
}

// TestNobodyIsAnsweredAfterTheEnd: a lookup for somebody who is gone isn't waited for.
func TestNobodyIsAnsweredAfterTheEnd(t *testing.T) {
	g := gateway(t, plan.Network{Rules: allow("slow.test")}, nil)
	asked, gaveUp := make(chan struct{}), make(chan bool, 1)
	g.resolver.Lookup = func(ctx context.Context, _ string) ([]netip.Addr, error) {
		close(asked)
		<-ctx.Done()
		gaveUp <- g.ctx.Err() == nil
		return nil, ctx.Err()
	}
	query := "\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04slow\x04test\x00\x00\x01\x00\x01"
	g.all.Go(func() { g.resolve(&flow{protocol: "udp"}, []byte(query), false) })
	<-asked
	g.Close()
	if early := <-gaveUp; !early {
		t.Error("it was waited for until the last patience")
	}
}

func TestRoom(t *testing.T) {
	for descriptors, want := range map[uint64]int64{0: minFlows, 200: minFlows, forOthers: minFlows, forOthers + 3*100: 100, 1 << 20: (1<<20 - forOthers) / 3, 1<<64 - 1: (1<<20 - forOthers) / 3} {
		if got := roomIn(descriptors); got != want {
			t.Errorf("%d descriptors are for %d flows, want %d", descriptors, got, want)
		}
	}
	g := gateway(t, plan.Network{Rules: allow("ok.test")}, nil)
	for _, c := range []struct {
		room, asked, want int64
	}{{10, 0, 10}, {10, 20, 10}, {10, 5, 5}, {1 << 30, 0, defaultConnections}} {
		g.room = c.room
		g.now.Store(&plan.Network{MaxConnections: int(c.asked)})
		if got := g.most(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestPlacesAreCountedOnce: whoever finds none free is never counted as one of those that are open.
func TestPlacesAreCountedOnce(t *testing.T) {
	g := gateway(t, plan.Network{MaxConnections: 2}, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20_000 {
				if f := new(flow); g.begin(f) {
					g.end(f)
				}
			}
		})
	}
	all.Wait()
	if s := g.Summary(); s.Connections > 2 {
		t.Errorf("%d at one time, of 2", s.Connections)
	}
}

// TestGatewaysLeaveNothing: any number of them live in one process, and each takes with it what it had, also of flows
// that are open when it is closed.
func TestGatewaysLeaveNothing(t *testing.T) {
	before := [2]int{openDescriptors(t), runtime.NumGoroutine()}
	t.Run("gateways", func(t *testing.T) {
		var all sync.WaitGroup
		for range 3 {
			g := gateway(t, anyone, nil)
			l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
			must.Do(t, err)
			must.Do(t, g.listen(l, func(c *conn) { c.reset() }))
			for i := range 30 {
				c := converse(t, g, []string{"", "ok.test"}[i%2])
				if i%3 == 0 {
					continue // it stays open
				}
				all.Go(func() {
					text := "raw\n" + strings.Repeat("x", i<<15)
					if got, err := c.arrives(t, text, 1<<20); got != text || err != nil {
						t.Errorf("%d of %d bytes, %v", len(got), len(text), err)
					}
				})
			}
			all.Wait()
			all.Go(g.Close)
		}
		all.Wait()
	})
	for range 1000 {
		if openDescriptors(t) <= before[0] && runtime.NumGoroutine() <= before[1] {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d descriptors and %d goroutines, %v before", openDescriptors(t), runtime.NumGoroutine(), before)
}
