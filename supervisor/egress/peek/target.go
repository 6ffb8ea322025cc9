package peek

import (
	"net/netip"
	"strconv"
	"strings"
)

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
