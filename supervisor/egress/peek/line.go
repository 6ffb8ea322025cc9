package peek

import "bytes"

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
