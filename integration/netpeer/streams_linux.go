package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"time"
)

// The world's ports for streams.
const (
	portFirst    = 13   // speaks first, and ends
	portSocks    = 1080 // a SOCKS proxy's greeting
	portReset    = 1001 // resets what says anything
	portSum      = 1002 // says a digest, once the other has ended
	portSlow     = 1003 // the same, reading slowly
	portMute     = 1004 // says nothing, reads nothing
	portFlood    = 1005 // never ends
	portRefusing = 1007 // resets at once
)

func serveStreams(ca *authority) error {
	for port, serve := range map[int]func(*net.TCPConn){
		portEcho:  func(c *net.TCPConn) { _, _ = io.Copy(c, c) },
		portFirst: func(c *net.TCPConn) { _, _ = c.Write([]byte("hello\n")) },
		portSocks: socks,
		portReset: func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 1))
			_ = c.SetLinger(0)
		},
		portSum:      func(c *net.TCPConn) { digest(c, c) },
		portSlow:     func(c *net.TCPConn) { digest(c, slowly{c}) },
		portRetry:    ca.retries,
		portMute:     func(*net.TCPConn) { select {} },
		portFlood:    func(c *net.TCPConn) { _, _ = io.Copy(c, &pattern{}) },
		portRefusing: func(c *net.TCPConn) { _ = c.SetLinger(0) },
	} {
		l, err := net.Listen("tcp", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			return err
		}
		streams(toldOf(l), serve)
	}
	return nil
}

// streams serves whoever comes.
func streams(l net.Listener, serve func(*net.TCPConn)) {
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				continue
			}
			go func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			}()
		}
	}()
}

// digest answers what a stream held, after its end.
func digest(c *net.TCPConn, from io.Reader) {
	quiet.Add(1)
	defer quiet.Done()
	h := sha256.New()
	n, err := io.Copy(h, from)
	seen.add("sum %s %d %v", c.LocalAddr(), n, err)
	fmt.Fprintf(c, "%d %x\n", n, h.Sum(nil))
}

// slowly lets the other side wait for full buffers.
type slowly struct{ io.Reader }

func (s slowly) Read(b []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return s.Reader.Read(b[:min(len(b), 16<<10)])
}

// socks accepts whoever wants no authentication, and says what is asked for.
func socks(c *net.TCPConn) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, int64(head[1]))
	seen.add("socks %d", head[0])
	_, _ = c.Write([]byte{5, 0})
}
