package guest

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/vm/internal/wire"
)

// maxRead is the most that one answer has of a file.
const maxRead = 256 << 10

// keep gives a number to what the host will ask for again.
func (g *agent) keep(c io.Closer) *wire.Answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last++
	g.handles[g.last] = c
	return &wire.Answer{Handle: g.last}
}

func (g *agent) handle(n uint32) io.Closer {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.handles[n]
}

func (g *agent) files(ctx context.Context, files backend.Files, r *wire.Request) (*wire.Answer, error) {
	info := func(f fs.FileInfo, err error) (*wire.Answer, error) {
		if err != nil {
			return nil, err
		}
		return &wire.Answer{Info: wire.InfoOf(f)}, nil
	}
	kept := func(c io.Closer, err error) (*wire.Answer, error) {
		if err != nil {
			return nil, err
		}
		return g.keep(c), nil
	}
	switch r.Method {
	case wire.FOpen:
		f, err := files.Open(r.Name)
		return kept(f, err)
	case wire.FCreate:
		f, err := files.Create(r.Name, r.Perm)
		return kept(f, err)
	case wire.FWatch:
		w, err := files.Watch(r.Name, r.Deep)
		return kept(w, err)
	case wire.FStat:
		return info(files.Stat(r.Name))
	case wire.FLstat:
		return info(files.Lstat(r.Name))
	case wire.FLink:
		to, err := files.Readlink(r.Name)
		return &wire.Answer{Name: to}, err
	case wire.FList:
		entries, err := files.List(r.Name)
		a := &wire.Answer{}
		for _, e := range entries {
			a.List = append(a.List, wire.Entry{Name: e.Name(), Type: e.Type()})
		}
		return a, err
	case wire.FMkdir:
		return nil, files.Mkdir(r.Name, r.Perm)
	case wire.FSym:
		return nil, files.Symlink(r.Target, r.Name)
	case wire.FChmod:
		return nil, files.Chmod(r.Name, r.Perm)
	case wire.FRename:
		return nil, files.Rename(r.Name, r.Target)
	case wire.FRemove:
		return nil, files.Remove(r.Name)
	}
	return g.onHandle(ctx, r)
}

// onHandle does what is about something that was opened.
func (g *agent) onHandle(ctx context.Context, r *wire.Request) (*wire.Answer, error) {
	h := g.handle(r.To)
	switch r.Method {
	case wire.FRead:
		if f, ok := h.(io.Reader); ok {
			data := make([]byte, max(0, min(r.N, maxRead)))
			n, err := f.Read(data)
			return &wire.Answer{Data: data[:n]}, err
		}
	case wire.FWrite:
		if f, ok := h.(io.Writer); ok {
			n, err := f.Write(r.Data)
			return &wire.Answer{N: n}, err
		}
	case wire.FNext:
		if w, ok := h.(backend.Watcher); ok {
			events, err := w.Next(ctx)
			return &wire.Answer{Events: events}, err
		}
	case wire.FClose:
		if h != nil {
			g.mu.Lock()
			delete(g.handles, r.To)
			g.mu.Unlock()
			return nil, h.Close()
		}
	}
	if h == nil {
		return nil, fs.ErrClosed
	}
	return nil, errors.ErrUnsupported
}
