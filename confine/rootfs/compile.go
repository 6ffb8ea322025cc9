package rootfs

import (
	"time"

	"github.com/confine-run/confine/confine/gitdir"
	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/internal/handoff"
)

// compiler is one Compile under way.
type compiler struct {
	in   *Input
	host hostfs.Host

	home    string      // canonical; empty when there is none that can be shown or made
	noHome  string      // why it is empty
	homeEnv string      // HOME inside
	dir     hostfs.File // the current directory
	dirErr  error       // why there is none
	foreign bool        // planning for a user other than the caller

	grants  []grant // settled by settle
	asked   []grant // as they were before, sorted
	links   []hostfs.Link
	roots   []hostfs.Link   // the /bin-like links, with absolute targets
	files   []handoff.Mount // what is made or mounted, other than grants
	instead []handoff.Mount // of what lies beneath, and what is absent from that
	masks   []mask
	maskAt  map[string]int  // indices of them, by where
	lying   []string        // sockets that searches came across, outside
	shut    []handoff.Mount // read-only parts and pins
	shutAt  map[string]int  // indices of them, by where
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
	{"settle", (*compiler).settle},
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
func Compile(in Input) (*Table, error) { return compileAt(in, time.Now) }

func compileAt(in Input, now func() time.Time) (*Table, error) {
	c := &compiler{in: &in, host: in.Host, now: now}
	if c.host == nil {
		c.host = hostfs.This()
	}
	if in.Env == nil {
		in.Env = func(string) string { return "" }
	}
	c.git = gitdir.Reader{Host: c.host, Env: in.Env, Home: in.HomeDir}
	if !in.Bare {
		c.git.Shown = c.sees
	}
	c.maskAt, c.shutAt, c.absent, c.cleared = make(map[string]int), make(map[string]int), make(map[string]bool), make(map[string]bool)
	c.led = newLed()
	c.table.Env = make(map[string]string, 8)
	c.grants = make([]grant, 0, 32)
	c.files = make([]handoff.Mount, 0, 64)
	c.links = make([]hostfs.Link, 0, 16)
	c.table.Rules = make([]Rule, 0, 64)
	leave, foreign, err := c.host.As(in.AccessUID, in.AccessGID)
	if err != nil {
		return nil, err
	}
	defer leave()
	c.foreign = foreign
	for i := range steps {
		if err := steps[i].do(c); err != nil {
			return nil, err
		}
	}
	return &c.table, nil
}
