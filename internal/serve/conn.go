package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
)

// limited is a listener with room for so many connections.
type limited struct {
	net.Listener
	room chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	l.room <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	free := sync.OnceFunc(func() { <-l.room })
	if unix, ok := c.(*net.UnixConn); ok {
		return unixConn{unix, free, new(atomic.Bool)}, nil
	}
	return conn{c, free, new(atomic.Bool)}, nil
}

// conn frees its room when it is closed.
type conn struct {
	net.Conn
	free func()
	busy *atomic.Bool // a handler has the connection, or what it wrote is under way
}

func (c conn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

func (c conn) Write(b []byte) (int, error) { return rewrite(c.Conn, c.busy, b) }

type unixConn struct {
	*net.UnixConn
	free func()
	busy *atomic.Bool
}

func (c unixConn) Close() error {
	defer c.free()
	return c.UnixConn.Close()
}

func (c unixConn) Write(b []byte) (int, error) { return rewrite(c.UnixConn, c.busy, b) }

// connState is for [http.Server]: a connection waits for its next request, which no handler has yet.
func connState(c net.Conn, state http.ConnState) {
	if state != http.StateIdle {
		return
	}
	switch c := c.(type) {
	case unixConn:
		c.busy.Store(false)
	case conn:
		c.busy.Store(false)
	}
}

// plainHead is how package net/http ends the head of its answer to what is no request at all.
var plainHead = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

// rewrite writes b. What package net/http itself answers, to what never got to a handler, becomes a problem like all others.
func rewrite(c net.Conn, busy *atomic.Bool, b []byte) (int, error) {
	const version = "HTTP/1.1 "
	if busy.Load() || !bytes.HasPrefix(b, []byte(version)) {
		return c.Write(b)
	}
	head, text, ok := bytes.Cut(b, plainHead)
	code, err := strconv.Atoi(string(head[len(version):min(len(version)+3, len(head))]))
	if !ok || err != nil {
		return c.Write(b)
	}
	body, _ := json.Marshal(fail(code, codeBadRequest, string(text))) // plain data
	_, err = fmt.Fprintf(c, "%s%d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		version, code, http.StatusText(code), problemType, len(body), body)
	return len(b), err
}
