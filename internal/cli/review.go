package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/supervisor/terminal"
)

// review is what diff, apply and discard have in common.
type review struct {
	*session
	store *changes.Store
	id    string
	flags map[string]bool
	paths []string // absolute
}

// diff shows what a run changed.
func (s *session) diff(args []string) int {
	return s.review("diff", args, func(r *review) error {
		if r.flags["list"] {
			return r.list()
		}
		if err := r.store.Recover(); err != nil {
			return err
		}
		run, err := r.open()
		if err != nil {
			return err
		}
		defer run.Close()
		return changes.Diff(r, run, r.paths, changes.DiffOptions{Patch: r.flags["patch"], JSON: r.flags["json"]})
	})
}

// apply copies what a run changed to the real trees.
func (s *session) apply(args []string) int {
	return s.review("apply", args, func(r *review) error {
		run, err := r.open()
		if err != nil {
			return err
		}
		defer run.Close()
		done, err := r.store.Apply(run, r.paths, changes.Options{
			Force: r.flags["force"], Protected: func(path string, t changes.Type) bool { return confine.Protected(path, t == changes.Dir, s.env) }, AllowProtected: r.flags["allow-protected"],
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(r, "applied %s of run %s\n", plural(done.Applied, "change"), run.ID())
		return err
	})
}

// discard drops what a run changed.
func (s *session) discard(args []string) int {
	return s.review("discard", args, func(r *review) error {
		run, err := r.open()
		if err != nil {
			return err
		}
		id := run.ID()
		run.Close()
		n, err := r.store.Discard(id, r.paths...)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(r, "discarded %s of run %s\n", plural(n, "change"), id)
		return err
	})
}

// review takes the words apart, opens the store, and does what the subcommand does.
func (s *session) review(name string, args []string, do func(*review) error) int {
	line, err := words(lookup(name), args, len(args))
	if err != nil {
		return s.usage(err)
	}
	if line.Help {
		return s.page(name)
	}
	r := &review{session: s, flags: map[string]bool{}}
	for _, set := range line.Settings {
		if set.Option == "run" {
			if r.id = set.Values[0]; r.id == "" { // a script's variable that isn't set
				return s.usage(&confine.UsageError{Msg: "--run: it names no run", Hint: "without --run the latest one is meant"})
			}
			continue
		}
		on, err := strconv.ParseBool(set.Values[0])
		if err != nil {
			return s.usage(&confine.UsageError{Msg: "--" + set.Option + " is true or false, not " + strconv.Quote(set.Values[0])})
		}
		r.flags[set.Option] = on
	}
	if r.paths, err = physical(line.Rest); err != nil {
		return s.usage(err)
	}
	dir, err := changes.StoreDir(s.env)
	if err != nil {
		return s.usage(err)
	}
	if r.store, err = changes.OpenStore(dir); err != nil {
		s.log.failure(err)
		return rcProblem
	}
	defer r.store.Close()
	if err = do(r); err == nil {
		return rcOK
	}
	if errors.Is(err, changes.ErrNoRun) {
		err = fmt.Errorf("%w\nhint: --run ID names one of those that confine diff --list lists; --keep keeps what a run changes", err)
	}
	s.log.failure(err)
	return rcProblem
}

// Write makes the review a writer to standard output.
func (r *review) Write(b []byte) (int, error) {
	if err := r.Out(b); err != nil {
		return 0, &stdoutError{err}
	}
	return len(b), nil
}

var _ io.Writer = (*review)(nil)

// open opens the run that was named, or the newest that has to do with the current
// directory: that it is in, or that is in it.
func (r *review) open() (*changes.Run, error) {
	if r.id != "" {
		return r.store.Open(r.id)
	}
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err != nil {
		return nil, err
	}
	run, err := r.store.Latest(func(tree string) bool { return within(here, tree) || within(tree, here) })
	if errors.Is(err, changes.ErrNoRun) {
		err = fmt.Errorf("%w changed anything in %q or around it", err, here)
	}
	return run, err
}

func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// list writes one line for each run that is kept, the newest first.
func (r *review) list() error {
	all, err := r.store.List()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for i := range all {
		in := &all[i]
		fmt.Fprintf(&out, "%s  %s  %s  %s\n", in.ID, in.Time.Format(time.DateTime),
			summary(in.Summary), terminal.Visible(strings.Join(in.Command, " ")))
		if in.Err != nil {
			fmt.Fprintf(&out, "  %s\n", terminal.Visible(in.Err.Error()))
		}
	}
	_, err = r.Write(out.Bytes())
	return err
}

// summary is "2 added, 1 deleted".
func summary(s changes.Summary) string {
	return counts(s.Added, s.Modified, s.Deleted, s.Mode, s.Link)
}

func counts(added, modified, deleted, mode, link int) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{added, "added"}, {modified, "modified"}, {deleted, "deleted"}, {mode, "of another mode"}, {link, "linked elsewhere"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// physical makes paths what runs keep: absolute and without symbolic links on the way.
// The last component may be one, or gone, and so may be directories above it.
func physical(paths []string) ([]string, error) {
	all := make([]string, 0, len(paths))
	for _, p := range paths {
		if p == "" {
			return nil, &confine.UsageError{Msg: "the name of a path is empty"}
		}
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, err
		}
		dir, rest := filepath.Dir(abs), filepath.Base(abs)
		for dir != "/" {
			real, err := filepath.EvalSymlinks(dir)
			if err == nil {
				dir = real
				break
			}
			if !errors.Is(err, os.ErrNotExist) {
				return nil, &confine.UsageError{Msg: err.Error()}
			}
			dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest)
		}
		all = append(all, filepath.Join(dir, rest))
	}
	return all, nil
}
