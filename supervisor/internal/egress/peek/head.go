package peek

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"
)

// Request is the head of one.
type Request struct {
	Method string
	Target string // as it is written
	// Path is that of the target, as it is written: nothing in it is decoded or
	// cleaned, and the query is cut off. Empty for CONNECT, and "*" for the whole server.
	Path string
	// Authority is that of the target, if it has one: of a proxy's request, and of CONNECT.
	Authority string
	// Host is the field's, canonical as ServerName's, but for one dot that is cut off
	// at the end; or an address as netip writes it. Of CONNECT, which names two, it is
	// the field's too, if there is one.
	Host string
	Port uint16 // behind it; 0: none
}

// head is what a head says to the server beside what it asks for.
type head struct {
	Request
	one     bool  // HTTP/1.0
	length  int64 // of the body
	chunked bool
	upgrade bool // to what isn't HTTP any more
}

// parseHead reads a head, with the empty line at its end. Each line ends in CR LF
// and has no other control characters than tabs.
func parseHead(b []byte) (h head, err error) {
	first, rest, _ := bytes.Cut(b, []byte("\r\n"))
	if err = h.parseLine(first); err != nil {
		return h, err
	}
	f, err := parseFields(rest)
	if err != nil {
		return h, err
	}
	if err = h.frame(f); err != nil {
		return h, err
	}
	return h, h.address(f)
}

// parseLine reads the request line.
func (h *head) parseLine(l []byte) error {
	if len(l) == 0 {
		return refuse(BadRequestLine, "an empty line comes before a request")
	}
	parts := bytes.Split(l, []byte(" "))
	if len(parts) != 3 {
		return refuse(BadRequestLine, "a request line isn't a method, a target and a version, one space apart")
	}
	switch string(parts[2]) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.one = true
	default:
		return refuse(BadVersion, "a request is of another version than HTTP/1.1 and HTTP/1.0")
	}
	if len(parts[0]) == 0 || !all(parts[0], token) || string(parts[0]) == "PRI" {
		return refuse(BadRequestLine, "a request has no method")
	}
	h.Method, h.Target = string(parts[0]), string(parts[1])
	return h.parseTarget()
}

// address settles whom the request is for.
func (h *head) address(f *fields) error {
	if h.Method == methodConnect {
		if f.hosts == 1 {
			h.Host, h.Port, _ = parseHost(f.host)
		}
		return nil // refused anyhow
	}
	switch {
	case f.hosts == 0:
		return refuse(NoHost, "a request has no Host")
	case f.hosts > 1:
		return refuse(TwoHosts, "a request has two Hosts")
	}
	var err error
	if h.Host, h.Port, err = parseHost(f.host); err != nil {
		return err
	}
	if h.Authority == "" {
		return nil
	}
	host, port, err := parseHost(h.Authority)
	if err != nil {
		return err
	}
	if host != h.Host || plain(port) != plain(h.Port) {
		return refuse(HostMismatch, "the target of a request has another host than its Host")
	}
	return nil
}

// plain is the port of a URL.
func plain(port uint16) uint16 {
	if port == 0 {
		return 80
	}
	return port
}

func all(b []byte, is func(byte) bool) bool {
	for _, c := range b {
		if !is(c) {
			return false
		}
	}
	return true
}

const methodConnect = "CONNECT"

// parseTarget takes the target apart (RFC 9112, section 3.2).
func (h *head) parseTarget() error {
	t := h.Target
	for i := range len(t) {
		// Python takes 0x85 and 0xa0 for blanks; what is behind # is nobody's business but the client's.
		if c := t[i]; c <= ' ' || c == 0x7f || c == 0x85 || c == 0xa0 || c == '#' {
			return refuse(BadTarget, "the target of a request has a character that no target has")
		}
	}
	switch {
	case strings.EqualFold(h.Method, methodConnect):
		h.Method, h.Authority = methodConnect, t
		return nil
	case strings.HasPrefix(t, "/"):
		h.Path = beforeQuery(t)
		return nil
	case t == "*" && h.Method == "OPTIONS":
		h.Path = t
		return nil
	}
	const scheme = "http://"
	if len(t) <= len(scheme) || !strings.EqualFold(t[:len(scheme)], scheme) {
		return refuse(BadTarget, "the target of a request is neither a path nor a http URL")
	}
	end := strings.IndexAny(t[len(scheme):], "/?")
	if end < 0 {
		end = len(t) - len(scheme)
	}
	h.Authority, h.Path = t[len(scheme):len(scheme)+end], beforeQuery(t[len(scheme)+end:])
	switch {
	case h.Authority == "":
		return refuse(BadTarget, "the target of a request has an empty host")
	case h.Path == "":
		h.Path = "/"
	}
	return nil
}

func beforeQuery(t string) string {
	p, _, _ := strings.Cut(t, "?")
	return p
}

// parseHost reads a host with or without a port.
func parseHost(s string) (host string, port uint16, err error) {
	host = s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host = s[:i]
		n, err := strconv.ParseUint(s[i+1:], 10, 16)
		if err != nil || s[i+1] == '0' {
			return "", 0, refuse(BadHost, "the port of a request's host is no number of a port")
		}
		port = uint16(n)
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, closed := strings.CutSuffix(inner, "]")
		a, err := netip.ParseAddr(inner)
		if !closed || err != nil || !a.Is6() || a.Zone() != "" {
			return "", 0, refuse(BadHost, "the host of a request is no address, and in brackets")
		}
		return a.String(), port, nil
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
		return a.String(), port, nil
	}
	name, nameErr := hostName([]byte(strings.TrimSuffix(host, ".")))
	if nameErr != nil {
		return "", 0, refuse(BadHost, "the host of a request is neither a name nor an address")
	}
	return name, port, nil
}

// fields are what of a head's fields matters here.
type fields struct {
	hosts     int
	host      string
	lengths   int
	length    string
	encodings int
	encoding  string
	expects   int
	expect    string
	upgrades  []string // protocols
}

// parseFields reads field lines up to the empty one.
func parseFields(b []byte) (*fields, error) {
	f := &fields{}
	for {
		l, rest, found := bytes.Cut(b, []byte("\r\n"))
		if len(l) == 0 {
			if !found || len(rest) != 0 {
				return nil, refuse(BadField, "a head is over before it ends")
			}
			return f, nil
		}
		name, value, err := parseField(l)
		if err != nil {
			return nil, err
		}
		if err = f.note(name, value); err != nil {
			return nil, err
		}
		b = rest
	}
}

// parseField takes a line apart. The name is lower case, the value untrimmed.
func parseField(l []byte) (name, value string, err error) {
	n, v, found := bytes.Cut(l, []byte(":"))
	switch {
	case l[0] == ' ' || l[0] == '\t':
		return "", "", refuse(BadField, "a field of a request is folded")
	case !found || len(n) == 0 || !all(n, token):
		return "", "", refuse(BadField, "a field of a request has no name, or one with a blank or the like in it")
	}
	return strings.ToLower(string(n)), string(v), nil
}

// note keeps a field that matters.
func (f *fields) note(name, value string) error {
	switch name {
	case "host":
		f.hosts++
		f.host = exact(value)
	case "content-length":
		f.lengths++
		f.length = exact(value)
	case "transfer-encoding":
		f.encodings++
		f.encoding = exact(value)
	case "expect":
		f.expects++
		f.expect = exact(value)
	case "upgrade":
		f.upgrades = append(f.upgrades, members(value)...)
	case "connection", "proxy-connection":
		// What it names, a proxy takes out before it passes the request on.
		for _, m := range members(value) {
			if framing(m) {
				return refuse(BadField, "the Connection of a request names a field that has to arrive")
			}
		}
	default:
		// Behind CGI and its like Content_Length is the same variable as Content-Length.
		if framing(strings.ReplaceAll(name, "_", "-")) {
			return refuse(BadField, "a field of a request may be taken for Host, or for one of the length")
		}
	}
	return nil
}

// framing says whether a field decides whom a request is for, or where it ends.
func framing(name string) bool {
	switch name {
	case "host", "content-length", "transfer-encoding", "expect":
		return true
	}
	return false
}

// exact is a value without the space in front. Servers differ in what else they trim,
// so that anything else stays, and makes the value wrong.
func exact(value string) string { return strings.TrimPrefix(value, " ") }

// members are the words of a list, lower case.
func members(value string) (all []string) {
	for m := range strings.SplitSeq(value, ",") {
		if m = strings.ToLower(strings.Trim(m, " \t")); m != "" {
			all = append(all, m)
		}
	}
	return all
}

// frame settles where the request ends (RFC 9112, section 6), and what may come after.
func (h *head) frame(f *fields) error {
	switch {
	case f.encodings > 0 && f.lengths > 0:
		return refuse(BadLength, "a request has a Content-Length beside a Transfer-Encoding")
	case f.encodings > 0:
		if f.encodings > 1 || f.encoding != "chunked" || h.one {
			return refuse(BadEncoding, `a request has another Transfer-Encoding than one "chunked", or has one in HTTP/1.0`)
		}
		h.chunked = true
	case f.lengths > 0:
		n, ok := parseLength(f.length)
		if !ok || f.lengths > 1 {
			return refuse(BadLength, "a request has a Content-Length that isn't one plain number, or has two")
		}
		h.length = n
	}
	if f.expects > 1 || f.expects == 1 && !strings.EqualFold(f.expect, "100-continue") {
		return refuse(BadExpect, "a request expects something else than 100-continue")
	}
	return h.follow(f.upgrades)
}

// parseLength reads a Content-Length: digits, so many that nobody's number overflows.
func parseLength(s string) (int64, bool) {
	if len(s) == 0 || len(s) > 18 || len(s) > 1 && s[0] == '0' || !all([]byte(s), digit) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// follow settles what becomes of the connection if the server agrees to an upgrade. A
// WebSocket is raw from then on. Upgrades to another HTTP, or to TLS, are passed on but
// not followed: what the client says next has to be a request as before, which neither of
// them is. Servers ignore most of them, and Java's client offers h2c by itself.
func (h *head) follow(protocols []string) error {
	ours := 0
	for _, p := range protocols {
		name, _, _ := strings.Cut(p, "/")
		if strings.HasPrefix(name, "h2") || name == "http" || name == "tls" {
			ours++
		}
	}
	if ours > 0 && ours < len(protocols) {
		return refuse(BadUpgrade, "a request offers to upgrade to HTTP or TLS, or else to something else")
	}
	h.upgrade = len(protocols) > ours
	return nil
}
