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

	"github.com/confine-run/confine/internal/plan"
)

func limited(t *testing.T, p plan.Network) *Gateway {
	t.Helper()
	g, err := New(&p, nil)
	must(t, err)
	g.Inside(-1)
	t.Cleanup(g.Close)
	return g
}

// between starts a copy, and gives its two far ends and what comes of it.
func between(t *testing.T, g *Gateway) (from, to *net.TCPConn, count *atomic.Int64, done chan error) {
	t.Helper()
	from, src := pair(t)
	dst, to := pair(t)
	in, out := adopt(t, g, src), adopt(t, g, dst)
	count, done = new(atomic.Int64), make(chan error, 1)
	g.loop.Start(func() {
		err := g.copy(out, in, count)
		out.CloseWrite()
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
	for _, size := range []int{0, 1, little - 1, little, little + 1, 3 * little, piece, 20<<20 + 7} {
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
	for _, size := range []int{1, 4 * little, 1, 3, 2 << 20, 5} {
		sent := noise(size)
		go func() { _, _ = from.Write(sent) }()
		got := make([]byte, size)
		if _, err := io.ReadFull(to, got); err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
}

func TestCopyWithoutPipes(t *testing.T) {
	g := limited(t, plan.Network{})
	g.store.made = maxPipes // somebody has them all
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
	spliced := false
	for range 3 * maxPipes {
		from, to, _, _ := between(t, g)
		go func() { _, _ = from.Write(make([]byte, 1<<20)) }()
		if _, err := io.ReadFull(to, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		g.store.mu.Lock()
		spliced = spliced || g.store.made > 0
		if g.store.made > maxPipes {
			t.Errorf("%d pipes", g.store.made)
		}
		g.store.mu.Unlock()
	}
	if !spliced {
		t.Error("nothing was spliced: this shows nothing")
	}
}

// A connection that is cut with bytes in a pipe takes that pipe with it: the next one
// must not find them.
func TestNothingIsLeftInAPipe(t *testing.T) {
	g := limited(t, plan.Network{})
	from, src := pair(t)
	dst, to := pair(t)
	if _, err := from.Write([]byte("left over")); err != nil {
		t.Fatal(err)
	}
	_ = to.SetLinger(0)
	_ = to.Close()
	if _, err := dst.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Fatalf("not reset: %v", err)
	}
	in, out := adopt(t, g, src), adopt(t, g, dst)
	inLoop(g, func() {
		m := g.mover(out, in)
		m.much = true
		if n, err := m.copyOnce(piece); err == nil {
			t.Errorf("%d bytes went to nobody", n)
		}
	})
	if g.store.made != 0 || len(g.store.pipes) != 0 {
		t.Errorf("%d pipes, %d in store", g.store.made, len(g.store.pipes))
	}
}

func TestCopyStopsAtTheLimitOfBytes(t *testing.T) {
	const limit = 3*little + 5
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
	g := limited(t, plan.Network{})
	from, src := pair(t)
	dst, to := pair(t)
	done := make(chan error, 1)
	in, out := adopt(t, g, src), adopt(t, g, dst)
	g.loop.Start(func() { done <- g.copy(out, in, new(atomic.Int64)) })
	if _, err := from.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(to, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	g.loop.Post(in.Reset)
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// Whoever has much leaves others their turn after each piece, also in a body.
func TestMuchLeavesOthersTheirTurn(t *testing.T) {
	g := limited(t, plan.Network{})
	from, src := pair(t)
	dst, to := pair(t)
	sent := noise(512 << 10)
	if _, err := from.Write(sent); err != nil {
		t.Fatal(err)
	}
	in, out := adopt(t, g, src), adopt(t, g, dst)
	others, turns, over := 0, 0, false
	inLoop(g, func() {
		g.loop.Go(func() {
			for !over {
				others++
				g.loop.Yield()
			}
		})
		m := g.mover(out, in)
		for left := int64(len(sent)); left > 0; turns++ {
			n, err := m.copyOnce(min(left, 2*little))
			if err != nil || n == 0 {
				t.Errorf("%d, %v", n, err)
				break
			}
			left -= n
		}
		over = true
	})
	if others < turns-2 {
		t.Errorf("others had %d turns of %d", others, turns)
	}
	if got := make([]byte, len(sent)); t.Failed() {
		return
	} else if _, err := io.ReadFull(to, got); err != nil || !bytes.Equal(got, sent) {
		t.Error("it isn't what was sent", err)
	}
}

// Splicing stops before a byte that was sent as urgent, and takes what lies behind for the end.
func TestUrgentBytesInTheMiddleOfMuch(t *testing.T) {
	for _, ends := range []bool{false, true} {
		g := limited(t, plan.Network{})
		from, src := pair(t)
		dst, to := pair(t)
		in, out := adopt(t, g, src), adopt(t, g, dst)
		half := noise(4 * little)
		if _, err := from.Write(half); err != nil {
			t.Fatal(err)
		}
		urgent(t, from)
		if _, err := from.Write(half); err != nil {
			t.Fatal(err)
		}
		if ends {
			_ = from.CloseWrite()
		}
		g.loop.Start(func() {
			m := g.mover(out, in)
			for m.much = true; ; m.much = true {
				if n, err := m.copyOnce(piece); n == 0 || err != nil {
					out.CloseWrite()
					return
				}
			}
		})
		got := make([]byte, 2*len(half))
		if n, err := io.ReadFull(to, got); err != nil || !bytes.HasSuffix(got, half) {
			t.Errorf("ends %v: %d of %d bytes, %v", ends, n, len(got), err)
		}
		_ = from.Close()
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
	must(t, err)
}
