package snapshot

import (
	"bytes"
	"context"
	"io"

	"golang.org/x/sys/unix"
)

const (
	page = 4096
	// minHole is the least run of zeros that is written as a hole; each costs room in a header.
	minHole = 32 << 10
)

var zeros [page]byte

// extents are the pieces of an open file that aren't zeros. They depend on its content alone, so that a file with
// holes and its full twin are the same in a layer. Holes aren't read.
func extents(ctx context.Context, fd int, size int64) ([]extent, error) {
	if size <= minHole {
		if size == 0 {
			return nil, nil
		}
		return []extent{{0, size}}, nil
	}
	p := &pieces{gap: minHole}
	buf := make([]byte, 256<<10)
	for at := int64(0); at < size; {
		from, to, err := data(fd, at, size)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		for at = from; at < to; {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			n, err := unix.Pread(fd, buf[:min(int64(len(buf)), to-at)], at)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return nil, err
			}
			if n == 0 {
				return nil, io.ErrUnexpectedEOF
			}
			if whole := n &^ (page - 1); whole > 0 && at+int64(n) < to {
				n = whole
			}
			for i := 0; i < n; i += page {
				b := buf[i:min(i+page, n)]
				if !bytes.Equal(b, zeros[:len(b)]) {
					p.add(at+int64(i), int64(len(b)))
				}
			}
			at += int64(n)
		}
	}
	return p.end(size), nil
}

// data is the next piece of a file that isn't a hole, in whole pages; io.EOF: there is none.
func data(fd int, at, size int64) (from, to int64, err error) {
	from, err = unix.Seek(fd, at, unix.SEEK_DATA)
	switch err {
	case unix.ENXIO:
		return 0, 0, io.EOF
	case unix.EINVAL: // a file system without
		return at, size, nil
	case nil:
	default:
		return 0, 0, err
	}
	to, err = unix.Seek(fd, from, unix.SEEK_HOLE)
	if err != nil {
		return 0, 0, err
	}
	if from = max(at, from&^(page-1)); from >= size {
		return 0, 0, io.EOF
	}
	return from, min(size, (to+page-1)&^(page-1)), nil
}

// pieces collects them, and makes one of those between which there is less than gap. The gap grows with
// their number.
type pieces struct {
	gap int64
	all []extent
}

func (p *pieces) add(at, size int64) {
	if n := len(p.all); n > 0 && at-(p.all[n-1].at+p.all[n-1].size) < p.gap {
		p.all[n-1].size = at + size - p.all[n-1].at
		return
	}
	if p.all = append(p.all, extent{at, size}); len(p.all) == 1 && at < p.gap {
		p.all[0] = extent{0, at + size}
	}
	for len(p.all) > maxFragments {
		p.gap *= 2
		old := p.all
		p.all = p.all[:0]
		for _, e := range old {
			p.add(e.at, e.size)
		}
	}
}

func (p *pieces) end(size int64) []extent {
	if n := len(p.all); n > 0 && size-(p.all[n-1].at+p.all[n-1].size) < p.gap {
		p.all[n-1].size = size - p.all[n-1].at
	}
	return p.all
}
