package rootfs

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/names"
	"github.com/confine-run/confine/internal/view"
)

// Ceiling is what nobody's view may be wider than: what a policy shows in the directory that the run is about. That lies in Base,
// a canonical directory.
type Ceiling struct {
	view.Filesystem
	Base string
}

// WiderError is a view that is wider than a ceiling, or can't be held against it.
type WiderError struct {
	Option string // that shows more: "dir", "command" for what the command makes visible; empty: the ceiling itself is to blame
	Path   string // outside
	Why    error
}

func (e *WiderError) Error() string { return e.Why.Error() }

func (e *WiderError) Unwrap() error { return e.Why }

// Why a directory is refused.
var (
	errDirLink    = errors.New("is reached through a link, or not there: name the directory itself")
	errDirOutside = errors.New("is not in the directory that the server was started in")
)

// tries is how often two views are made that differ: files come and go meanwhile, and each view is of its own moment.
const tries = 3

// Compile is Compile of something that isn't wider than the ceiling. Names are resolved once, and what they lead to is
// compared, which is what the child opens: what is put in its place later is not what was planned. What the ceiling lets be
// written to is a tree of work, whether the policy names it or not.
func (l *Ceiling) Compile(in view.Input) (*Table, error) {
	if in.Host == nil {
		in.Host = hostfs.This()
	}
	in.Work = l.Work()
	for try := 1; ; try++ {
		c, err := compiled(in, time.Now)
		if err != nil {
			return nil, throughLink(in, err)
		}
		dir, err := l.dir(c)
		if err != nil {
			return nil, err
		}
		most, err := compiled(l.input(in, dir), time.Now)
		if err != nil {
			return nil, &WiderError{Why: fmt.Errorf("what the ceiling itself shows can't be told: %w", err)}
		}
		if dir != "" && most.Cwd.Path != dir {
			return nil, &WiderError{"dir", dir, errDirLink}
		}
		if err = c.wider(most); err == nil {
			return &c.table, nil
		}
		if try == tries {
			return nil, err
		}
	}
}

// wider is what a view shows more than another, or keeps absent less.
func (c *compiler) wider(most *compiler) error {
	if x := c.View.Wider(&most.View, c.Host); x != nil {
		return exceeds(x)
	}
	for _, p := range most.table.KeepAbsent {
		for _, at := range c.ShownAt(p) {
			protected := slices.ContainsFunc(c.Protected, func(k view.Protected) bool { return hostfs.Under(at, k.Dst) && k.Keep != view.Pinned })
			if g := c.Nearest(at); g.Access == view.Write && !protected && !c.Masked(at) && !c.table.KeptAbsent(p) {
				return &WiderError{cmp.Or(g.Origin.Option, "command"), p, fmt.Errorf("%q could be made, which the ceiling protects", p)}
			}
		}
	}
	return nil
}

func exceeds(x *view.Excess) error {
	e := &WiderError{x.Grant.Origin.Option, x.Path, nil}
	if e.Option == "" { // nobody named it
		e.Option = "command"
	}
	switch {
	case x.Pin:
		e.Why = fmt.Errorf("%q could be renamed or removed, which the ceiling protects for what is in it", x.Path)
	case x.Most == view.Private:
		e.Why = fmt.Errorf("it shows %q", x.Path)
	default:
		e.Why = fmt.Errorf("it shows %q for %s, and not only for %s", x.Path, x.Access, x.Most)
	}
	return e
}

// throughLink: where a link of a tree of work leads, and whether anything is there, isn't told. Who made it may want to know.
func throughLink(in view.Input, err error) error {
	var e *view.Error
	if !errors.As(err, &e) || !path.IsAbs(e.Path) {
		return err
	}
	if _, through := names.NewNames(&in).Real(e.Path, false); through == nil {
		return err
	}
	return &WiderError{strings.TrimPrefix(e.Option, "--"), e.Path, fmt.Errorf("%q leads through a symbolic link that a run may have made", e.Path)}
}

// Work are the trees that runs below the ceiling may fill.
func (l *Ceiling) Work() []string {
	all := slices.Clone(l.AllowWrite)
	for _, m := range l.Mounts {
		if m.Mode == "rw" {
			all = append(all, m.Src)
		}
	}
	if l.Workdir == "rw" && l.Base != "" {
		all = append(all, l.Base)
	}
	return all
}

// dir is the directory that the ceiling is about: that of the run, or the checkout around it, whose top says what is protected in it.
// It is empty where the run is about none, which is what / stands for.
func (l *Ceiling) dir(c *compiler) (string, error) {
	if c.In.Dir == "/" {
		return "", nil
	}
	at := c.Cwd.Path
	switch {
	case c.CwdErr != nil || at != path.Clean(c.In.Dir):
		return "", &WiderError{"dir", c.In.Dir, errDirLink}
	case l.Base == "" || !hostfs.Under(at, l.Base):
		return "", &WiderError{"dir", c.In.Dir, errDirOutside}
	}
	if top := c.Trees.CheckoutOf(at); top != "" && hostfs.Under(top, l.Base) {
		return top, nil
	}
	return at, nil
}

// input is what the ceiling's own view depends on. The command adds nothing to it.
func (l *Ceiling) input(in view.Input, dir string) view.Input {
	image := in.Rootfs
	in.Filesystem, in.Command = l.Filesystem, ""
	in.Chdir, in.Rootfs = "", image
	if l.Rootfs == "" {
		in.Rootfs = ""
	}
	if in.Dir = dir; dir == "" {
		in.Dir = "/"
	}
	in.WorkdirAsked = l.WorkdirAsked && !names.TooBroad(in.Dir, path.Clean(in.HomeDir))
	// What isn't there can't be shown.
	gone := func(name string) bool {
		_, err := in.Host.Resolve(name)
		return err != nil && hostfs.Absent(err)
	}
	in.AllowRead = slices.DeleteFunc(slices.Clone(l.AllowRead), gone)
	in.AllowWrite = slices.DeleteFunc(slices.Clone(l.AllowWrite), gone)
	in.Overlay = slices.DeleteFunc(slices.Clone(l.Overlay), gone)
	in.Mounts = slices.DeleteFunc(slices.Clone(l.Mounts), func(m view.Mount) bool { return m.Size == 0 && gone(m.Src) })
	return in
}
