package peek

import (
	"bytes"
	"net/netip"
	"slices"
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
		return BadRequestLine
	}
	parts := bytes.Split(l, []byte(" "))
	if len(parts) != 3 {
		return BadRequestLine
	}
	switch string(parts[2]) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.one = true
	default:
		return BadVersion
	}
	if len(parts[0]) == 0 || !all(parts[0], token) || string(parts[0]) == "PRI" {
		return BadRequestLine
	}
	h.Method, h.Target = string(parts[0]), string(parts[1])
	return h.parseTarget()
}

// address reads which host the request is for.
func (h *head) address(f fields) error {
	if h.Method == methodConnect {
		if len(f["host"]) == 1 {
			h.Host, h.Port, _ = parseHost(f["host"][0])
		}
		return nil // refused anyhow
	}
	switch {
	case len(f["host"]) == 0:
		return NoHost
	case len(f["host"]) > 1:
		return TwoHosts
	}
	var err error
	if h.Host, h.Port, err = parseHost(f["host"][0]); err != nil {
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
		return HostMismatch
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
			return BadTarget
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
		return BadTarget
	}
	end := strings.IndexAny(t[len(scheme):], "/?")
	if end < 0 {
		end = len(t) - len(scheme)
	}
	h.Authority, h.Path = t[len(scheme):len(scheme)+end], beforeQuery(t[len(scheme)+end:])
	switch {
	case h.Authority == "":
		return BadTarget
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
			return "", 0, BadHost
		}
		port = uint16(n)
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, closed := strings.CutSuffix(inner, "]")
		a, err := netip.ParseAddr(inner)
		if !closed || err != nil || !a.Is6() || a.Zone() != "" {
			return "", 0, BadHost
		}
		return a.String(), port, nil
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
		return a.String(), port, nil
	}
	name, nameErr := hostName([]byte(strings.TrimSuffix(host, ".")))
	if nameErr != nil {
		return "", 0, BadHost
	}
	return name, port, nil
}

// fields are the values of those that matter here, and the protocols of Upgrade, by their names.
type fields map[string][]string

// parseFields reads field lines up to the empty one.
func parseFields(b []byte) (fields, error) {
	f := fields{}
	for {
		l, rest, found := bytes.Cut(b, []byte("\r\n"))
		if len(l) == 0 {
			if !found || len(rest) != 0 {
				return nil, BadField
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
		return "", "", BadField
	case !found || len(n) == 0 || !all(n, token):
		return "", "", BadField
	}
	return strings.ToLower(string(n)), string(v), nil
}

// note keeps a field that matters.
func (f fields) note(name, value string) error {
	switch {
	case framing(name):
		f[name] = append(f[name], exact(value))
	case name == "upgrade":
		if m := members(value); len(m) > 0 {
			f[name] = append(f[name], m...)
		}
	case name == "connection" || name == "proxy-connection":
		// What it names, a proxy takes out before it passes the request on.
		if slices.ContainsFunc(members(value), framing) {
			return BadField
		}
	default:
		// Behind CGI and its like Content_Length is the same variable as Content-Length.
		if framing(strings.ReplaceAll(name, "_", "-")) {
			return BadField
		}
	}
	return nil
}

// framing says whether a field decides which host a request is for, or where it ends.
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
func (h *head) frame(f fields) error {
	lengths, encodings := f["content-length"], f["transfer-encoding"]
	switch {
	case len(encodings) > 0 && len(lengths) > 0:
		return BadLength
	case len(encodings) > 0:
		if len(encodings) > 1 || encodings[0] != "chunked" || h.one {
			return BadEncoding
		}
		h.chunked = true
	case len(lengths) > 0:
		n, ok := parseLength(lengths[0])
		if !ok || len(lengths) > 1 {
			return BadLength
		}
		h.length = n
	}
	if expects := f["expect"]; len(expects) > 1 || len(expects) == 1 && !strings.EqualFold(expects[0], "100-continue") {
		return BadExpect
	}
	return h.follow(f["upgrade"])
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
		return BadUpgrade
	}
	h.upgrade = len(protocols) > ours
	return nil
}
