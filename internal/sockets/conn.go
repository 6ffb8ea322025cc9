package sockets

import (
	"bytes"
	"container/list"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

// Problem is the body of an answer to what is no request, and its type.
type Problem func(code int, text string) (kind string, body []byte)

// Bound gives a listener that has so many connections open at most. One more takes the place of the one that has been longest without
// a request of somebody who may ask (see [Peer.Serve]); if there is none, it waits. What package net/http itself answers, to what
// never got to a handler, becomes a problem.
func Bound(l net.Listener, most int, problem Problem) net.Listener {
	return &bound{Listener: l, room: make(chan struct{}, most), problem: problem}
}

type bound struct {
	net.Listener
	room    chan struct{}
	problem Problem

	mu   sync.Mutex
	rest list.List // of *conn, without such a request: the longest first
}

func (b *bound) Accept() (net.Conn, error) {
	inner, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case b.room <- struct{}{}:
	default:
		if longest := b.longest(); longest != nil {
			_ = longest.Close()
		}
		b.room <- struct{}{}
	}
	c := &conn{Conn: inner, in: b}
	c.free = sync.OnceFunc(func() {
		c.serves(true)
		<-b.room
	})
	c.serves(false)
	return c, nil
}

func (b *bound) longest() *conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.rest.Front(); e != nil {
		return e.Value.(*conn)
	}
	return nil
}

// conn frees its room when it is closed.
type conn struct {
	net.Conn
	in   *bound
	free func()
	busy atomic.Bool   // a handler has it, or what that wrote is under way
	rest *list.Element // its place there; nil: it has none. Guarded by in.mu
}

func (c *conn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// serves says whether there is a request for which it may not be closed.
func (c *conn) serves(yes bool) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	switch {
	case yes && c.rest != nil:
		c.in.rest.Remove(c.rest)
		c.rest = nil
	case !yes && c.rest == nil:
		c.rest = c.in.rest.PushBack(c)
	}
}

// plainHead is how package net/http ends the head of its own answers.
var plainHead = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

func (c *conn) Write(b []byte) (int, error) {
	const version = "HTTP/1.1 "
	if c.busy.Load() || !bytes.HasPrefix(b, []byte(version)) {
		return c.Conn.Write(b)
	}
	head, text, ok := bytes.Cut(b[len(version):], plainHead)
	code, err := strconv.Atoi(string(head[:min(3, len(head))]))
	if !ok || err != nil {
		return c.Conn.Write(b)
	}
	kind, body := c.in.problem(code, string(text))
	_, err = fmt.Fprintf(c.Conn, "%s%d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		version, code, http.StatusText(code), kind, len(body), body)
	return len(b), err
}

// Peer is who is at the other end of a connection.
type Peer struct {
	UID     int    // of a unix socket; -1: nobody knows
	TCP     bool   // a token is needed
	Account string // whoever has let the connection in vouches for that
	conn    *conn
}

type peerKey struct{}

// Context is for [http.Server]: it remembers the peer of a connection, as the kernel says.
func Context(ctx context.Context, c net.Conn) context.Context {
	p := &Peer{UID: -1, TCP: true}
	if p.conn, _ = c.(*conn); p.conn != nil {
		switch inner := p.conn.Conn.(type) {
		case *net.UnixConn:
			p.UID, p.TCP = peerUID(inner), false
		case interface{ Account() string }:
			p.Account, p.TCP = inner.Account(), false
		}
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// State is for [http.Server]: a connection waits for its next request, which no handler has yet.
func State(c net.Conn, state http.ConnState) {
	if own, ok := c.(*conn); ok && state == http.StateIdle {
		own.busy.Store(false)
		own.serves(false)
	}
}

// PeerOf is the peer of a request, which a handler has from now on; nil: nobody knows.
func PeerOf(r *http.Request) *Peer {
	p, _ := r.Context().Value(peerKey{}).(*Peer)
	if p != nil && p.conn != nil {
		p.conn.busy.Store(true)
	}
	return p
}

// Serve says that the request is of somebody who may ask: the connection has its place until it waits for the next.
func (p *Peer) Serve() {
	if p != nil && p.conn != nil {
		p.conn.serves(true)
	}
}

// HungUp says whether the peer is gone for good: not only that it sends no more.
func (p *Peer) HungUp() bool {
	if p == nil || p.conn == nil {
		return false
	}
	switch c := p.conn.Conn.(type) {
	case interface{ HungUp() bool }:
		return c.HungUp()
	case syscall.Conn:
		return hungUp(c)
	}
	return false
}
