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
		return classifyRecord(b)
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

// classifyRecord knows a record of TLS by what is in it: Go's servers take a first one whatever version it says, a hello or an alert.
func classifyRecord(b []byte) (kind Kind, more bool) {
	hello := b[0] == recordHandshake
	if !hello && b[0] != recordAlert {
		return Undecided, false
	}
	if len(b) < recordHeader+1 {
		return Undecided, true
	}
	if hello && b[recordHeader] == messageHello || !hello && b[3] == 0 && b[4] == 2 {
		return TLS, false
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

// line is a first line while it is read, without the blanks in front.
type line struct {
	b     []byte
	words int // that are over
	start int // of the word that isn't
	odd   bool

	first  []byte // word
	method bool   // it could be one
	target bool   // the second word is one of a request, without a version behind it
	other  bool   // the last word is the version of what some server takes for HTTP
}

// step looks at the byte at i, which follows on those before.
func (l *line) step(i int) Kind {
	c := l.b[i]
	switch {
	case i >= maxLine:
		if l.odd {
			return Other // the first word is no method's
		}
		return HTTP
	case c == '/' && i >= 4 && bytes.EqualFold(l.b[i-4:i], []byte("HTTP")):
		if string(l.first) == "PRI" {
			return HTTP2
		}
		return HTTP
	case c == 0:
		if l.method {
			return HTTP
		}
		return Other
	case c == '\n':
		l.end(i)
		if l.versionless() {
			return HTTP
		}
		return Other
	case blank(c):
		l.end(i)
		switch {
		case string(l.first) == "GET": // the one method of HTTP/0.9, whatever follows
			return HTTP
		case string(l.first) == "PROXY":
			return Proxy
		case c == '\r' && l.versionless(): // a lenient server's end of line
			return HTTP
		}
	case c < 0x20 || c == 0x7f:
		if !l.method {
			return Other
		}
	case l.words == 0 && !token(c):
		l.odd = true
	}
	return Undecided
}

// end is called for what separates words, at i.
func (l *line) end(i int) {
	word := l.b[l.start:i]
	l.start = i + 1
	if len(word) == 0 {
		return
	}
	switch l.words++; l.words {
	case 1:
		l.first, l.method = word, upper(word)
	case 2:
		l.target = word[0] == '/' || bytes.Contains(word, []byte("://")) ||
			string(l.first) == "OPTIONS" && word[0] == '*' ||
			string(l.first) == "CONNECT" && word[0] != '{' // that is NATS
	}
	l.other = bytes.HasPrefix(word, []byte("RTSP/")) || bytes.HasPrefix(word, []byte("ICE/"))
}

// versionless says whether the line so far, without "HTTP/", is a request for some server.
func (l *line) versionless() bool {
	return l.words >= 2 && l.method && (l.target || l.other)
}

// blank is what separates words, and is cut off in front, for some server: Python's
// splits at all of these.
func blank(c byte) bool {
	return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r' || c >= 0x1c && c <= 0x1f || c == 0x85 || c == 0xa0
}

// upper says whether a word could be a method, as they all are spelt.
func upper(word []byte) bool {
	for _, c := range word {
		if (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return len(word) > 0
}
