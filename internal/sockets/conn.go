package sockets

import (
	"bytes"
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

// Bound gives a listener that has so many connections open at most. What package net/http itself answers on them, to what never
// got to a handler, becomes a problem.
func Bound(l net.Listener, room chan struct{}, problem Problem) net.Listener {
	return &bound{l, room, problem}
}

type bound struct {
	net.Listener
	room    chan struct{}
	problem Problem
}

func (b *bound) Accept() (net.Conn, error) {
	b.room <- struct{}{}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.room
		return nil, err
	}
	return &conn{Conn: c, free: sync.OnceFunc(func() { <-b.room }), problem: b.problem}, nil
}

// conn frees its room when it is closed.
type conn struct {
	net.Conn
	free    func()
	problem Problem
	busy    atomic.Bool // a handler has it, or what that wrote is under way
}

func (c *conn) Close() error {
	defer c.free()
	return c.Conn.Close()
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
	kind, body := c.problem(code, string(text))
	_, err = fmt.Fprintf(c.Conn, "%s%d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		version, code, http.StatusText(code), kind, len(body), body)
	return len(b), err
}

// Peer is who is at the other end of a connection.
type Peer struct {
	UID  int  // of a unix socket; -1: nobody knows
	TCP  bool // a token is needed
	conn *conn
}

type peerKey struct{}

// Context is for [http.Server]: it remembers the peer of a connection, as the kernel says.
func Context(ctx context.Context, c net.Conn) context.Context {
	p := &Peer{UID: -1, TCP: true}
	if p.conn, _ = c.(*conn); p.conn != nil {
		if unix, ok := p.conn.Conn.(*net.UnixConn); ok {
			p.UID, p.TCP = peerUID(unix), false
		}
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// State is for [http.Server]: a connection waits for its next request, which no handler has yet.
func State(c net.Conn, state http.ConnState) {
	if own, ok := c.(*conn); ok && state == http.StateIdle {
		own.busy.Store(false)
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

// HungUp says whether the peer is gone for good: not only that it sends no more.
func (p *Peer) HungUp() bool {
	if p == nil || p.conn == nil {
		return false
	}
	c, ok := p.conn.Conn.(syscall.Conn)
	return ok && hungUp(c)
}
