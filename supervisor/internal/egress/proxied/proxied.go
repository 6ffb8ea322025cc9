// Package proxied reads what programs ask a proxy of HTTP for: tunnels, and pages of plain HTTP.
package proxied

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
)

// MaxHead is how long a request may be, but for its body.
const MaxHead = 32 << 10

// Request is what a program asks the proxy for.
type Request struct {
	Connect bool
	Host    string
	Port    uint16
	Rest    []byte // what goes to the other side before anything else
}

// Read reads a request, and no more than what came with it.
func Read(c io.Reader) (q Request, ok bool) {
	head := make([]byte, 0, 4<<10)
	for {
		if len(head) == cap(head) {
			head = append(head, 0)[:len(head)]
		}
		n, err := c.Read(head[len(head):min(cap(head), MaxHead)])
		head = head[:len(head)+n]
		if end := bytes.Index(head, []byte("\r\n\r\n")); end >= 0 {
			return parse(head[:end], head[end+4:])
		}
		if err != nil || len(head) >= MaxHead {
			return q, false
		}
	}
}

// parse reads the head of a request. One for a page becomes a request to the server that has it, and the only one on its connection.
func parse(head, body []byte) (q Request, ok bool) {
	lines := strings.Split(string(head), "\r\n")
	method, rest, _ := strings.Cut(lines[0], " ")
	target, version, _ := strings.Cut(rest, " ")
	if method == "" || version != "HTTP/1.1" && version != "HTTP/1.0" {
		return q, false
	}
	if method == "CONNECT" {
		q.Connect, q.Rest = true, body
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
	q.Rest = append([]byte(strings.Join(out, "\r\n")), body...)
	return q, true
}

// setHost takes HOST:PORT, or HOST alone where there is a usual port.
func (q *Request) setHost(text, usual string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		if usual == "" {
			return false
		}
		host, port = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), usual
	}
	n, err := strconv.ParseUint(port, 10, 16)
	q.Host, q.Port = host, uint16(n)
	return err == nil && n > 0 && host != ""
}

// Refusal answers a request in words.
func Refusal(code, why string) []byte {
	text := "confine: " + why + "\n"
	return []byte("HTTP/1.1 " + code + "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " + strconv.Itoa(len(text)) +
		"\r\nConnection: close\r\n\r\n" + text)
}

// Established answers CONNECT.
const Established = "HTTP/1.1 200 Connection established\r\n\r\n"
