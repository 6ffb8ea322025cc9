package egress

import (
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/plan"
)

// Sessions of datagrams that wait hold no buffer, whatever came before.
func TestDatagramsThatWaitHoldNothing(t *testing.T) {
	const all, size = 200, 60_000
	g := gateway(t, plan.Network{}, nil)
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must.Do(t, err)
	defer server.Close()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what lies in pools goes with the second
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	big := make([]byte, size)
	before := heap()
	for range all {
		conn, err := net.Dial("udp4", server.LocalAddr().String())
		must.Do(t, err)
		e := &session{flow: flow{from: source(0), to: source(1)}, listener: &udpListener{g: g, redirected: true}}
		over := make(chan string)
		go func() { over <- e.answers(conn) }()
		defer func() {
			conn.Close()
			<-over
		}()
		if _, err := server.WriteTo(big, conn.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		for e.received.Load() < size {
			runtime.Gosched()
		}
	}
	if held := int64(heap()) - int64(before); held > all*size/4 {
		t.Errorf("%d sessions hold %d bytes", all, held)
	}
}

// Nobody asks a question as long as a message can be: it isn't waited for.
func TestLongQuestionsAreNotKept(t *testing.T) {
	g := gateway(t, plan.Network{}, nil)
	client, near := pair(t)
	c := newConn(near)
	g.all.Go(func() {
		g.questionsOf(&flow{protocol: "tcp"}, c)
	})
	if _, err := client.Write([]byte{0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	_ = client.SetReadDeadline(time.Now().Add(questionsIdle / 2))
	if _, err := client.Read(make([]byte, 1)); isTimeout(err) {
		t.Error("it is waited for")
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}
