package linux

import (
	"bytes"
	"io"

	"golang.org/x/sys/unix"
)

// BlockSize is that of [Blocks].
const BlockSize = 4096

var zeroBlock [BlockSize]byte

// Blocks reads the blocks of a file that aren't all zero, and skips its holes.
type Blocks struct {
	fd   int
	size int64
	off  int64 // of what wasn't read yet
	end  int64 // of the data that off is in
	at   int64 // of have
	have []byte
	buf  []byte
}

// NewBlocks reads an open file of that size.
func NewBlocks(fd int, size int64) *Blocks {
	return &Blocks{fd: fd, size: size, buf: make([]byte, (min(31*BlockSize, size)/BlockSize+1)*BlockSize)}
}

// Next is the next block and its offset; io.EOF when the rest is zero.
func (b *Blocks) Next() (int64, []byte, error) {
	for {
		for len(b.have) > 0 {
			n := min(BlockSize, len(b.have))
			at, block := b.at, b.have[:n]
			b.at, b.have = b.at+int64(n), b.have[n:]
			if !bytes.Equal(block, zeroBlock[:n]) {
				return at, block, nil
			}
		}
		if b.off >= b.size {
			return 0, nil, io.EOF
		}
		if err := b.fill(); err != nil {
			return 0, nil, err
		}
	}
}

func (b *Blocks) fill() error {
	if b.off >= b.end {
		data, err := unix.Seek(b.fd, b.off, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return io.EOF
		}
		b.end = b.size
		if err == nil {
			b.off = max(b.off, data/BlockSize*BlockSize)
			if hole, err := unix.Seek(b.fd, data, unix.SEEK_HOLE); err == nil && hole < b.size-BlockSize { // no overflow
				b.end = (hole + BlockSize - 1) / BlockSize * BlockSize
			}
		} else if err != unix.EINVAL { // EINVAL: a file system without
			return err
		}
		if b.off >= b.size {
			return io.EOF
		}
	}
	want := b.buf[:min(int64(len(b.buf)), b.end-b.off, b.size-b.off)]
	n := 0
	for n < len(want) {
		m, err := Again(func() (int, error) { return unix.Pread(b.fd, want[n:], b.off+int64(n)) })
		if err != nil {
			return err
		}
		if m == 0 {
			return io.ErrUnexpectedEOF // it shrank
		}
		n += m
	}
	b.at, b.have = b.off, want
	b.off += int64(n)
	return nil
}
