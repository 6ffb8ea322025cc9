package peek

import (
	"strconv"
	"strings"
)

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
