package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// seen is what the world's servers have seen.
var seen sights

type sights struct {
	mu    sync.Mutex
	lines []string
}

// maxSeen is more than any script has to look at.
const maxSeen = 20000

func (s *sights) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) < maxSeen {
		s.lines = append(s.lines, fmt.Sprintf(format, args...))
	}
}

func (s *sights) text() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []byte(strings.Join(append(s.lines, ""), "\n"))
}

// What has arrived is seen before the world ends: each server hears one last word, behind
// everything that came before it, and whoever reads to an end is waited for.
var quiet sync.WaitGroup // those who read to an end

const lastWord = "the world ends"

// lastAddress is where the last connections come from; nobody else has it.
var lastAddress = net.IPv4(127, 99, 99, 99)

// told tells of what it accepts.
type told struct {
	net.Listener
	last chan struct{}
}

func toldOf(l net.Listener) net.Listener {
	t := &told{l, make(chan struct{}, 1)}
	at.listeners = append(at.listeners, t)
	return t
}

func (l *told) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c.RemoteAddr().(*net.TCPAddr).IP.Equal(lastAddress) {
			c.Close()
			l.last <- struct{}{}
			continue
		}
		seen.add("tcp %s", c.LocalAddr())
		return c, nil
	}
}

// settle waits until all that has arrived at the host is seen.
func (h *host) settle() error {
	for _, l := range h.listeners {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: lastAddress}}
		c, err := from.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port))
		if err != nil {
			return err
		}
		<-l.last
		c.Close()
	}
	for _, port := range h.doors {
		for _, address := range []string{"127.0.0.1", "::1"} {
			c, err := net.Dial("udp", net.JoinHostPort(address, strconv.Itoa(port)))
			if err != nil {
				return err
			}
			if _, err := c.Write([]byte(lastWord)); err != nil {
				return err
			}
			if _, err := c.Read(make([]byte, len(lastWord))); err != nil {
				return err
			}
			c.Close()
		}
	}
	done := make(chan struct{})
	go func() {
		quiet.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience): // somebody never ends
	}
	return nil
}
