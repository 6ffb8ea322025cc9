package egress

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress/peek"
)

// pair is the two ends of a connection over loopback.
func pair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must.Do(t, err)
	defer l.Close()
	a, err = net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr))
	must.Do(t, err)
	b, err = l.AcceptTCP()
	must.Do(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// talk is a client inside and a server outside with a gateway between them.
type talk struct {
	g              *Gateway
	client, server *net.TCPConn
	ended          chan struct{}
	told           chan status.Attempt
}

// conversation begins one with the name ok.test, or with an address.
func conversation(t *testing.T, p plan.Network, name string) *talk {
	t.Helper()
	return converse(t, gateway(t, p, nil), name)
}

func converse(t *testing.T, g *Gateway, name string) *talk {
	t.Helper()
	c := &talk{g: g, ended: make(chan struct{}), told: make(chan status.Attempt, 4)}
	g.log.tell = func(a status.Attempt) { c.told <- a }
	var near, far *net.TCPConn
	c.client, near = pair(t)
	far, c.server = pair(t)
	inside, outside := newConn(near), newConn(far)
	f := &flow{protocol: "tcp", from: endpoint(c.client.LocalAddr()), to: netip.MustParseAddrPort("192.0.2.1:80"), name: name}
	if name != "" {
		f.to = meantBy(t, g, "ok.test", 80)
	}
	if !g.begin(f) {
		t.Fatal("there is no place for a flow")
	}
	f.onAbort(inside.reset)
	f.onAbort(outside.reset)
	g.all.Go(func() {
		defer close(c.ended)
		defer g.end(f)
		g.relay(f, inside, outside)
	})
	return c
}

// reset ends a connection as a refusal would.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// arrives is all that the server gets, when the client says this in pieces of so many bytes
// and ends.
func (c *talk) arrives(t *testing.T, text string, size int) (got string, err error) {
	t.Helper()
	go func() {
		for len(text) > 0 {
			n := min(size, len(text))
			if _, err := io.WriteString(c.client, text[:n]); err != nil {
				return
			}
			text = text[n:]
		}
		_ = c.client.CloseWrite()
	}()
	b, err := io.ReadAll(c.server)
	return string(b), err
}

// say writes a text, and hear waits until exactly that has arrived.
func say(t *testing.T, c io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c io.Reader, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("%d bytes of %d, equal %v, %v", n, len(text), string(got) == text, err)
	}
}

var anyone = plan.Network{Rules: allow("ok.test", "192.0.2.1")}

const (
	good = "GET /1 HTTP/1.1\r\nHost: ok.test\r\n\r\n"
	evil = "GET /2 HTTP/1.1\r\nHost: evil.test\r\n\r\n"
)

// TestWhatArrives: however the client cuts what it says, the server gets the same, and
// nothing of what isn't for it.
func TestWhatArrives(t *testing.T) {
	post := "POST /sum HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("x", 5000)
	chunked := "POST /sum HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	for name, c := range map[string]struct{ said, arrives, why string }{
		"one request":                 {good, good, ""},
		"two":                         {good + good, good + good, ""},
		"another host":                {evil, "", whyHost},
		"another host, second":        {good + evil, good, whyHost},
		"another host, behind a body": {post + evil, post, whyHost},
		"another host, behind chunks": {chunked + evil, chunked, whyHost},
		"a body that holds a request": {"POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 36\r\n\r\n" + evil, "POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 36\r\n\r\n" + evil, ""},
		"two lengths":                 {"POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "", "bad_length"},
		"half a head":                 {"GET / HTTP/1.1\r\nHost: ok.te", "", "unfinished"},
		"a tunnel":                    {"CONNECT ok.test:80 HTTP/1.1\r\nHost: ok.test\r\n\r\n", "", "tunnel"},
		"another protocol":            {"EHLO ok.test\r\nQUIT\r\n", "EHLO ok.test\r\nQUIT\r\n", ""},
		"half a line of another":      {"nonsense", "nonsense", ""},
		"nothing":                     {"", "", ""},
		"bytes":                       {"\x00\x01\x02" + evil, "\x00\x01\x02" + evil, ""},
		"HTTP/2":                      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", "http2"},
		"SOCKS":                       {"\x05\x01\x00", "", "socks"},
		"TLS with no hello":           {"\x16\x03\x01\x00\x04\x02\x00\x00\x00", "", "not_hello"},
		"half a hello":                {"\x16\x03\x01\x00\xff\x01\x00", "", "unfinished"},
	} {
		for _, size := range []int{1, 7, 1 << 16} {
			t.Run(name, func(t *testing.T) {
				talk := conversation(t, anyone, "ok.test")
				got, err := talk.arrives(t, c.said, size)
				if c.why == "" && err != nil {
					t.Errorf("in pieces of %d: %v", size, err)
				}
				// A reset may throw away what the server hasn't read, and the first line of what
				// is refused may have been sent: a server does nothing for half a line.
				if line, _, _ := strings.Cut(strings.TrimPrefix(c.said, c.arrives), "\n"); c.why != "" && !strings.HasPrefix(c.arrives+line, got) || c.why == "" && got != c.arrives {
					t.Errorf("in pieces of %d the server gets %q, want %q", size, got, c.arrives)
				}
				_ = talk.server.Close()
				<-talk.ended
				a := <-talk.told
				if c.why != "" && (a.Verdict != status.AttemptBlocked || a.Why != c.why) || c.why == "" && a.Verdict != status.AttemptAllowed {
					t.Errorf("in pieces of %d: told is %+v, want %q", size, a, c.why)
				}
			})
		}
	}
}

// TestNothingIsLookedAtByAddress: who names an address may say there what it likes.
func TestNothingIsLookedAtByAddress(t *testing.T) {
	talk := conversation(t, anyone, "")
	if got, err := talk.arrives(t, evil, 3); err != nil || got != evil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestRulesThatWantAProtocolHoldEverything: not even a part of a line is sent on before it
// is known what is spoken.
func TestRulesThatWantAProtocolHoldEverything(t *testing.T) {
	for _, word := range []string{"https://ok.test:80/*", "http://ok.test:80/*"} {
		talk := conversation(t, plan.Network{Rules: allow(word)}, "ok.test")
		if got, err := talk.arrives(t, "nonsense\n", 1); got != "" || !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%s: the server gets %q, %v", word, got, err)
		}
	}
}

// TestAddressesAreHeldToAProtocol as names are; whom the client means there is its own business.
func TestAddressesAreHeldToAProtocol(t *testing.T) {
	for _, c := range []struct{ word, says, gets, why string }{
		{"http://192.0.2.1/*", evil, evil, ""},
		{"http://192.0.2.1/2", evil, evil, ""},
		{"http://192.0.2.1/2", evil + good, evil, "path"},
		{"http://192.0.2.1/api/*", good, "", "path"},
		{"https://192.0.2.1:80/*", good, "", "scheme"},
		{"http://192.0.2.1/*", "raw\n", "", "scheme"},
	} {
		talk := conversation(t, plan.Network{Rules: allow(c.word)}, "")
		got, err := talk.arrives(t, c.says, 3)
		if got != c.gets || (err != nil) != (c.why != "") {
			t.Errorf("%s: %q arrives, %v", c.word, got, err)
		}
		_ = talk.server.Close()
		if a := <-talk.told; a.Why != c.why {
			t.Errorf("%s: told is %+v", c.word, a)
		}
	}
}

// TestWhoSaysNothingIsNotRefused: programs look like this whether a port is open.
func TestWhoSaysNothingIsNotRefused(t *testing.T) {
	talk := conversation(t, plan.Network{Rules: allow("https://ok.test:80/*")}, "ok.test")
	if got, err := talk.arrives(t, "", 1); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	_ = talk.server.Close()
	if a := <-talk.told; a.Verdict != status.AttemptAllowed {
		t.Errorf("told is %+v", a)
	}
}

func TestUpgradeIsTheServersToDecide(t *testing.T) {
	const ask = "GET /ws HTTP/1.1\r\nHost: ok.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
	for _, c := range []struct {
		answer, then string
		passes       bool
	}{
		{"HTTP/1.1 101 Switching Protocols\r\n\r\n", "\x81\x02hi" + evil, true},
		{"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n", evil, true},
		{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", evil, false},
		{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", good, true},
		{"no HTTP at all\r\n", good, false},
	} {
		talk := conversation(t, anyone, "ok.test")
		say(t, talk.client, ask+c.then)
		_ = talk.client.CloseWrite()
		hear(t, talk.server, ask)
		say(t, talk.server, c.answer)
		rest, err := io.ReadAll(talk.server)
		if passes := err == nil && string(rest) == c.then; passes != c.passes || !c.passes && len(rest) > 0 {
			t.Errorf("after %q the server gets %q, %v", c.answer, rest, err)
		}
	}
}

// TestEndsAndResetsStayWhatTheyAre in both directions.
func TestEndsAndResetsStayWhatTheyAre(t *testing.T) {
	for _, name := range []string{"", "ok.test"} {
		talk := conversation(t, anyone, name)
		_ = talk.server.CloseWrite()
		if n, err := talk.client.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("%q: the server's end is %d, %v", name, n, err)
		}
		if got, err := talk.arrives(t, "after the end\n", 100); got != "after the end\n" || err != nil {
			t.Errorf("%q: half a connection carries %q, %v", name, got, err)
		}
		<-talk.ended

		talk = conversation(t, anyone, name)
		reset(talk.server)
		if _, err := talk.client.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%q: the server's reset is %v", name, err)
		}
		<-talk.ended

		talk = conversation(t, anyone, name)
		reset(talk.client)
		if _, err := talk.server.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%q: the client's reset is %v", name, err)
		}
		<-talk.ended
	}
}

// TestBytesAreBounded: what is allowed altogether passes, and one byte more ends it.
func TestBytesAreBounded(t *testing.T) {
	const most = 100_000
	for _, name := range []string{"", "ok.test"} {
		for _, head := range []string{"", "POST / HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 1000000\r\n\r\n"} {
			text := head + "raw\n" + strings.Repeat("x", most-len(head)-4)
			talk := conversation(t, plan.Network{Rules: anyone.Rules, MaxBytes: most}, name)
			go func() { _, _ = io.WriteString(talk.client, text) }()
			all := make([]byte, most)
			if n, err := io.ReadFull(talk.server, all[:most-1]); err != nil {
				t.Errorf("%q: %d bytes, %v", name, n, err)
			}
			_, _ = io.WriteString(talk.client, strings.Repeat("x", most))
			got, err := io.ReadAll(talk.server)
			if !errors.Is(err, unix.ECONNRESET) || len(got) > most {
				t.Errorf("%q: %d bytes more than what may pass, %v", name, len(got), err)
			}
			<-talk.ended
			if a := <-talk.told; a.Why != whyBytes {
				t.Errorf("%q: told is %+v", name, a)
			}
		}
	}
}

// TestBytesAreBoundedTogether: not a byte more, whoever of many is quickest.
func TestBytesAreBoundedTogether(t *testing.T) {
	const most, each = 300_000, 100_000
	g := gateway(t, plan.Network{Rules: allow("ok.test"), MaxBytes: most}, nil)
	var arrived atomic.Int64
	var all sync.WaitGroup
	var talks []*talk
	for i := range 20 {
		talks = append(talks, converse(t, g, []string{"", "ok.test"}[i%2]))
	}
	for _, c := range talks {
		all.Go(func() {
			_, _ = io.WriteString(c.client, "raw\n"+strings.Repeat("x", each))
			_ = c.client.CloseWrite()
		})
		all.Go(func() {
			n, _ := io.Copy(io.Discard, c.server)
			arrived.Add(n)
			c.server.Close()
		})
	}
	all.Wait()
	if n := arrived.Load(); n > most || n == 0 {
		t.Errorf("%d bytes arrived, of %d", n, most)
	}
}

// TestWhatIsBegunIsBoundedTogether: a target that begins many heads and ends none could fill the memory of the
// supervisor. What a head that is over took is given back.
func TestWhatIsBegunIsBoundedTogether(t *testing.T) {
	g := gateway(t, anyone, nil)
	long := strings.Repeat("A: "+strings.Repeat("x", 1000)+"\r\n", 60)
	whole := good[:len(good)-2] + long + "\r\n"
	c := converse(t, g, "ok.test")
	for range 2 {
		say(t, c.client, whole)
		hear(t, c.server, whole)
	}
	say(t, c.client, good[:len(good)-2]+long)
	for g.held.Load() < int64(len(long))-firstBuffer {
		runtime.Gosched()
	}
	if held := g.held.Load(); held > peek.MaxHead {
		t.Errorf("%d bytes are held for one head", held)
	}
	if !g.hold(bytesHeld - peek.MaxHead) {
		t.Fatal("there is no room for the others")
	}
	other := converse(t, g, "ok.test")
	go func() { _, _ = io.WriteString(other.client, good[:len(good)-2]+long) }()
	<-other.ended
	if a := <-other.told; a.Verdict != status.AttemptBlocked || a.Why != whyConnections || a.SentBytes != 0 {
		t.Errorf("told is %+v", a)
	}
	say(t, c.client, "\r\n")
	hear(t, c.server, whole)
	_ = c.client.CloseWrite()
	_ = c.server.CloseWrite()
	<-c.ended
	if held := g.held.Load(); held != bytesHeld-peek.MaxHead {
		t.Errorf("%d bytes are still held", held-bytesHeld+peek.MaxHead)
	}
}
