package peek

import (
	"bytes"
	"strconv"
)

// chunk reads the line of a chunk's size (RFC 9112, section 7.1): digits, which are all
// that counts, and maybe extensions behind a semicolon.
func (r *Requests) chunk(l []byte) error {
	size, _, _ := bytes.Cut(l, []byte(";"))
	if len(size) == 0 || len(size) > 15 || !all(size, hexDigit) {
		return refuse(BadChunk, "the size of a chunk is no hexadecimal number")
	}
	n, err := strconv.ParseInt(string(size), 16, 64)
	if err != nil {
		return refuse(BadChunk, "the size of a chunk is no hexadecimal number")
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
	if f.hosts+f.lengths+f.encodings+f.expects+len(f.upgrades) > 0 {
		return refuse(BadField, "a trailer of a request has a field that belongs to its head")
	}
	r.over()
	return nil
}

func hexDigit(c byte) bool {
	return digit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
