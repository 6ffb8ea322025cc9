package jobstest

import (
	"net"
	"strconv"
	"sync"
	"testing"
)

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Link is a way to a server that can be cut: then nothing gets through, either way, and nobody is told.
type Link struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	whole    *sync.Cond
	cut      bool
	all      map[net.Conn]bool
}

// NewLink makes one to a port.
func NewLink(t testing.TB, port int) *Link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	link := &Link{listener: l, to: address(port), all: map[net.Conn]bool{}}
	link.whole = sync.NewCond(&link.mu)
	go link.accept()
	t.Cleanup(func() {
		_ = l.Close()
		link.Mend()
	})
	return link
}

// URL is what clients connect to.
func (l *Link) URL() string { return "nats://" + l.listener.Addr().String() }

// Cut cuts it, and Mend mends it: connections that were there are broken then.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
}

// Mend mends it.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
	for c := range l.all {
		_ = c.Close()
	}
	clear(l.all)
	l.whole.Broadcast()
}

func (l *Link) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.cut {
		l.whole.Wait()
	}
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		go l.carry(client)
	}
}

func (l *Link) carry(client net.Conn) {
	defer client.Close()
	l.mu.Lock()
	l.all[client] = true
	l.mu.Unlock()
	l.wait()
	server, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer server.Close()
	l.mu.Lock()
	l.all[server] = true
	l.mu.Unlock()
	go l.copy(server, client)
	l.copy(client, server)
}

func (l *Link) copy(to, from net.Conn) {
	defer to.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		l.wait()
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
