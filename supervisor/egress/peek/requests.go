package peek

import "bytes"

// Bounds on what is looked at in one piece, and so on what has to be kept meanwhile.
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
		r.err = refuse(TooLong, "more of a body was sent on than it has")
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
	r.err = refuse(Unfinished, "the client ended in the middle of a request")
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
				return refuse(BadChunk, "a chunk is longer than it says")
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
		r.err = refuse(TooLong, "the line of a chunk's size is longer than 256 bytes")
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
		return refuse(Tunnel, "a request asks for a tunnel")
	}
	r.count++
	if h.upgrade && r.count > 1 {
		// Which answer is its own could be told only by reading all of them.
		return refuse(BadUpgrade, "a request that isn't the first of its connection asks for an upgrade")
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
