package vm

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/vm/internal/wire"
)

// files are those of the guest, which it shows as it likes: nothing is opened on this side.
type files struct{ box *sandbox }

func (s *sandbox) Files() backend.Files { return files{s} }

func (f files) call(r *wire.Request) (*wire.Answer, error) {
	return f.box.call(context.Background(), r)
}

func (f files) do(r *wire.Request) error {
	_, err := f.call(r)
	return err
}

func (f files) Open(name string) (io.ReadCloser, error) {
	return f.handle(&wire.Request{Method: wire.FOpen, Name: name})
}

func (f files) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	return f.handle(&wire.Request{Method: wire.FCreate, Name: name, Perm: perm})
}

func (f files) handle(r *wire.Request) (*handle, error) {
	c := f.box.now().conn
	a, err := c.call(context.Background(), r)
	if err != nil {
		return nil, err
	}
	return &handle{c, a.Handle}, nil
}

// errOdd is an answer that fits no question.
var errOdd = errors.New("the guest gave an answer that is none")

func (f files) info(method, name string) (fs.FileInfo, error) {
	a, err := f.call(&wire.Request{Method: method, Name: name})
	if err != nil {
		return nil, err
	}
	if a.Info == nil {
		return nil, errOdd
	}
	return a.Info, nil
}

func (f files) Stat(name string) (fs.FileInfo, error)  { return f.info(wire.FStat, name) }
func (f files) Lstat(name string) (fs.FileInfo, error) { return f.info(wire.FLstat, name) }

func (f files) Readlink(name string) (string, error) {
	a, err := f.call(&wire.Request{Method: wire.FLink, Name: name})
	if err != nil {
		return "", err
	}
	return a.Name, nil
}

func (f files) List(name string) ([]fs.DirEntry, error) {
	a, err := f.call(&wire.Request{Method: wire.FList, Name: name})
	if err != nil {
		return nil, err
	}
	var all []fs.DirEntry
	for _, e := range a.List {
		if e.Name == "" || e.Name == "." || e.Name == ".." || strings.ContainsAny(e.Name, "/\x00") {
			return nil, errOdd
		}
		all = append(all, entry{f, path.Join(name, e.Name), e})
	}
	return all, nil
}

// entry is one of a directory, whose description is asked for when it is wanted.
type entry struct {
	files files
	path  string
	is    wire.Entry
}

func (e entry) Name() string               { return e.is.Name }
func (e entry) IsDir() bool                { return e.is.Type.IsDir() }
func (e entry) Type() fs.FileMode          { return e.is.Type.Type() }
func (e entry) Info() (fs.FileInfo, error) { return e.files.Lstat(e.path) }

func (f files) Mkdir(name string, perm fs.FileMode) error {
	return f.do(&wire.Request{Method: wire.FMkdir, Name: name, Perm: perm})
}

func (f files) Symlink(target, name string) error {
	return f.do(&wire.Request{Method: wire.FSym, Name: name, Target: target})
}

func (f files) Chmod(name string, perm fs.FileMode) error {
	return f.do(&wire.Request{Method: wire.FChmod, Name: name, Perm: perm})
}

func (f files) Rename(from, to string) error {
	return f.do(&wire.Request{Method: wire.FRename, Name: from, Target: to})
}

func (f files) Remove(name string) error {
	return f.do(&wire.Request{Method: wire.FRemove, Name: name})
}

func (f files) Watch(name string, deep bool) (backend.Watcher, error) {
	h, err := f.handle(&wire.Request{Method: wire.FWatch, Name: name, Deep: deep})
	if err != nil {
		return nil, err
	}
	return watcher{h}, nil
}

// handle is a file that is open in the guest.
type handle struct {
	conn *conn // of the machine that it is open in
	id   uint32
}

func (h *handle) call(r *wire.Request) (*wire.Answer, error) {
	return h.conn.call(context.Background(), r)
}

// chunk is how much of a file goes in one message, which has it in base64.
const chunk = 256 << 10

func (h *handle) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	want := min(len(p), chunk)
	a, err := h.call(&wire.Request{Method: wire.FRead, To: h.id, N: want})
	if a == nil {
		return 0, err
	}
	if len(a.Data) > want || len(a.Data) == 0 && err == nil {
		return 0, errOdd
	}
	return copy(p, a.Data), err
}

func (h *handle) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		data := p[done:min(len(p), done+chunk)]
		a, err := h.call(&wire.Request{Method: wire.FWrite, To: h.id, Data: data})
		if a != nil && a.N >= 0 && a.N <= len(data) {
			done += a.N
		}
		if err != nil {
			return done, err
		}
		if a.N != len(data) {
			return done, errOdd
		}
	}
	return done, nil
}

func (h *handle) Close() error {
	_, err := h.call(&wire.Request{Method: wire.FClose, To: h.id})
	return err
}

// watcher is one in the guest.
type watcher struct{ h *handle }

func (w watcher) Next(ctx context.Context) ([]backend.FileEvent, error) {
	a, err := w.h.conn.ask(ctx, &wire.Request{Method: wire.FNext, To: w.h.id}, 0)
	if err != nil {
		return nil, err
	}
	return a.Events, nil
}

func (w watcher) Close() error { return w.h.Close() }
