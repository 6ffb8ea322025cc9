package confine

import (
	"os"

	"github.com/confine-run/confine/internal/image"
)

// Command is what is to run, and where it comes from.
type Command struct {
	Argv    []string
	Dir     string   // current directory; empty: the process's own
	Environ []string // the caller's environment, of which the policy passes some; nil: the process's own
	// ConfigFiles are policy files in use; they are never writable inside.
	ConfigFiles []string
	// TTY: which of the three streams are to be a pty.
	TTY        [3]bool
	Rows, Cols uint16

	// WatchFiles: each access to a file, refused or not, is told to IO.Accesses.
	WatchFiles bool
	// WatchCalls: under the policy "default", each system call that "strict" would have
	// refused is told to IO.Passed.
	WatchCalls bool

	image *image.Tree // of --rootfs, once it is unpacked
}

func (c *Command) fill() error {
	if len(c.Argv) == 0 {
		return &UsageError{Msg: "no command given", Hint: "confine [options] -- COMMAND [ARG…]"}
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return &UsageError{Msg: "the current directory can't be told: " + err.Error(), Hint: "change to one that exists", Err: err}
		}
		c.Dir = dir
	}
	return nil
}

func (c *Command) env(name string) string { return lookupEnv(c.Environ, name) }

// lookupEnv gives the last value of name, as execve's users see it.
func lookupEnv(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if e := environ[i]; len(e) > len(name) && e[len(name)] == '=' && e[:len(name)] == name {
			return e[len(name)+1:]
		}
	}
	return ""
}
