package egress

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/plan"
)

func limited(t *testing.T, p plan.Network) *Gateway {
	t.Helper()
	g, err := New(&p, nil)
	must.Do(t, err)
	g.Inside(-1)
	t.Cleanup(g.Close)
	return g
}

// between starts a copy, and gives its two far ends and what comes of it.
func between(t *testing.T, g *Gateway) (from, to *net.TCPConn, count *atomic.Int64, done chan error) {
	t.Helper()
	from, src := pair(t)
	dst, to := pair(t)
	in, out := newConn(src), newConn(dst)
	count, done = new(atomic.Int64), make(chan error, 1)
	g.all.Go(func() {
		err := g.copy(out, in, count)
		_ = out.CloseWrite()
		done <- err
	})
	return from, to, count, done
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

func TestCopyArrivesWholeAndEnds(t *testing.T) {
	for _, size := range []int{0, 1, bufferSize - 1, bufferSize, bufferSize + 1, 3 * bufferSize, spliced, 20<<20 + 7} {
		g := limited(t, plan.Network{})
		from, to, count, done := between(t, g)
		sent := noise(size)
		go func() {
			_, _ = from.Write(sent)
			_ = from.CloseWrite()
		}()
		got, err := io.ReadAll(to)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes: %d arrived, equal %v, %v", size, len(got), bytes.Equal(got, sent), err)
		}
		if err := <-done; err != nil || count.Load() != int64(size) {
			t.Errorf("%d bytes: counted %d, %v", size, count.Load(), err)
		}
	}
}

// A round trip after much has been spliced, and again: neither way waits for more.
func TestCopyPassesOnWhatThereIs(t *testing.T) {
	g := limited(t, plan.Network{})
	from, to, _, _ := between(t, g)
	for _, size := range []int{1, 4 * bufferSize, 1, 3, 2 << 20, 5} {
		sent := noise(size)
		go func() { _, _ = from.Write(sent) }()
		hear(t, to, string(sent))
	}
}

func TestCopyWithoutPipes(t *testing.T) {
	g := limited(t, plan.Network{})
	for range maxPipes { // somebody has them all
		<-g.pipes
		defer func() { g.pipes <- pipe{} }()
	}
	from, to, _, done := between(t, g)
	sent := noise(4 << 20)
	go func() {
		_, _ = from.Write(sent)
		_ = from.CloseWrite()
	}()
	if got, err := io.ReadAll(to); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What waits holds no pipe; and readers that don't read hold no more than there may be.
func TestPipesAreGivenBack(t *testing.T) {
	g := limited(t, plan.Network{})
	for range 3 * maxPipes {
		from, to, _, _ := between(t, g)
		go func() { _, _ = from.Write(make([]byte, 1<<20)) }()
		if _, err := io.ReadFull(to, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	made := 0
	for range maxPipes {
		it := <-g.pipes // or it is waited for until the test times out
		if it != (pipe{}) {
			made++
		}
		defer func() { g.pipes <- it }()
	}
	if made == 0 {
		t.Error("nothing was spliced: this shows nothing")
	}
}

// A connection that is cut with bytes in a pipe takes that pipe with it: the next one
// must not find them.
func TestNothingIsLeftInAPipe(t *testing.T) {
	g := limited(t, plan.Network{})
	from, src := pair(t)
	dst, to := pair(t)
	say(t, from, "left over")
	reset(to)
	if _, err := dst.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("not reset: %v", err)
	}
	if n, err := g.pipes.splice(newConn(dst), newConn(src), spliced); err == nil {
		t.Errorf("%d bytes went to nobody", n)
	}
	for range maxPipes {
		it := <-g.pipes
		if it != (pipe{}) {
			t.Error("the pipe is kept")
		}
		defer func() { g.pipes <- it }()
	}
}

func TestCopyStopsAtTheLimitOfBytes(t *testing.T) {
	const limit = 3*bufferSize + 5
	for size, refused := range map[int]bool{limit - 1: false, limit + 1: true, 4 << 20: true} {
		g := limited(t, plan.Network{MaxBytes: limit})
		from, to, _, done := between(t, g)
		go func() {
			_, _ = from.Write(make([]byte, size))
			_ = from.CloseWrite()
		}()
		_, _ = io.Copy(io.Discard, to)
		err := <-done
		var why refusal
		if errors.As(err, &why) != refused {
			t.Errorf("%d of %d bytes: %v", size, limit, err)
		}
		_ = from.Close()
	}
}

func TestCopyEndsWhenEitherIsClosed(t *testing.T) {
	for _, writes := range []bool{false, true} {
		g := limited(t, plan.Network{})
		from, src := pair(t)
		dst, to := pair(t)
		in, out := newConn(src), newConn(dst)
		done := make(chan error, 1)
		go func() { done <- g.copy(out, in, new(atomic.Int64)) }()
		say(t, from, "x")
		hear(t, to, "x")
		if writes { // more than sockets hold
			go func() { _, _ = from.Write(make([]byte, 64<<20)) }()
			out.reset()
		} else {
			in.reset()
		}
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("writes %v: %v", writes, err)
		}
	}
}

// Splicing stops before a byte that was sent as urgent, and takes what lies behind for the end.
func TestUrgentBytesArriveInTheirPlace(t *testing.T) {
	for _, ends := range []bool{false, true} {
		for _, size := range []int{6, 4 * bufferSize} {
			g := limited(t, plan.Network{})
			from, src := pair(t)
			dst, to := pair(t)
			in, out := newConn(src), newConn(dst)
			must.Do(t, in.raw.Control(oobInline))
			half := string(noise(size))
			say(t, from, half)
			urgent(t, from)
			say(t, from, half)
			if ends {
				_ = from.CloseWrite()
			}
			in.bulk = true
			go func() { _ = g.copy(out, in, new(atomic.Int64)) }()
			hear(t, to, half+"!"+half)
			_ = from.Close()
		}
	}
}

// urgent sends one byte out of band.
func urgent(t *testing.T, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			if err := unix.Send(int(fd), []byte("!"), unix.MSG_OOB); err != nil {
				t.Error(err)
			}
		})
	}
	must.Do(t, err)
}
