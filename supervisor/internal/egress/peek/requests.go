package peek

import (
	"bytes"
	"strconv"
)

// Bounds on what is parsed in one piece, and so on what has to be kept meanwhile.
const (
	MaxHead    = 64 << 10 // a head, with the empty line at its end
	maxTrailer = 8 << 10
	maxChunk   = 256 // the line of its size, with extensions
)

type state int

const (
	atHead state = iota
	inBody
	atChunk    // a line with a size
	inChunk    // its data
	atChunkEnd // the end of line behind
	atTrailer
	upgrading // a request is over, and the server has to agree or not
	raw
)

// Requests reads what a client says to a server of HTTP/1, for as long as it does, and
// checks each request. What is let through is let through as it is. It is not for
// concurrent use, but for the gateway's one loop:
//
//	for {
//		n, err := requests.Next(buf[:have]) // then send buf[:n], and move the rest to the front
//		…                                   // err: end the connection, after what is let through
//		if k := requests.Body(); k > 0 && n == have {
//			…                           // splice up to k bytes, then requests.Skip of as many
//		}
//		…                                   // if requests.Waiting(): Answered, once Status knows
//		…                                   // read more behind what is left; at its end, requests.End
//	}
//
// A buffer of MaxHead bytes is always enough.
type Requests struct {
	// Check is called with each request before any of it is let through. What it
	// returns, Next returns.
	Check func(Request) error

	state   state
	left    int64 // of a body, or of a chunk
	count   int   // requests
	upgrade bool  // of the request that is in its body
	block   block
	err     error
}

// Next looks at what follows on what was let through before: b begins with what
// was left. The first n bytes may be sent on now, even if there is an error; of the rest more is
// needed. Once there was an error, there is nothing but it.
func (r *Requests) Next(b []byte) (n int, err error) {
	for r.err == nil {
		k, more := r.step(b[n:])
		n += k
		if more || r.err != nil {
			break
		}
	}
	return n, r.err
}

// Body says how many bytes may follow that needn't be shown to Next.
func (r *Requests) Body() int64 {
	if r.err == nil && (r.state == inBody || r.state == inChunk) {
		return r.left
	}
	return 0
}

// Skip tells of bytes that were sent on without Next, at most as many as Body said.
func (r *Requests) Skip(n int64) {
	if n < 0 || n > r.Body() {
		r.err = TooLong
		return
	}
	r.pass(n)
}

// Waiting says whether Next lets nothing through before Answered.
func (r *Requests) Waiting() bool { return r.err == nil && r.state == upgrading }

// Answered tells the status of the server's answer to the request that asks for an
// upgrade: the first answer of the connection (see Status).
func (r *Requests) Answered(status int) {
	switch {
	case r.state != upgrading:
	case status == 101:
		r.state = raw
	default:
		r.state = atHead
	}
}

// Raw says that all that follows is let through: the server has agreed to an upgrade.
func (r *Requests) Raw() bool { return r.err == nil && r.state == raw }

// End tells that the client will say no more, with rest not let through. The error is
// for the log: what came before was right, and has been sent.
func (r *Requests) End(rest []byte) error {
	if r.err != nil {
		return r.err
	}
	if len(rest) == 0 && (r.state == atHead || r.state == upgrading || r.state == raw) {
		return nil
	}
	r.err = Unfinished
	return r.err
}

// step takes one piece from the front of b, or wants more of it.
func (r *Requests) step(b []byte) (n int, more bool) {
	if len(b) == 0 || r.state == upgrading {
		return 0, true
	}
	switch r.state {
	case atHead:
		return r.unit(b, MaxHead, r.request)
	case inBody, inChunk:
		n = int(min(r.left, int64(len(b))))
		r.pass(int64(n))
		return n, false
	case atChunk:
		return r.unitLine(b, r.chunk)
	case atChunkEnd:
		return r.unitLine(b, func(l []byte) error {
			if len(l) != 0 {
				return BadChunk
			}
			r.state = atChunk
			return nil
		})
	case atTrailer:
		return r.unit(b, maxTrailer, r.trailer)
	}
	return len(b), false // raw
}

// unit takes lines up to an empty one.
func (r *Requests) unit(b []byte, limit int, use func([]byte) error) (n int, more bool) {
	if n, r.err = r.block.find(b, limit); n == 0 || r.err != nil {
		return 0, true
	}
	r.block = block{}
	if r.err = use(b[:n]); r.err != nil {
		return 0, true
	}
	return n, false
}

// unitLine takes a line of a chunked body, which use gets without its end.
func (r *Requests) unitLine(b []byte, use func([]byte) error) (n int, more bool) {
	i := bytes.IndexByte(b[:min(len(b), maxChunk)], '\n')
	switch {
	case i < 0 && len(b) >= maxChunk:
		r.err = TooLong
		return 0, true
	case i < 0:
		return 0, true
	}
	var l []byte
	if l, r.err = cleanLine(b[:i+1]); r.err == nil {
		r.err = use(l)
	}
	if r.err != nil {
		return 0, true
	}
	return i + 1, false
}

// request is for a whole head.
func (r *Requests) request(b []byte) error {
	h, err := parseHead(b)
	if err != nil {
		return err
	}
	if r.Check != nil {
		if err = r.Check(h.Request); err != nil {
			return err
		}
	}
	if h.Method == methodConnect {
		return Tunnel
	}
	r.count++
	if h.upgrade && r.count > 1 {
		// Which answer is its own could be told only by reading all of them.
		return BadUpgrade
	}
	r.upgrade = h.upgrade
	switch r.left = h.length; {
	case h.chunked:
		r.state = atChunk
	case r.left > 0:
		r.state = inBody
	default:
		r.over()
	}
	return nil
}

// pass counts bytes of a body.
func (r *Requests) pass(n int64) {
	if r.left -= n; r.left > 0 {
		return
	}
	switch r.state {
	case inChunk:
		r.state = atChunkEnd
	case inBody:
		r.over()
	}
}

// over is where a request ends.
func (r *Requests) over() {
	r.state = atHead
	if r.upgrade {
		r.state = upgrading
	}
}

// chunk reads the line of a chunk's size (RFC 9112, section 7.1): digits, which are all
// that counts, and maybe extensions behind a semicolon.
func (r *Requests) chunk(l []byte) error {
	size, _, _ := bytes.Cut(l, []byte(";"))
	if len(size) == 0 || len(size) > 15 || !all(size, hexDigit) {
		return BadChunk
	}
	n, err := strconv.ParseInt(string(size), 16, 64)
	if err != nil {
		return BadChunk
	}
	r.left, r.state = n, inChunk
	if n == 0 {
		r.state = atTrailer
	}
	return nil
}

// trailer is for the lines behind the last chunk. Some servers take them for fields of
// the head.
func (r *Requests) trailer(b []byte) error {
	f, err := parseFields(b)
	if err != nil {
		return err
	}
	if len(f) > 0 {
		return BadField
	}
	r.over()
	return nil
}

func hexDigit(c byte) bool {
	return digit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// block finds the end of lines that an empty one ends, and remembers how far it got.
type block struct {
	start   int // of the line that isn't over
	scanned int // no line ends before
}

// find gives the length up to and with the empty line, or 0: it isn't there yet.
func (k *block) find(b []byte, limit int) (int, error) {
	if k.scanned > len(b) {
		*k = block{} // these aren't the bytes that were left
	}
	for {
		i := bytes.IndexByte(b[k.scanned:min(len(b), limit)], '\n')
		if i < 0 {
			k.scanned = min(len(b), limit)
			if len(b) >= limit {
				return 0, TooLong
			}
			return 0, nil
		}
		end := k.scanned + i + 1
		l, err := cleanLine(b[k.start:end])
		if err != nil {
			return 0, err
		}
		k.start, k.scanned = end, end
		if len(l) == 0 {
			return end, nil
		}
	}
}

// cleanLine is a line without its CR LF. No other control characters than tabs are in it.
func cleanLine(l []byte) ([]byte, error) {
	if len(l) < 2 || l[len(l)-2] != '\r' {
		return nil, BadLine
	}
	l = l[:len(l)-2]
	for _, c := range l {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, BadLine
		}
	}
	return l, nil
}

// Status is the status of the first final answer in what a server says from the beginning of a
// connection, of 101 too; more: it isn't there yet. Other answers of the kind 1xx come before
// the one that they announce, and are passed over.
func Status(b []byte) (code int, more bool, err error) {
	for {
		l, _, found := bytes.Cut(b[:min(len(b), statusLength+1)], []byte("\n"))
		if !statusLine(l) || found && len(l) < statusLength {
			return 0, false, BadStatus
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
			return 0, false, TooLong
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
