package tunnel

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// noResponders is what the servers answer for nobody.
const noResponders = "503"

func isNobody(m *nats.Msg) bool { return len(m.Data) == 0 && m.Header.Get("Status") == noResponders }

func newWord() string {
	var b [20]byte
	_, _ = rand.Read(b[:])
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// publisher sends to a subject. The servers say to from when nobody is there.
func publisher(nc *nats.Conn, to, from string) func([]byte) {
	return func(text []byte) { _ = nc.PublishRequest(to, from, text) }
}

// Dial opens a connection to whoever listens on a subject. Where nobody does it is nats.ErrNoResponders.
func Dial(ctx context.Context, nc *nats.Conn, subject string) (*Conn, error) {
	return dial(ctx, nc, subject, usual)
}

func dial(ctx context.Context, nc *nats.Conn, subject string, t times) (*Conn, error) {
	inbox := nc.NewInbox()
	first := make(chan *nats.Msg, 1)
	made := make(chan *Conn, 1)
	var c *Conn // the callback's own
	sub, err := nc.Subscribe(inbox, func(m *nats.Msg) {
		if c == nil {
			select {
			case first <- m:
				if c = <-made; c != nil {
					return
				}
			default: // nobody waits any more
			}
			return
		}
		if isNobody(m) {
			c.absent()
			return
		}
		c.receive(m.Data)
	})
	if err != nil {
		return nil, err
	}
	stop := func() {
		close(made)
		_ = sub.Unsubscribe()
	}
	if err := nc.PublishRequest(subject, inbox, []byte{version}); err != nil {
		stop()
		return nil, err
	}
	select {
	case m := <-first:
		word, own := strings.CutPrefix(string(m.Data), subject+".")
		switch {
		case isNobody(m):
			stop()
			return nil, fmt.Errorf("%s: %w", subject, nats.ErrNoResponders)
		case !own || strings.ContainsAny(word, ".*> \r\n") || word == "":
			stop()
			return nil, errors.New("what answered on " + subject + " is no end of a connection")
		}
		to := string(m.Data)
		c := newConn(Addr(inbox), Addr(to), t, publisher(nc, to, inbox), nc.IsClosed, func() { _ = sub.Unsubscribe() })
		made <- c
		return c, nil
	case <-ctx.Done():
		stop()
		return nil, ctx.Err()
	}
}

// version begins a connection.
const version = 1

// flushTime is how long a server may take to know of a listener.
const flushTime = 5 * time.Second

// Bounds of a listener. Who is beyond them hears nothing, and gives up.
const (
	maxWaiting = 128  // connections that nobody has accepted
	maxOpen    = 4096 // all
)

// Listener accepts connections.
type Listener struct {
	nc      *nats.Conn
	subject string
	times   times
	subs    []*nats.Subscription
	waiting chan *Conn
	over    chan struct{}
	close   func()

	mu  sync.Mutex
	all map[string]*Conn // by their subjects
}

// Listen accepts connections to the subjects of a pattern.
func Listen(nc *nats.Conn, pattern string) (*Listener, error) { return listen(nc, pattern, usual) }

func listen(nc *nats.Conn, pattern string, t times) (*Listener, error) {
	l := &Listener{nc: nc, subject: pattern, times: t, waiting: make(chan *Conn, maxWaiting), over: make(chan struct{}), all: map[string]*Conn{}}
	l.close = sync.OnceFunc(func() {
		close(l.over)
		for _, sub := range l.subs {
			_ = sub.Unsubscribe()
		}
	})
	// One subscription has all connections: the servers need not hear of each.
	for subject, do := range map[string]nats.MsgHandler{pattern: l.open, pattern + ".*": l.receive} {
		sub, err := nc.Subscribe(subject, do)
		if err != nil {
			l.close()
			return nil, err
		}
		l.subs = append(l.subs, sub)
	}
	_ = nc.FlushTimeout(flushTime) // whoever hears of it later may dial; without a connection, they are made anew with the next
	return l, nil
}

func (l *Listener) open(m *nats.Msg) {
	if len(m.Data) != 1 || m.Data[0] != version || m.Reply == "" {
		return
	}
	l.mu.Lock()
	full := len(l.all) >= maxOpen
	l.mu.Unlock()
	if full {
		return
	}
	subject := m.Subject + "." + newWord()
	c := newConn(Addr(subject), Addr(m.Reply), l.times, publisher(l.nc, m.Reply, subject), l.nc.IsClosed, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, subject)
	})
	l.mu.Lock()
	l.all[subject] = c
	l.mu.Unlock()
	select {
	case l.waiting <- c:
		_ = l.nc.PublishRequest(m.Reply, subject, []byte(subject))
	default:
		c.mu.Lock()
		c.fail(net.ErrClosed)
		c.mu.Unlock()
	}
}

func (l *Listener) receive(m *nats.Msg) {
	l.mu.Lock()
	c := l.all[m.Subject]
	l.mu.Unlock()
	switch {
	case c == nil:
		if f, err := decode(m.Data); err == nil && f.kind != frameReset && m.Reply != "" {
			_ = l.nc.Publish(m.Reply, (&frame{kind: frameReset, bytes: []byte("it is not known here")}).encode())
		}
	case isNobody(m):
		c.absent()
	default:
		c.receive(m.Data)
	}
}

// Accept gives a connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.waiting:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close ends it. Connections that are open stay so, and hear nothing more.
func (l *Listener) Close() error {
	l.close()
	return nil
}

// Addr is the pattern.
func (l *Listener) Addr() net.Addr { return Addr(l.subject) }
