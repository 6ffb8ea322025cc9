package rootfs

import (
	"cmp"
	"io/fs"
	"slices"
	"time"

	"github.com/confine-run/confine/internal/discover"
	"github.com/confine-run/confine/internal/gitdir"
	"github.com/confine-run/confine/internal/hide"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/internal/protect"
	"github.com/confine-run/confine/internal/view"
)

// compiler is one Compile under way.
type compiler struct {
	*names.Resolver
	git       *gitdir.Reader
	system    *system
	finder    *discover.Finder
	hider     *hide.Hider
	protector *protect.Protector
	// standIns are worktrees elsewhere for which git inside finds a file.
	standIns []string

	table Table
}

// steps are what Compile does, in this order.
var steps = [...]struct {
	name string
	do   func(*compiler) error
}{
	// Everything else is said relative to these.
	{"places", func(c *compiler) error { return c.Locate() }},
	// What is always there comes before what can be left out because of it.
	{"system", func(c *compiler) error { return c.system.show() }},
	{"options", (*compiler).options},
	{"workdir", (*compiler).workdir},
	// A private home or /tmp gives way to what the caller named.
	{"private places", func(c *compiler) error { return c.system.private() }},
	// Discovery adds only what isn't visible by now.
	{"tool chains", func(c *compiler) error { return c.finder.ToolChains() }},
	{"command", func(c *compiler) error { return c.finder.Command() }},
	{"left out", func(c *compiler) error { return c.finder.TellLeftOut() }},
	{"settle", func(c *compiler) error { return c.Settle() }},
	// An overlay of a tree is none of what is mounted in it.
	{"nested", (*compiler).nested},
	{"overlays", (*compiler).overlays},
	// What can't be written to is known now.
	{"caches", func(c *compiler) error { return c.finder.Caches() }},
	// These take away from what is settled.
	{"deny", func(c *compiler) error { return c.hider.Deny() }},
	{"secrets", func(c *compiler) error { return c.hider.Secrets(c.finder.Chains.Never) }},
	{"sockets", func(c *compiler) error { return c.hider.Sockets() }},
	{"worktrees", (*compiler).worktrees},
	{"protect", func(c *compiler) error { return c.protector.Protect() }},
	{"start", (*compiler).start},
	{"emit", (*compiler).emit},
}

// Compile computes the mount table. Its errors about the policy are *Error.
func Compile(in view.Input) (*Table, error) { return compileAt(in, time.Now) }

func compileAt(in view.Input, now func() time.Time) (*Table, error) {
	c, err := compiled(in, now)
	if err != nil {
		return nil, err
	}
	return &c.table, nil
}

func compiled(in view.Input, now func() time.Time) (*compiler, error) {
	if in.Host == nil {
		in.Host = hostfs.This()
	}
	if in.Env == nil {
		in.Env = func(string) string { return "" }
	}
	r := &names.Resolver{Draft: view.NewDraft(&in)}
	c := &compiler{Resolver: r, system: &system{Resolver: r}}
	git := &gitdir.Reader{Host: r.Host, Env: in.Env, Home: in.HomeDir}
	if !in.Bare {
		git.Shown = c.sees
	}
	c.git = git
	c.finder = &discover.Finder{Judge: &discover.Judge{Resolver: r}}
	if in.MacOS {
		c.finder.Chains.Never = append(c.finder.Chains.Never, discover.Never{Root: in.HomeDir, Parts: macSecrets[:]})
	}
	c.hider = hide.New(r, git, now)
	c.protector = protect.New(r, git)
	leave, foreign, err := c.Host.As(in.AccessUID, in.AccessGID)
	if err != nil {
		return nil, err
	}
	defer leave()
	c.Foreign = foreign
	for i := range steps {
		if err := steps[i].do(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// emit makes the table of what was decided.
func (c *compiler) emit() error {
	if c.In.Rootfs != "" && (c.Nearest("/") == nil || c.Masked("/")) {
		return &view.Error{Option: optRootfs, Path: c.In.Rootfs, Err: view.ErrInvalid, Hint: "a deny pattern hides all of it"}
	}
	c.Finish()
	c.finder.CleanPath()
	t := &c.table
	t.Guarded, t.ProtectsLess, t.Caches = c.protector.Guarded, c.protector.ProtectsLess, c.finder.LostCaches
	t.DenyAtStart, t.SocketsLater, t.SocketsMissed = c.hider.DenyAtStart, c.hider.SocketsLater, c.hider.SocketsMissed
	t.View = &c.View
	t.Root, t.Mounts = rootOf(t.View), mounts(t.View)
	for i := range c.Grants {
		if g := &c.Grants[i]; g.Reviewed() {
			t.Overlays = append(t.Overlays, plan.Overlay{Dst: g.Dst, Path: g.Src.Path, Dev: g.Src.Dev, Ino: g.Src.Ino})
		}
	}
	for i := range t.View.Hidden {
		if h := &t.View.Hidden[i]; h.File.Mode.Type() != fs.ModeSocket {
			t.Guarded.Hidden = append(t.Guarded.Hidden, h.Dst)
		}
	}
	slices.Sort(t.KeepAbsent)
	slices.SortFunc(t.Covered, func(a, b plan.Covered) int {
		if n := hostfs.ComparePaths(a.Path, b.Path); n != 0 {
			return n
		}
		return cmp.Compare(b.Ino, a.Ino) // what is protected itself before what is only on a way
	})
	t.Covered = slices.CompactFunc(t.Covered, func(a, b plan.Covered) bool { return a.Path == b.Path })
	return nil
}
