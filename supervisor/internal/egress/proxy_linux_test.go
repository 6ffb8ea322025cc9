package egress

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/internal/egress/proxied"
)

// origin is a server that says what it was sent, once, on a port of the host's.
func origin(t *testing.T) (port int, heard chan string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must.Do(t, err)
	t.Cleanup(func() { l.Close() })
	heard = make(chan string, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 4<<10)
				n, _ := c.Read(b)
				heard <- string(b[:n])
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, heard
}

// asks sends a proxy some text, and gives its answer.
func asks(t *testing.T, port uint16, text string) string {
	t.Helper()
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if errors.Is(err, syscall.ECONNRESET) {
		return "" // who isn't served is told so by a reset, which may be there before the connection is seen to be
	}
	must.Do(t, err)
	defer c.Close()
	_, _ = io.WriteString(c, text)
	answer, _ := io.ReadAll(bufio.NewReader(c))
	return string(answer)
}

func TestProxy(t *testing.T) {
	port, heard := origin(t)
	at := fmt.Sprintf("ok.test:%d", port)
	for _, c := range []struct {
		name, text      string
		answer, arrives string
		verdict         string
	}{
		{"a page", "GET http://" + at + "/a?b=c HTTP/1.1\r\nHost: " + at + "\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic x\r\nX-Y: z\r\n\r\n", "200 OK",
			"GET /a?b=c HTTP/1.1\r\nHost: " + at + "\r\nX-Y: z\r\nConnection: close\r\n\r\n", status.AttemptAllowed},
		{"a tunnel", "CONNECT " + at + " HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: ok.test\r\n\r\n", "200 Connection established\r\n\r\nHTTP/1.1 200 OK",
			"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n", status.AttemptAllowed},
		{"a tunnel in which another is named", "CONNECT " + at + " HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "", "", status.AttemptBlocked},
		{"a page of another, by its header", "GET http://" + at + "/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", "", "", status.AttemptBlocked},
		{"a name that no rule has", "CONNECT evil.test:443 HTTP/1.1\r\n\r\n", "403 Forbidden", "", status.AttemptBlocked},
		{"another port", "CONNECT ok.test:1 HTTP/1.1\r\n\r\n", "403 Forbidden", "", status.AttemptBlocked},
		{"an address that no rule has", "CONNECT 10.0.0.1:80 HTTP/1.1\r\n\r\n", "403 Forbidden", "", status.AttemptBlocked},
		{"this host, by its number in IPv6", "CONNECT [::1]:22 HTTP/1.1\r\n\r\n", "403 Forbidden", "", status.AttemptBlocked},
		{"this host, by its name", "CONNECT localhost:22 HTTP/1.1\r\n\r\n", "403 Forbidden", "", status.AttemptBlocked},
		{"an address that stands for a name", "CONNECT 198.18.0.16:80 HTTP/1.1\r\n\r\n", "403 Forbidden", "", status.AttemptBlocked},
		{"a name that has no address", fmt.Sprintf("CONNECT slow.test:%d HTTP/1.1\r\n\r\n", port), "502 Bad Gateway", "", status.AttemptFailed},
		{"no proxy's request", "GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n", "400 Bad Request", "", ""},
		{"TLS to the proxy itself", "\x16\x03\x01\x00\x05hello\r\n\r\n", "400 Bad Request", "", ""},
		{"a header in two lines", "GET http://" + at + "/ HTTP/1.1\r\nHost: ok.test\r\n x\r\n\r\n", "400 Bad Request", "", ""},
		{"a user", "GET http://a@" + at + "/ HTTP/1.1\r\n\r\n", "400 Bad Request", "", ""},
		{"a head without end", "GET http://" + at + "/" + strings.Repeat("x", 2*proxied.MaxHead), "400 Bad Request", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := gateway(t, plan.Network{Rules: allow(at, fmt.Sprintf("slow.test:%d", port))}, map[string][]string{"ok.test.": {"127.0.0.1"}})
			t.Cleanup(g.Close)
			told := make(chan status.Attempt, 16)
			g.log.tell = func(a status.Attempt) { told <- a }
			proxy, err := Proxy(g)
			must.Do(t, err)
			answer := asks(t, proxy, c.text)
			if !strings.Contains(answer, c.answer) || c.answer == "" && strings.Contains(answer, "hi") {
				t.Errorf("it answers %q", answer)
			}
			if c.verdict != "" {
				if a := <-told; a.Verdict != c.verdict {
					t.Errorf("it is told as %+v", a)
				}
			}
			if c.arrives != "" {
				if got := <-heard; got != c.arrives {
					t.Errorf("the server hears %q", got)
				}
			}
			select {
			case got := <-heard:
				if got != "" {
					t.Errorf("the server hears %q", got)
				}
			default:
			}
		})
	}
}

// TestProxyIsNotHeldByThoseWhoAskNothing: they have so many descriptors and no more, and who comes after them is served again.
func TestProxyIsNotHeldByThoseWhoAskNothing(t *testing.T) {
	g := gateway(t, plan.Network{}, nil)
	t.Cleanup(g.Close)
	proxy, err := Proxy(g)
	must.Do(t, err)
	var idle []net.Conn
	for range maxProxyWaiting {
		c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", proxy))
		must.Do(t, err)
		t.Cleanup(func() { c.Close() })
		idle = append(idle, c)
	}
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", proxy))
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) { // at the one or at the other
		t.Errorf("one too many: %v", err)
	}
	for _, c := range idle {
		c.Close()
	}
	for { // until it is seen that they have gone
		if answer := asks(t, proxy, "CONNECT evil.test:443 HTTP/1.1\r\n\r\n"); strings.Contains(answer, "403") {
			break
		}
	}
}
