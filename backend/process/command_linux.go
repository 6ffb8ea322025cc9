package process

import (
	"errors"
	"os"
	"slices"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/image"
	"github.com/confine-run/confine/internal/rootfs"
	"github.com/confine-run/confine/internal/view"
)

// Command is what is to run, and where it comes from.
type Command struct {
	Argv    []string
	Dir     string   // current directory; empty: the process's own
	Environ []string // the caller's environment, of which the policy passes some; nil: the process's own
	// Env is K=V, beside what the policy passes, and before it.
	Env []string
	// ConfigFiles are policy files in use; they are never writable inside.
	ConfigFiles []string
	// TTY: which of the three streams are to be a pty.
	TTY        [3]bool
	Rows, Cols uint16

	// Boxed: a sandbox is built for commands like this one. Each is started later, with streams of its own.
	Boxed bool

	// WatchFiles: each access to a file, refused or not, is told to IO.Accesses.
	WatchFiles bool
	// WatchCalls: under the policy "default", each system call that "strict" would have
	// refused is told to IO.Passed.
	WatchCalls bool

	// Shape is for a run with a Rootfs.
	Shape backend.Shape

	// Ceiling is what the run may see no more than, in a directory that lies in CeilingDir; nil: whatever its policy says.
	Ceiling    *config.Policy
	CeilingDir string

	image   *image.Tree // of --rootfs, once it is unpacked
	modules modules     // what the module that it is was compiled to
	boxed               // of what a sandbox stands on
}

func (c *Command) fill() error {
	if len(c.Argv) == 0 {
		return &config.UsageError{Msg: "no command given", Hint: "confine [options] -- COMMAND [ARG…]"}
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return &config.UsageError{Msg: "the current directory can't be told: " + err.Error(), Hint: "change to one that exists, and that you may enter", Err: err}
		}
		c.Dir = dir
	}
	return nil
}

func (c *Command) env(name string) string { return config.LookupEnv(c.Environ, name) }

// reaches refuses a file that the policy names, if a link in a tree of work is on the way to it.
func (c *Command) reaches(policy *config.Policy, option, name string) error {
	others := slices.DeleteFunc(slices.Clone(c.ConfigFiles), func(f string) bool { return f == name })
	if _, err := config.NamesOf(policy, c.Dir, others, c.env, c.work()...).Real(name, false); err != nil {
		return config.ThroughLink(option, name, err)
	}
	return nil
}

// work are the trees that other runs below the ceiling may fill.
func (c *Command) work() []string {
	if c.Ceiling == nil {
		return nil
	}
	return c.ceiling().Work()
}

func (c *Command) ceiling() *rootfs.Ceiling {
	return &rootfs.Ceiling{Filesystem: c.Ceiling.Filesystem, Base: c.CeilingDir}
}

// look decides what is visible.
func (c *Command) look(in view.Input) (*rootfs.Table, error) {
	if c.Ceiling == nil {
		return rootfs.Compile(in)
	}
	t, err := c.ceiling().Compile(in)
	var wider *rootfs.WiderError
	if !errors.As(err, &wider) {
		return t, err
	}
	return nil, &config.CeilingError{Option: wider.Option, Path: wider.Path, Err: wider}
}
