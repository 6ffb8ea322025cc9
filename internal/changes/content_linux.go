package changes

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const blockSize = 4096

var zeroBlock [blockSize]byte

// blocks reads the blocks of a file that aren't all zero, and skips its holes.
type blocks struct {
	fd   int
	size int64
	off  int64 // of what wasn't read yet
	end  int64 // of the data that off is in
	at   int64 // of have
	have []byte
	buf  []byte
}

func newBlocks(fd int, size int64) *blocks {
	return &blocks{fd: fd, size: size, buf: make([]byte, (min(31*blockSize, size)/blockSize+1)*blockSize)}
}

// next is the next block and its offset; io.EOF when the rest is zero.
func (b *blocks) next() (int64, []byte, error) {
	for {
		for len(b.have) > 0 {
			n := min(blockSize, len(b.have))
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

func (b *blocks) fill() error {
	if b.off >= b.end {
		data, err := unix.Seek(b.fd, b.off, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return io.EOF
		}
		b.end = b.size
		if err == nil {
			b.off = max(b.off, data/blockSize*blockSize)
			if hole, err := unix.Seek(b.fd, data, unix.SEEK_HOLE); err == nil && hole < b.size-blockSize { // no overflow
				b.end = (hole + blockSize - 1) / blockSize * blockSize
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
		m, err := unix.Pread(b.fd, want[n:], b.off+int64(n))
		if err == unix.EINTR {
			continue
		}
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

// digest is the content of an open file, in a line. See the package comment.
func digest(fd int, size int64) (string, error) { return copyContent(-1, fd, size) }

// copyContent copies size bytes of src to the empty file dst, holes as holes, and
// gives their digest. Without dst it only reads.
func copyContent(dst, src int, size int64) (string, error) {
	sum := sha256.New()
	var number [8]byte
	b := newBlocks(src, size)
	for {
		at, block, err := b.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
		binary.LittleEndian.PutUint64(number[:], uint64(at))
		sum.Write(number[:])
		sum.Write(block)
		if dst >= 0 {
			if err := writeAll(dst, block, at); err != nil {
				return "", err
			}
		}
	}
	binary.LittleEndian.PutUint64(number[:], uint64(size))
	sum.Write(number[:])
	if dst >= 0 {
		if err := unix.Ftruncate(dst, size); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func writeAll(fd int, data []byte, at int64) error {
	for len(data) > 0 {
		n, err := unix.Pwrite(fd, data, at)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data, at = data[n:], at+int64(n)
	}
	return nil
}

// sameContent compares two open files of one size, and stops at the first
// difference.
func sameContent(a, b int, size int64) (bool, error) {
	x, y := newBlocks(a, size), newBlocks(b, size)
	for {
		i, p, err := x.next()
		if err != nil && err != io.EOF {
			return false, err
		}
		j, q, err2 := y.next()
		if err2 != nil && err2 != io.EOF {
			return false, err2
		}
		if err == io.EOF || err2 == io.EOF {
			return err == err2, nil
		}
		if i != j || !bytes.Equal(p, q) {
			return false, nil
		}
	}
}

// maxContent is more than any index of git's that is read has.
const maxContent = 64 << 20

// Content gives what the run left in a file of its record.
func (r *Run) Content(e *Entry) (string, error) {
	if e.Blob == "" || e.Size > maxContent {
		return "", unix.EFBIG
	}
	blobs, err := unix.Openat(r.fd, blobsName, dirFlags|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(blobs)
	fd, err := openFile(blobs, e.Blob)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), e.Path)
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxContent))
	return string(text), err
}
