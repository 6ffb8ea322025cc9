package egress

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/supervisor/internal/egress/names"
)

const (
	// maxProxyHead is how long a request to the proxy may be, but for its body.
	maxProxyHead = 32 << 10
	// proxyPatience bounds the time until it is there.
	proxyPatience = 30 * time.Second
)

// Proxy serves programs that ask a proxy of HTTP for what they want to reach, on a port of this host's loopback. It is for systems on which nothing
// leads them here otherwise. What they ask for is judged as if they had connected to it.
func (g *Gateway) Proxy() (port uint16, err error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, err
	}
	context.AfterFunc(g.inside, func() { _ = l.Close() })
	g.all.Go(func() {
		for {
			c, err := l.AcceptTCP()
			switch {
			case err == nil:
				g.all.Go(func() { g.proxied(newConn(c)) })
			case g.inside.Err() != nil:
				return
			default:
				time.Sleep(proxyPause)
			}
		}
	})
	return endpoint(l.Addr()).Port(), nil
}

// proxyPause is how long nothing is accepted when there is no descriptor or memory left.
const proxyPause = 10 * time.Millisecond

// proxied serves one connection to the proxy.
func (g *Gateway) proxied(c *conn) {
	leave := context.AfterFunc(g.inside, c.reset)
	_ = c.SetReadDeadline(time.Now().Add(proxyPatience))
	q, ok := readProxy(c)
	_ = c.SetReadDeadline(time.Time{})
	leave()
	if !ok {
		answerProxy(c, "400 Bad Request", "this is a proxy: it takes CONNECT HOST:PORT, and requests for http://HOST/PATH")
		return
	}
	f := &flow{protocol: "tcp", from: c.remote(), early: q.rest}
	f.meant(q.host, q.port)
	far, ok := g.reach(f)
	if !ok {
		why := "it can't be reached"
		code := "502 Bad Gateway"
		if !f.verdict.Allowed {
			code, why = "403 Forbidden", "the rules don't allow it: "+string(f.verdict.Why)
			if f.verdict.Hint != "" {
				why += "; " + f.verdict.Hint
			}
		}
		answerProxy(c, code, hostPort(q.host, q.port)+": "+why)
		return
	}
	defer g.end(f)
	outside := newConn(far.(*net.TCPConn))
	f.onAbort(c.reset)
	f.onAbort(outside.reset)
	if q.connect {
		_, _ = c.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")) // who doesn't hear it is gone
	}
	g.relay(f, c, outside)
}

// meant says whom a flow is for, by a name or an address that a program gave.
func (f *flow) meant(host string, port uint16) {
	a, err := netip.ParseAddr(host)
	name, named := network.CanonicalName(host)
	switch {
	case err == nil && a.Unmap().IsLoopback(), named && (name == "localhost" || strings.HasSuffix(name, ".localhost")):
		f.use, f.to = handoff.UseLocalhost, netip.AddrPortFrom(names.HostAddresses().V4, port)
	case err == nil:
		f.to = plainPort(netip.AddrPortFrom(a, port))
	case named:
		f.name, f.to = name, netip.AddrPortFrom(netip.Addr{}, port)
	default: // no rule names it
		f.to = netip.AddrPortFrom(netip.IPv4Unspecified(), port)
	}
}

// proxyRequest is what a program asks the proxy for.
type proxyRequest struct {
	connect bool
	host    string
	port    uint16
	rest    []byte // what goes to the other side before anything else
}

// readProxy reads a request, and no more than what came with it.
func readProxy(c net.Conn) (q proxyRequest, ok bool) {
	head := make([]byte, 0, firstBuffer)
	for {
		if len(head) == cap(head) {
			head = append(head, 0)[:len(head)]
		}
		n, err := c.Read(head[len(head):min(cap(head), maxProxyHead)])
		head = head[:len(head)+n]
		if end := bytes.Index(head, []byte("\r\n\r\n")); end >= 0 {
			return parseProxy(head[:end], head[end+4:])
		}
		if err != nil || len(head) >= maxProxyHead {
			return q, false
		}
	}
}

// parseProxy reads the head of a request. One for a page becomes a request to the server that has it, and the only one on its connection.
func parseProxy(head, body []byte) (q proxyRequest, ok bool) {
	lines := strings.Split(string(head), "\r\n")
	method, rest, _ := strings.Cut(lines[0], " ")
	target, version, _ := strings.Cut(rest, " ")
	if method == "" || version != "HTTP/1.1" && version != "HTTP/1.0" {
		return q, false
	}
	if method == "CONNECT" {
		q.connect, q.rest = true, body
		return q, q.setHost(target, "")
	}
	after, isPlain := strings.CutPrefix(target, "http://")
	if !isPlain {
		return q, false
	}
	host, path, _ := strings.Cut(after, "/")
	if strings.ContainsAny(host, "@?#") || !q.setHost(host, "80") {
		return q, false
	}
	out := []string{method + " /" + path + " " + version}
	for _, l := range lines[1:] {
		switch name, _, is := strings.Cut(l, ":"); {
		case !is || name == "" || strings.ContainsAny(name, " \t") || strings.ContainsAny(l, "\r\n\x00"):
			return q, false // a header that goes on in another line, among others
		case strings.EqualFold(name, "Proxy-Connection"), strings.EqualFold(name, "Proxy-Authorization"), strings.EqualFold(name, "Connection"), strings.EqualFold(name, "Keep-Alive"):
		default:
			out = append(out, l)
		}
	}
	out = append(out, "Connection: close", "", "")
	q.rest = append([]byte(strings.Join(out, "\r\n")), body...)
	return q, true
}

// setHost takes HOST:PORT, or HOST alone where there is a usual port.
func (q *proxyRequest) setHost(text, usual string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		if usual == "" {
			return false
		}
		host, port = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), usual
	}
	n, err := strconv.ParseUint(port, 10, 16)
	q.host, q.port = host, uint16(n)
	return err == nil && n > 0 && host != ""
}

// answerProxy refuses a request in words.
func answerProxy(c *conn, code, why string) {
	_, _ = c.Write([]byte("HTTP/1.1 " + code + "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " + strconv.Itoa(len(why)+len("confine: \n")) +
		"\r\nConnection: close\r\n\r\nconfine: " + why + "\n"))
	_ = c.Close()
}
