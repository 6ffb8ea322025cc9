package conformance

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/confine-run/confine/backend"
)

// Named is a backend of a system on which no sandbox has a /tmp of its own. The suite speaks of it, and means a place of each sandbox's.
type Named struct {
	backend.Backend
	// Place are the words of a program that says where that is.
	Place []string
	// In is a name of the suite's in a place.
	In func(name, place string) string
}

// Build builds a sandbox with such names.
func (n Named) Build(ctx context.Context, p backend.Plan) (backend.Sandbox, error) {
	box, err := n.Backend.Build(ctx, p)
	if err != nil {
		return nil, err
	}
	return &namedBox{Sandbox: box, of: n}, nil
}

type namedBox struct {
	backend.Sandbox
	of    Named
	asked sync.Once
	place string
}

func (b *namedBox) Unwrap() backend.Sandbox { return b.Sandbox }

func (b *namedBox) name(s string) string {
	b.asked.Do(func() {
		var out strings.Builder
		p, err := b.Sandbox.Start(context.Background(), &backend.Exec{Argv: b.of.Place, Stdout: &out})
		if err == nil {
			p.Wait()
			b.place = strings.TrimSpace(out.String())
		}
	})
	return b.of.In(s, b.place)
}

func (b *namedBox) Start(ctx context.Context, e *backend.Exec) (backend.Process, error) {
	own := *e
	if e.Dir != "" {
		own.Dir = b.name(e.Dir)
	}
	p, err := b.Sandbox.Start(ctx, &own)
	if dir, ok := errors.AsType[*backend.DirError](err); ok {
		dir.Dir = e.Dir
	}
	return p, err
}

func (b *namedBox) Files() backend.Files { return namedFiles{b.Sandbox.Files(), b} }

type namedFiles struct {
	backend.Files
	box *namedBox
}

func (f namedFiles) Open(name string) (io.ReadCloser, error) { return f.Files.Open(f.box.name(name)) }
func (f namedFiles) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	return f.Files.Create(f.box.name(name), perm)
}
func (f namedFiles) Stat(name string) (fs.FileInfo, error)   { return f.Files.Stat(f.box.name(name)) }
func (f namedFiles) List(name string) ([]fs.DirEntry, error) { return f.Files.List(f.box.name(name)) }
func (f namedFiles) Mkdir(name string, perm fs.FileMode) error {
	return f.Files.Mkdir(f.box.name(name), perm)
}
func (f namedFiles) Remove(name string) error { return f.Files.Remove(f.box.name(name)) }
