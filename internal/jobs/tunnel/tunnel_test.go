package tunnel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/confine-run/confine/internal/jobs/jobstest"
	"github.com/confine-run/confine/internal/must"
)

// quick are times for tests.
var quick = times{again: 40 * time.Millisecond, ping: 50 * time.Millisecond, gone: 300 * time.Millisecond, dead: 2 * time.Second}

// pair is two ends, between which lose says what gets lost.
func pair(t *testing.T, lose func() bool) (a, b *Conn) {
	t.Helper()
	ways := make(chan func(), 1000)
	go func() {
		for do := range ways {
			do()
		}
	}()
	var mu sync.Mutex
	over := false
	way := func(to **Conn) func([]byte) {
		return func(text []byte) {
			mu.Lock()
			defer mu.Unlock()
			if !lose() && !over {
				text := bytes.Clone(text)
				select {
				case ways <- func() { (*to).receive(text) }:
				default: // lost, too
				}
			}
		}
	}
	a = newConn("a", "b", quick, way(&b), never, func() {})
	b = newConn("b", "a", quick, way(&a), never, func() {})
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		close(ways)
	})
	return a, b
}

func never() bool { return false }

// sends writes so many bytes, closes, and looks that they come out at the other end.
func sends(t *testing.T, from, to net.Conn, n int64) {
	t.Helper()
	sum := make(chan [32]byte, 1)
	go func() {
		h := sha256.New()
		if _, err := io.CopyN(io.MultiWriter(from, h), rand.NewChaCha8([32]byte{1}), n); err != nil {
			t.Errorf("write: %v", err)
		}
		if err := from.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		sum <- [32]byte(h.Sum(nil))
	}()
	h := sha256.New()
	got, err := io.Copy(h, to)
	if err != nil || got != n {
		t.Fatalf("%d bytes, %v", got, err)
	}
	if want := <-sum; [32]byte(h.Sum(nil)) != want {
		t.Error("other bytes came than were sent")
	}
}

func TestWhatIsLostIsSentAgain(t *testing.T) {
	for name, rate := range map[string]float64{"nothing": 0, "one of ten": 0.1, "every third": 0.33} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			a, b := pair(t, func() bool { return r.Float64() < rate })
			sends(t, a, b, 3<<20)
			_ = b.Close()
		})
	}
}

func TestWhoWritesWaitsForWhoReads(t *testing.T) {
	a, b := pair(t, func() bool { return false })
	_ = a.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	n, err := a.Write(make([]byte, 10<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) || n != window {
		t.Errorf("%d bytes, %v", n, err)
	}
	b.mu.Lock()
	unread := len(b.unread)
	b.mu.Unlock()
	if unread > window {
		t.Errorf("%d bytes wait to be read", unread)
	}
	_ = a.SetWriteDeadline(time.Time{})
	go func() { _, _ = io.Copy(io.Discard, b) }()
	if _, err := a.Write(make([]byte, 1<<20)); err != nil {
		t.Error(err)
	}
}

func TestAReadEndsAtItsDeadline(t *testing.T) {
	a, _ := pair(t, func() bool { return false })
	_ = a.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	done := make(chan error, 1)
	_ = a.SetReadDeadline(time.Time{})
	go func() {
		_, err := a.Read(make([]byte, 1))
		done <- err
	}()
	_ = a.SetReadDeadline(time.Unix(1, 0)) // as net/http does to have a read end
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestAnEndThatIsSilentBreaksTheConnection(t *testing.T) {
	a, _ := pair(t, func() bool { return true })
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, ErrSilent) {
		t.Error(err)
	}
}

// TestHostileFrames: what is no frame, or not one of this connection's stream, changes nothing; more than is allowed breaks it.
func TestHostileFrames(t *testing.T) {
	var got []byte
	c := newConn("a", "b", usual, func(text []byte) { got = text }, never, func() {})
	for _, text := range [][]byte{nil, {1}, make([]byte, headSize), append(make([]byte, headSize), 1), make([]byte, headSize+maxBytes+1),
		(&frame{kind: frameData, at: 5, bytes: []byte("later")}).encode(), (&frame{kind: frameEnd, at: 9}).encode(),
		(&frame{kind: frameAck, have: 1 << 60, limit: 7}).encode(), (&frame{kind: frameData, at: 1<<64 - 2, bytes: []byte("wraps")}).encode()} {
		c.receive(text)
	}
	if c.HungUp() || len(c.unread) > 0 || c.have != 0 || c.confirmed != 0 {
		t.Errorf("%+v", c)
	}
	for i := range 2 * window / maxBytes {
		c.receive((&frame{kind: frameData, at: uint64(i * maxBytes), bytes: make([]byte, maxBytes)}).encode())
	}
	if !c.HungUp() || len(c.unread) > window {
		t.Errorf("%d bytes wait", len(c.unread))
	}
	if f, err := decode(got); err != nil || f.kind != frameReset {
		t.Errorf("%+v, %v", f, err)
	}
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.PingInterval(time.Second))
	must.Do(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// opened is a connection by NATS.
func opened(t *testing.T, here, there *nats.Conn, x times) (a, b net.Conn) {
	t.Helper()
	l, err := listen(there, "test.*", x)
	must.Do(t, err)
	t.Cleanup(func() { _ = l.Close() })
	must.Do(t, there.Flush())
	if a, err = dial(t.Context(), here, "test.x", x); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func TestBytesGoBothWaysOverNATS(t *testing.T) {
	t.Parallel()
	url := jobstest.Inside(t)
	a, b := opened(t, connect(t, url), connect(t, url), usual)
	go func() {
		_, _ = io.Copy(b, b)
		_ = b.Close()
	}()
	go func() {
		_, _ = io.CopyN(a, rand.NewChaCha8([32]byte{2}), 8<<20)
		_, _ = a.Write([]byte("end"))
	}()
	h, want := sha256.New(), sha256.New()
	if _, err := io.CopyN(h, a, 8<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(want, rand.NewChaCha8([32]byte{2}), 8<<20); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(h.Sum(nil), want.Sum(nil)) {
		t.Error("other bytes came back")
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	nc := connect(t, jobstest.Inside(t))
	if _, err := Dial(t.Context(), nc, "test.x"); !errors.Is(err, nats.ErrNoResponders) {
		t.Error(err)
	}
	if _, err := nc.Subscribe("test.liar", func(m *nats.Msg) { _ = m.Respond([]byte("elsewhere.word")) }); err != nil {
		t.Fatal(err)
	}
	if c, err := Dial(t.Context(), nc, "test.liar"); err == nil {
		t.Errorf("connected to %v", c.RemoteAddr())
	}
	if _, err := nc.Subscribe("test.mute", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Dial(short, nc, "test.mute"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestTheEndOfOneSideIsSeenByTheOther(t *testing.T) {
	t.Parallel()
	url := jobstest.Inside(t)
	there := connect(t, url)
	a, b := opened(t, connect(t, url), there, quick)
	if _, err := a.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Read(make([]byte, 9)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	there.Close() // as when a process is killed
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, ErrNobody) {
		t.Error(err)
	}
}

func TestMain(m *testing.M) {
	jobstest.Main()
	os.Exit(m.Run())
}
