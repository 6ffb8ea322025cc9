package rootfs

import (
	"cmp"
	"io/fs"
	"slices"
	"time"

	"github.com/confine-run/confine/confine/gitdir"
	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/view"
	"github.com/confine-run/confine/internal/plan"
)

// compiler is one Compile under way.
type compiler struct {
	*view.Draft

	home    string          // canonical; empty when there is none that can be shown or made
	noHome  string          // why it is empty
	homeEnv string          // HOME inside
	dir     hostfs.File     // the current directory
	dirErr  error           // why there is none
	roots   []hostfs.Link   // the /bin-like links, with absolute targets
	lying   []string        // sockets that searches came across, outside
	shutAt  map[string]int  // indices of Protected, by path
	led     led             // what protected links lead to
	absent  map[string]bool // what is kept so, outside
	cleared map[string]bool // what is kept clear
	bins    []bin           // what of PATH exists
	chains  chainState
	found   discovery
	trees   *workTrees
	says    *Names
	mounted hostfs.Mounts // of the host, when it was asked for
	git     gitdir.Reader
	// standIns are worktrees elsewhere for which git inside finds a file.
	standIns []string
	now      func() time.Time
	until    time.Time // when searches have to be done

	table Table
}

// steps are what Compile does, in this order.
var steps = [...]struct {
	name string
	do   func(*compiler) error
}{
	// Everything else is said relative to these.
	{"places", (*compiler).places},
	// What is always there comes before what can be left out because of it.
	{"system", (*compiler).system},
	{"options", (*compiler).options},
	{"workdir", (*compiler).workdir},
	// A private home or /tmp gives way to what the caller named.
	{"private places", (*compiler).private},
	// Discovery adds only what isn't visible by now.
	{"tool chains", (*compiler).toolChains},
	{"command", (*compiler).command},
	{"left out", (*compiler).tellLeftOut},
	{"settle", (*compiler).Settle},
	// An overlay of a tree is none of what is mounted in it.
	{"nested", (*compiler).nested},
	{"overlays", (*compiler).overlays},
	// What can't be written to is known now.
	{"caches", (*compiler).caches},
	// These take away from what is settled.
	{"deny", (*compiler).deny},
	{"secrets", (*compiler).secrets},
	{"sockets", (*compiler).sockets},
	{"worktrees", (*compiler).worktrees},
	{"protect", (*compiler).protect},
	{"start", (*compiler).start},
	{"emit", (*compiler).emit},
}

// Compile computes the mount table. Its errors about the policy are *Error.
func Compile(in view.Input) (*Table, error) { return compileAt(in, time.Now) }

func compileAt(in view.Input, now func() time.Time) (*Table, error) {
	if in.Host == nil {
		in.Host = hostfs.This()
	}
	if in.Env == nil {
		in.Env = func(string) string { return "" }
	}
	c := &compiler{Draft: view.NewDraft(&in), now: now}
	c.git = gitdir.Reader{Host: c.Host, Env: in.Env, Home: in.HomeDir}
	if !in.Bare {
		c.git.Shown = c.sees
	}
	c.shutAt, c.absent, c.cleared = make(map[string]int), make(map[string]bool), make(map[string]bool)
	c.led = newLed()
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
	return &c.table, nil
}

// emit makes the table of what was decided.
func (c *compiler) emit() error {
	if c.In.Rootfs != "" && (c.Nearest("/") == nil || c.Masked("/")) {
		return &view.Error{Option: optRootfs, Path: c.In.Rootfs, Err: view.ErrInvalid, Hint: "a deny pattern hides all of it"}
	}
	c.Finish()
	c.cleanPath()
	t := &c.table
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

func (c *compiler) settle() error { return c.Settle() }
