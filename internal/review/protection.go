package review

import (
	"context"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"sync"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
)

// Protection finds what apply doesn't take over unasked.
type Protection struct {
	ctx   context.Context
	env   func(string) string
	run   *changes.Run
	left  error
	looks sync.WaitGroup
}

// NewProtection is for one apply of a run. env is the environment of whoever applies, which says what later programs of theirs obey.
func NewProtection(ctx context.Context, env func(string) string, run *changes.Run) *Protection {
	return &Protection{ctx: ctx, env: env, run: run}
}

// Err says why the search was left before its end. Everything is protected then.
func (p *Protection) Err() error { return p.left }

// Wait waits until nobody looks at the run any more.
func (p *Protection) Wait() { p.looks.Wait() }

// Test is for the Protected of changes.Options. What is in the trees decides how long the search takes, so the end of the
// context ends the wait for it.
func (p *Protection) Test(trees, dirs, names []string) func(string, changes.Type) bool {
	guard := config.NewGuard(p.env, names)
	all := func(string, changes.Type) bool { return true }
	looked := make(chan []string, 1)
	p.looks.Go(func() {
		var partly []string
		for i, dir := range slices.Concat(trees, dirs) {
			if !guard.Look(dir, i < len(trees)) {
				partly = append(partly, dir)
			}
		}
		if p.run != nil {
			addIndexes(guard, p.run, trees)
		}
		looked <- partly
	})
	select {
	case partly := <-looked:
		if len(partly) > 0 {
			p.left = hint.New("not all that other programs obey by way of "+strconv.Quote(partly[0])+" was found: there is too much of it",
				"look at the changes with confine diff --patch; then --allow-protected")
			return all
		}
	case <-p.ctx.Done():
		p.left = context.Cause(p.ctx)
		return all
	}
	return func(path string, t changes.Type) bool {
		switch t {
		case changes.Dir:
			return guard.Protects(path, fs.ModeDir)
		case changes.Symlink:
			return guard.Protects(path, fs.ModeSymlink)
		}
		return guard.Protects(path, 0)
	}
}

// addIndexes shows the guard each index of git's that the run changed.
func addIndexes(guard *config.Guard, run *changes.Run, trees []string) {
	all := run.Entries()
	for i := range all {
		if e := &all[i]; path.Base(e.Path) == "index" && e.Blob != "" {
			name := trees[e.Tree] + "/" + e.Path
			guard.Index(name, func(part string) (string, error) {
				for j := range all {
					if o := &all[j]; o.Tree == e.Tree && o.Path == path.Join(path.Dir(e.Path), part) && o.Blob != "" {
						return run.Content(o)
					}
				}
				return "", os.ErrNotExist
			})
		}
	}
}
