package peek

import "bytes"

// Kind is what a client begins to talk.
type Kind string

// The kinds.
const (
	Undecided Kind = ""
	TLS       Kind = "tls"          // a record of TLS: see ServerName
	HTTP      Kind = "http"         // what some server could take for a request: see Requests
	HTTP2     Kind = "http2"        // in the clear, with prior knowledge
	SSLv2     Kind = "sslv2"        // a hello that has no room for a name
	Proxy     Kind = "proxy_header" // of the PROXY protocol, behind which anything follows
	SOCKS     Kind = "socks"        // version 4 or 5
	Other     Kind = "other"
)

// maxLine is how much of a first line is waited for, and of blanks before it.
const maxLine = 8 << 10

// proxyV2 opens the second version of the PROXY protocol.
const proxyV2 = "\r\n\r\n\x00\r\nQUIT\n"

// Classify says what the first bytes of a client are; more: they don't say yet. The
// answer for some bytes is the answer for all that begin with them, once there is one.
func Classify(b []byte) (kind Kind, more bool) {
	kind, more = classifyBinary(b)
	if kind == Undecided && !more {
		kind = classifyText(b)
	}
	return kind, kind == Undecided
}

// ClassifyAll says it when no more follows.
func ClassifyAll(b []byte) Kind {
	kind, more := Classify(b)
	if more {
		// Some servers take the end for the end of the line.
		if kind, more = Classify(append(bytes.Clone(b), '\n')); more {
			return Other
		}
	}
	return kind
}

// classifyBinary knows protocols by bytes at fixed places.
func classifyBinary(b []byte) (kind Kind, more bool) {
	if len(b) < len(proxyV2) && bytes.HasPrefix([]byte(proxyV2), b) {
		return Undecided, true
	}
	if bytes.HasPrefix(b, []byte(proxyV2)) {
		return Proxy, false
	}
	switch first := b[0]; {
	case first >= recordCCS && first <= recordHeartbeat:
		// Records of other types as well: a server may pass over an alert.
		if len(b) < 2 {
			return Undecided, true
		}
		if b[1] == 3 {
			return TLS, false
		}
	case first == 4: // then connect or bind
		if len(b) < 2 {
			return Undecided, true
		}
		if b[1] == 1 || b[1] == 2 {
			return SOCKS, false
		}
	case first == 5: // then how many methods; none at all is DCE/RPC, or Cassandra
		if len(b) < 2 {
			return Undecided, true
		}
		if b[1] != 0 {
			return SOCKS, false
		}
	case first&0x80 != 0:
		return classifySSLv2(b)
	}
	return Undecided, false
}

// classifySSLv2 knows a hello of SSL 2: two bytes of length, 1, and a version.
func classifySSLv2(b []byte) (kind Kind, more bool) {
	switch {
	case len(b) < 3:
		return Undecided, true
	case b[2] != 1:
		return Undecided, false
	case len(b) < 4:
		return Undecided, true
	case b[3] == 3:
		return SSLv2, false
	case b[3] != 0:
		return Undecided, false
	case len(b) < 5:
		return Undecided, true
	case b[4] == 2:
		return SSLv2, false
	}
	return Undecided, false
}

// classifyText looks at the first line that isn't empty, as the most lenient server
// would read it.
func classifyText(b []byte) Kind {
	start := 0
	for start < len(b) && (blank(b[start]) || b[start] == '\n') {
		start++
	}
	if start > maxLine {
		return HTTP // and refused as such
	}
	l := line{b: b[start:]}
	for i := range l.b {
		if kind := l.step(i); kind != Undecided {
			return kind
		}
	}
	return Undecided
}

// token is tchar of RFC 9110, section 5.6.2.
func token(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) >= 0
}
