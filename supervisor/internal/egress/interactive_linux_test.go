package egress

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/plan"
)

// interactive begins a conversation that the poller has got.
func interactive(t *testing.T, p plan.Network) *talk {
	t.Helper()
	c := conversation(t, p, "ok.test")
	say(t, c.client, "raw\n")
	hear(t, c.server, "raw\n")
	c.interact(t)
	return c
}

// interact has both say little until the poller has got them.
func (c *talk) interact(t *testing.T) {
	t.Helper()
	for range 100 * interactiveAfter {
		c.trip(t)
		if c.polled() {
			return
		}
	}
	t.Fatal("the poller hasn't got them")
}

func (c *talk) trip(t *testing.T) {
	t.Helper()
	say(t, c.client, "?")
	hear(t, c.server, "?")
	say(t, c.server, "!")
	hear(t, c.client, "!")
}

func (c *talk) polled() (all bool) {
	all = true
	c.g.everyFlow(func(f *flow) {
		f.mu.Lock()
		defer f.mu.Unlock()
		all = all && f.recall != nil
	})
	return all
}

func TestInteractiveFlowsHaveAllTheirBytes(t *testing.T) {
	c := interactive(t, anyone)
	r := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		for _, way := range [2][2]*net.TCPConn{{c.client, c.server}, {c.server, c.client}} {
			text := string(noise(1 << r.IntN(22)))
			go func() { _, _ = io.WriteString(way[0], text) }()
			hear(t, way[1], text)
		}
		c.interact(t)
	}
	must.Do(t, c.client.CloseWrite())
	if rest, err := io.ReadAll(c.server); len(rest) > 0 || err != nil {
		t.Errorf("%d bytes more, %v", len(rest), err)
	}
	answer := string(noise(3 << 20))
	go func() {
		_, _ = io.WriteString(c.server, answer)
		_ = c.server.CloseWrite()
	}()
	if got, err := io.ReadAll(c.client); string(got) != answer || err != nil {
		t.Errorf("%d bytes of %d, %v", len(got), len(answer), err)
	}
	<-c.ended
}

// Both talk at once, so that the poller gets them and gives them back in the middle of what they say.
func TestInteractiveFlowsInBothDirectionsAtOnce(t *testing.T) {
	c := interactive(t, anyone)
	text := noise(2 << 20)
	var all sync.WaitGroup
	for i, end := range []*net.TCPConn{c.client, c.server} {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			for left := text; len(left) > 0; {
				n := min(1+r.IntN(1<<r.IntN(17)), len(left))
				if _, err := end.Write(left[:n]); err != nil {
					t.Error(err)
				}
				left = left[n:]
			}
			_ = end.CloseWrite()
		})
		all.Go(func() {
			if got, err := io.ReadAll(end); !bytes.Equal(got, text) || err != nil {
				t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
			}
		})
	}
	all.Wait()
	<-c.ended
}

func TestInteractiveFlowsAreResetAsTheyWere(t *testing.T) {
	for _, byClient := range []bool{true, false} {
		c := interactive(t, anyone)
		one, other := c.server, c.client
		if byClient {
			one, other = c.client, c.server
		}
		reset(one)
		if _, err := other.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("by the client %v: %v", byClient, err)
		}
		<-c.ended
	}
}

// Who takes nothing holds nobody else up, and gets it all later.
func TestInteractiveFlowsOfSlowReaders(t *testing.T) {
	g := gateway(t, anyone, nil)
	slow, other := converse(t, g, "ok.test"), converse(t, g, "ok.test")
	for _, c := range []*talk{slow, other} {
		say(t, c.client, "raw\n")
		hear(t, c.server, "raw\n")
	}
	for range 100 * interactiveAfter {
		slow.trip(t)
		other.trip(t)
	}
	if !slow.polled() {
		t.Fatal("the poller hasn't got them")
	}
	var said bytes.Buffer
	for { // until nothing more fits anywhere
		_ = slow.client.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := slow.client.Write(noise(1000))
		said.Write(noise(1000)[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		must.Do(t, err)
		other.trip(t)
	}
	must.Do(t, slow.client.CloseWrite())
	if got, err := io.ReadAll(slow.server); !bytes.Equal(got, said.Bytes()) || err != nil {
		t.Errorf("%d bytes of %d, %v", len(got), said.Len(), err)
	}
}

func TestInteractiveFlowsStopAtTheLimitOfBytes(t *testing.T) {
	const limit = 10_000
	p := anyone
	p.MaxBytes = limit
	c := interactive(t, p)
	heard := make(chan int64)
	go func() {
		n, _ := io.Copy(io.Discard, c.server)
		heard <- n
	}()
	for range limit {
		if _, err := io.WriteString(c.client, "x"); err != nil {
			break
		}
	}
	if n := <-heard; n > limit {
		t.Errorf("%d bytes of %d", n, limit)
	}
	<-c.ended
	if a := <-c.told; a.Why != whyBytes {
		t.Errorf("%+v", a)
	}
}

func TestInteractiveFlowsAreAborted(t *testing.T) {
	c := interactive(t, anyone)
	c.g.everyFlow((*flow).abort)
	for _, end := range []*net.TCPConn{c.client, c.server} {
		if _, err := end.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
			t.Error(err)
		}
	}
	<-c.ended
}

// What a run has said last still arrives when the gateway is closed, and nothing of the poller's is left.
func TestInteractiveFlowsOutliveTheRun(t *testing.T) {
	before := openDescriptors(t)
	t.Run("gateway", func(t *testing.T) {
		c := interactive(t, anyone)
		last := strings.Repeat("last words ", 10_000)
		go func() {
			_, _ = io.WriteString(c.client, last)
			_ = c.client.Close()
		}()
		got := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(c.server)
			got <- b
		}()
		hasEnded := make(chan struct{})
		go func() {
			c.g.Close()
			close(hasEnded)
		}()
		if b := <-got; string(b) != last {
			t.Errorf("%d bytes of %d", len(b), len(last))
		}
		_ = c.server.Close()
		<-hasEnded
	})
	for range 1000 {
		if openDescriptors(t) <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d descriptors, %d before", openDescriptors(t), before)
}
