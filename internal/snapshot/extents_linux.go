package snapshot

import (
	"context"
	"io"

	"github.com/confine-run/confine/internal/linux"
)

// minHole is the least run of zeros that is written as a hole; each costs room in a header.
const minHole = 32 << 10

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
	for b := linux.NewBlocks(fd, size); ; {
		at, block, err := b.Next()
		if err == io.EOF {
			return p.end(size), nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		p.add(at, int64(len(block)))
	}
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
