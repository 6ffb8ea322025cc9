package ninep

import (
	"encoding/binary"
	"errors"
)

// MaxMessage is the longest message (msize).
const MaxMessage = 512 << 10

// The messages of 9P2000.L. An answer is the request plus one.
const (
	rLerror      = 7
	tStatfs      = 8
	tLopen       = 12
	tLcreate     = 14
	tSymlink     = 16
	tMknod       = 18
	tRename      = 20
	tReadlink    = 22
	tGetattr     = 24
	tSetattr     = 26
	tXattrwalk   = 30
	tXattrcreate = 32
	tReaddir     = 40
	tFsync       = 50
	tLock        = 52
	tGetlock     = 54
	tLink        = 70
	tMkdir       = 72
	tRenameat    = 74
	tUnlinkat    = 76
	tVersion     = 100
	tAttach      = 104
	tFlush       = 108
	tWalk        = 110
	tRead        = 116
	tWrite       = 118
	tClunk       = 120
	tRemove      = 122
)

const headerSize = 7 // length, type, tag

// errMessage is a message that is none: the stream can't be trusted any more.
var errMessage = errors.New("a message of 9P that is none")

// reader takes a message apart. Once there is too little, everything is nothing, and bad is set.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return make([]byte, min(max(n, 0), 8))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) u8() byte    { return r.take(1)[0] }
func (r *reader) u16() uint16 { return binary.LittleEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *reader) str() string {
	n := int(r.u16())
	if n > len(r.b) {
		r.bad = true
		return ""
	}
	return string(r.take(n))
}

// writer puts an answer together, after room for its header.
type writer struct{ b []byte }

func (w *writer) u8(v byte)    { w.b = append(w.b, v) }
func (w *writer) u16(v uint16) { w.b = binary.LittleEndian.AppendUint16(w.b, v) }
func (w *writer) u32(v uint32) { w.b = binary.LittleEndian.AppendUint32(w.b, v) }
func (w *writer) u64(v uint64) { w.b = binary.LittleEndian.AppendUint64(w.b, v) }

func (w *writer) str(s string) {
	w.u16(uint16(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) qid(q qid) {
	w.u8(q.kind)
	w.u32(q.version)
	w.u64(q.path)
}

// end sets the header.
func (w *writer) end(kind byte, tag uint16) []byte {
	binary.LittleEndian.PutUint32(w.b, uint32(len(w.b)))
	w.b[4] = kind
	binary.LittleEndian.PutUint16(w.b[5:], tag)
	return w.b
}

// qid is what a file is, to the guest.
type qid struct {
	kind    byte
	version uint32
	path    uint64
}
