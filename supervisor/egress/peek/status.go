package peek

import "bytes"

// Status is the status of the first final answer in what a server says from the beginning of a
// connection, of 101 too; more: it isn't there yet. Other answers of the kind 1xx come before
// the one that they announce, and are passed over.
func Status(b []byte) (code int, more bool, err error) {
	for {
		l, _, found := bytes.Cut(b[:min(len(b), statusLength+1)], []byte("\n"))
		if !statusLine(l) || found && len(l) < statusLength {
			return 0, false, refuse(BadStatus, "the server's answer is none of HTTP/1")
		}
		if len(l) <= statusLength && !found {
			return 0, true, nil
		}
		code = int(l[9]-'0')*100 + int(l[10]-'0')*10 + int(l[11]-'0')
		if code/100 != 1 || code == 101 {
			return code, false, nil
		}
		end := emptyLine(b)
		switch {
		case end > MaxHead || end == 0 && len(b) >= MaxHead:
			return 0, false, refuse(TooLong, "an interim answer of the server's is too long")
		case end == 0:
			return 0, true, nil
		}
		if b = b[end:]; len(b) == 0 {
			return 0, true, nil
		}
	}
}

const statusLength = len("HTTP/1.1 101")

// statusLine says whether l is one, or begins as one.
func statusLine(l []byte) bool {
	const form = "HTTP/1.d ddd"
	for i, c := range l {
		switch {
		case i == statusLength:
			return c == ' ' || c == '\r'
		case form[i] == 'd' && !digit(c), form[i] != 'd' && form[i] != c:
			return false
		}
	}
	return true
}

// emptyLine is where the first head ends, however its lines do; 0: it doesn't yet.
func emptyLine(b []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return 0
		}
		if l := b[at : at+i]; at > 0 && (len(l) == 0 || string(l) == "\r") {
			return at + i + 1
		}
		at += i + 1
	}
}
