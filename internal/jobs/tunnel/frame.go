package tunnel

import (
	"encoding/binary"
	"errors"
)

// kind is what a frame is.
type kind byte

const (
	frameData  kind = iota + 1 // bytes, from an offset on
	frameAck                   // none: what it confirms is the news
	frameGap                   // likewise, and what comes after it is missing
	frameEnd                   // no byte follows
	frameReset                 // the connection is broken; a reason
)

// frame is what is sent. Each confirms what was received, and says how much more may come.
type frame struct {
	kind  kind
	at    uint64 // offset of the first byte, of frameEnd the number of all
	have  uint64 // all bytes before this one were received
	limit uint64 // none may be sent from this one on
	bytes []byte
}

const headSize = 1 + 3*8

// maxBytes are those of one frame.
const maxBytes = 32 << 10

func (f *frame) encode() []byte {
	b := make([]byte, 0, headSize+len(f.bytes))
	b = append(b, byte(f.kind))
	b = binary.BigEndian.AppendUint64(b, f.at)
	b = binary.BigEndian.AppendUint64(b, f.have)
	b = binary.BigEndian.AppendUint64(b, f.limit)
	return append(b, f.bytes...)
}

var errFrame = errors.New("what came is no frame")

// decode is the inverse. The bytes are those of b.
func decode(b []byte) (f frame, err error) {
	if len(b) < headSize || len(b) > headSize+maxBytes || b[0] < byte(frameData) || b[0] > byte(frameReset) {
		return f, errFrame
	}
	f = frame{kind: kind(b[0]), at: binary.BigEndian.Uint64(b[1:]), have: binary.BigEndian.Uint64(b[9:]), limit: binary.BigEndian.Uint64(b[17:]), bytes: b[headSize:]}
	if (f.kind == frameData) == (len(f.bytes) == 0) && f.kind != frameReset {
		return f, errFrame
	}
	return f, nil
}
