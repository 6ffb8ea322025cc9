package egress

import (
	"io"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
)

// A head that has begun has to be whole soon, however its bytes come. Between two there is
// no hurry.
func TestAHeadHasToBeWholeSoon(t *testing.T) {
	g := gateway(t, anyone, nil)
	g.patience.hello = 50 * time.Millisecond
	c := converse(t, g, "ok.test")
	for range 2 {
		say(t, c.client, good)
		hear(t, c.server, good)
		time.Sleep(2 * g.patience.hello)
	}
	say(t, c.client, "GET /")
	for range 2000 {
		select {
		case <-c.ended:
			if a := <-c.told; a.Verdict != status.AttemptBlocked || a.Why != whySlow {
				t.Errorf("told is %+v", a)
			}
			return
		case <-time.After(g.patience.hello / 10):
			_, _ = io.WriteString(c.client, "x")
		}
	}
	t.Error("it is waited for")
}

// A hello that stays half is none that was let through.
func TestAHelloHasToBeWholeSoon(t *testing.T) {
	g := gateway(t, anyone, nil)
	g.patience.hello = 20 * time.Millisecond
	c := converse(t, g, "ok.test")
	say(t, c.client, "\x16\x03\x01\x00\xff\x01\x00")
	if a := <-c.told; a.Verdict != status.AttemptBlocked || a.Why != whySlow || a.SentBytes != 0 {
		t.Errorf("told is %+v", a)
	}
	<-c.ended
}

// Who asks over a connection that there is no place for is told of, as any other is.
func TestQuestionsThatThereIsNoPlaceForAreTold(t *testing.T) {
	for _, full := range []bool{false, true} {
		g := gateway(t, plan.Network{MaxConnections: 1}, nil)
		if other := (&flow{}); full && !g.begin(other) {
			t.Fatal("there is no place at all")
		} else if full {
			defer g.end(other)
		}
		client, near := pair(t)
		must.Do(t, client.CloseWrite())
		c := newConn(near)
		over := make(chan struct{})
		g.all.Go(func() {
			defer close(over)
			g.questionsOf(&flow{protocol: "tcp", to: netip.MustParseAddrPort("198.18.0.1:53")}, c)
		})
		<-over
		s := g.Summary()
		if s.Exhausted != full || (len(s.Attempts) == 1) != full {
			t.Errorf("full %v: %+v", full, s)
		}
		if full && (s.Attempts[0].What != "198.18.0.1:53" || s.Attempts[0].Verdict != status.AttemptBlocked || s.Attempts[0].Why != whyConnections) {
			t.Errorf("%+v", s.Attempts[0])
		}
	}
}

// Whoever asks and never hears the answers keeps no place.
func TestWhoNeverReadsItsAnswersIsLeft(t *testing.T) {
	g := gateway(t, plan.Network{}, nil)
	g.patience.idle = 50 * time.Millisecond
	client, near := pair(t)
	must.Do(t, client.SetReadBuffer(4<<10))
	must.Do(t, near.SetWriteBuffer(4<<10))
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{
		Name: dnsmessage.MustNewName("refused.test."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
	}}}
	query, err := m.Pack()
	must.Do(t, err)
	query = append([]byte{0, byte(len(query))}, query...)
	c := newConn(near)
	over := make(chan struct{})
	g.all.Go(func() {
		defer close(over)
		g.questionsOf(&flow{protocol: "tcp"}, c)
	})
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for err := error(nil); err == nil; _, err = client.Write(query) {
		}
	}()
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Error("its place is kept")
	}
	_ = client.Close()
	<-asked
}
