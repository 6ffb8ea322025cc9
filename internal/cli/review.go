package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/changes"
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
		switch {
		case r.flags["list"] && r.flags["patch"]:
			return &confine.UsageError{Msg: "--list and --patch don't go together", Hint: "confine diff --patch --run ID shows one run of the list"}
		case r.flags["list"]:
			return r.list(r.flags["json"])
		}
		stuck, err := r.store.Recover()
		if err != nil {
			return err
		}
		run, err := r.open()
		if err != nil {
			return err
		}
		defer run.Close()
		if err := r.store.InTheWay(run, stuck); err != nil {
			return err
		}
		here, _ := currentDir() // without one, names are absolute
		return changes.Diff(r, run, r.paths, changes.DiffOptions{Patch: r.flags["patch"], JSON: r.flags["json"], From: here})
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
		signals, stop := watchSignals(s.log.notice)
		defer stop()
		var left error // what the search for protected paths was left for
		done, err := r.store.Apply(run, r.paths, changes.Options{
			Stop: signals.stop, Stopped: signals.stopped, Committed: signals.commit,
			Force: r.flags["force"], AllowProtected: r.flags["allow-protected"],
			Protected: func(trees, dirs, names []string) (test func(string, changes.Type) bool) {
				test, left = s.guarded(signals, trees, dirs, names)
				return test
			},
		})
		if left != nil {
			return left
		}
		if err != nil {
			return err
		}
		if _, err = fmt.Fprintf(r, "applied %s of run %s\n", plural(done.Applied, "change"), run.ID()); err != nil {
			return err
		}
		for _, line := range unlike(&done) {
			s.log.notice(line)
		}
		return nil
	})
}

// guarded tells what apply doesn't take over unasked. Finding that takes as long as what is in
// the trees wants: a signal ends the waiting for it. With an error all is protected.
func (s *session) guarded(signals *interruption, trees, dirs, names []string) (func(string, changes.Type) bool, error) {
	guard := confine.NewGuard(s.env, names)
	all := func(string, changes.Type) bool { return true }
	looked := make(chan []string, 1)
	go func() {
		var partly []string
		for i, dir := range slices.Concat(trees, dirs) {
			if !guard.Look(dir, i < len(trees)) {
				partly = append(partly, dir)
			}
		}
		looked <- partly
	}()
	select {
	case partly := <-looked:
		if len(partly) > 0 {
			return all, fmt.Errorf("not all that other programs obey by way of %s was found: there is too much of it\n"+
				"hint: look at the changes with confine diff --patch; then --allow-protected", strconv.Quote(partly[0]))
		}
	case <-signals.stopped:
		return all, signals.stop()
	}
	return func(path string, t changes.Type) bool {
		switch t {
		case changes.Dir:
			return guard.Protects(path, fs.ModeDir)
		case changes.Symlink:
			return guard.Protects(path, fs.ModeSymlink)
		}
		return guard.Protects(path, 0)
	}, nil
}

// discard drops what a run changed.
func (s *session) discard(args []string) int {
	return s.review("discard", args, func(r *review) error {
		run, err := r.open()
		var broken *changes.BrokenError
		if errors.As(err, &broken) && broken.Run == r.id {
			// Nothing can be told of it, so it was named, and goes as a whole.
			if _, err := r.store.Discard(r.id, r.paths...); err != nil {
				return err
			}
			_, err = fmt.Fprintf(r, "discarded run %s, whose record can't be read\n", r.id)
			return err
		}
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
	if r.store, err = changes.FindStore(dir); err != nil {
		s.log.failure(err)
		return rcProblem
	}
	defer r.store.Close()
	r.store.Told = func(did changes.Recovered) { s.log.notice(did.String()) }
	r.store.Waiting = func() { s.log.notice("waiting for another apply or discard to end") }
	if err = do(r); err == nil {
		return rcOK
	}
	var usage *confine.UsageError
	if errors.As(err, &usage) {
		return s.usage(err)
	}
	var unread *stdoutError
	if name == "diff" && errors.As(err, &unread) && errors.Is(err, syscall.EPIPE) {
		return rcUnread
	}
	if errors.Is(err, changes.ErrNoRun) {
		err = fmt.Errorf("%w\nhint: --run ID names one of those that confine diff --list lists; --keep keeps what a run changes", err)
	}
	s.log.failure(err)
	var interrupted *interruptedError
	if errors.As(err, &interrupted) {
		return interrupted.rc()
	}
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
	here, err := currentDir()
	if err != nil {
		return nil, err
	}
	run, err := r.store.Latest(func(tree string) bool { return around(tree, here) })
	if errors.Is(err, changes.ErrNoRun) {
		err = fmt.Errorf("%w changed anything in %q or around it", err, here)
	}
	return run, err
}

// currentDir is the current directory without symbolic links on the way, as runs keep theirs.
func currentDir() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(here)
}

// around: the tree has to do with the directory.
func around(tree, here string) bool { return within(here, tree) || within(tree, here) }

func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
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
		abs := filepath.Clean(p)
		if !filepath.IsAbs(abs) {
			here, err := currentDir() // as the kernel has it: ".." of a link to a directory is above the directory
			if err != nil {
				return nil, err
			}
			abs = filepath.Join(here, abs)
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
