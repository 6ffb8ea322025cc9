package poll

import (
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
	"golang.org/x/sys/unix"
)

// between gives a pair to a poller, with what talks to each of its sockets.
func between(t *testing.T, p *Poller) (l *Pair, a, b net.Conn, ended chan error) {
	t.Helper()
	l = &Pair{Passed: [2]*atomic.Int64{new(atomic.Int64), new(atomic.Int64)}, Spend: func(int) error { return nil }}
	var far [2]net.Conn
	for i := range far {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		must.Do(t, err)
		l.Sockets[i] = fds[0]
		t.Cleanup(func() { _ = unix.Close(fds[0]) })
		f := os.NewFile(uintptr(fds[1]), "socket")
		far[i], err = net.FileConn(f)
		must.Do(t, err)
		_ = f.Close()
		t.Cleanup(func() { _ = far[i].Close() })
	}
	ended = make(chan error, 1)
	go func() { ended <- p.Pass(l) }()
	return l, far[0], far[1], ended
}

func say(t *testing.T, from, to net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(from, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(to, got); err != nil || string(got) != text {
		t.Fatalf("%q for %q, %v", got, text, err)
	}
}

func TestMessagesPassUntilSomethingElseComes(t *testing.T) {
	for name, c := range map[string]struct {
		comes func(l *Pair, a, b net.Conn)
		ended func(l *Pair) bool
	}{
		"an end":            {func(_ *Pair, a, _ net.Conn) { _ = a.Close() }, func(l *Pair) bool { return l.Err == nil && l.Rest == nil && !l.Full }},
		"a full buffer":     {func(_ *Pair, a, _ net.Conn) { go a.Write(make([]byte, 8*Size)) }, func(l *Pair) bool { return l.Full && l.Err == nil }},
		"a reader who left": {func(_ *Pair, _, b net.Conn) { _ = b.Close() }, func(l *Pair) bool { return l.From == 1 }},
		"a reader who waits": {func(l *Pair, a, _ net.Conn) {
			for total := l.Passed[0].Load(); l.Passed[0].Load() == total; { // one at a time, or they are much
				n, _ := a.Write(make([]byte, Size/8))
				total += int64(n)
				for end := time.Now().Add(time.Second); l.Passed[0].Load() < total && time.Now().Before(end); {
					runtime.Gosched()
				}
			}
		}, func(l *Pair) bool { return l.From == 0 && len(l.Rest) > 0 && l.Err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			var p Poller
			defer p.Close()
			l, a, b, ended := between(t, &p)
			for range 3 * stretch {
				say(t, a, b, "ask")
				say(t, b, a, "answer")
			}
			c.comes(l, a, b)
			if err := <-ended; err != nil || !c.ended(l) {
				t.Errorf("from %d, %d bytes, full %v, %v, %v", l.From, len(l.Rest), l.Full, l.Err, err)
			}
			if n := l.Passed[1].Load(); n != 3*stretch*int64(len("answer")) {
				t.Errorf("%d bytes counted", n)
			}
		})
	}
}

func TestMessagesAreAskedFor(t *testing.T) {
	var p Poller
	defer p.Close()
	l, a, b, ended := between(t, &p)
	say(t, a, b, "ask")
	p.mu.Lock()
	l.Spend = func(int) error { return unix.EDQUOT }
	p.mu.Unlock()
	_, _ = io.WriteString(a, "ask")
	if err := <-ended; err != nil || l.Err != unix.EDQUOT {
		t.Errorf("%v, %v", l.Err, err)
	}
	_ = b.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, _ := b.Read(make([]byte, 1)); n > 0 {
		t.Error("it was sent on")
	}
}

// A pair that ends while others go on, and one that has ended before it is given.
func TestPairsEnd(t *testing.T) {
	var p Poller
	defer p.Close()
	l, a, b, ended := between(t, &p)
	_, c, d, others := between(t, &p)
	say(t, a, b, "ask")
	say(t, c, d, "ask")
	p.End(l)
	p.End(l)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := p.Pass(l); err != unix.ECANCELED {
		t.Errorf("given again: %v", err)
	}
	say(t, d, c, "answer")
	_ = c.Close()
	<-others
}

func TestLooksWhereThatIsQuicker(t *testing.T) {
	const us = time.Microsecond
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for name, c := range map[string]struct {
		asleep, looking time.Duration // a message takes
		want            int
	}{
		"a processor sleeps": {50 * us, 30 * us, looking},
		"a little quicker":   {30 * us, 28 * us, asleep},
		"no other processor": {10 * us, 60 * us, asleep},
		"nobody waits":       {5 * time.Millisecond, 5 * time.Millisecond, asleep},
		"somebody thinks":    {150 * us, 120 * us, asleep},
	} {
		t.Run(name, func(t *testing.T) {
			var w look
			now, ways := time.Unix(1, 0), [2]int{}
			for range 10 * stretches * stretch {
				now = now.Add([2]time.Duration{c.asleep, c.looking}[w.way])
				w.learn(1, now)
				ways[w.way]++
			}
			if other := asleep + looking - c.want; ways[other] > ways[c.want]/50 {
				t.Errorf("asleep for %d, looking for %d", ways[asleep], ways[looking])
			}
			for range 3 * stretch { // then there is a pause
				now = now.Add(time.Second)
				w.learn(1, now)
			}
			if w.way != asleep {
				t.Error("looks for who says nothing")
			}
		})
	}
}
