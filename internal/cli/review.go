package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/cli/outputs"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/review"
	"github.com/confine-run/confine/supervisor/terminal"
)

// reviewing is what diff, apply and discard have in common.
type reviewing struct {
	*session
	store *changes.Store
	id    string
	flags map[string]bool
	paths []string // absolute
}

// diffCommand shows what a run changed.
func diffCommand(s *session, line *Line) (int, error) {
	return s.review("diff", line, func(r *reviewing) error {
		switch {
		case r.flags["list"] && r.flags["patch"]:
			return &config.UsageError{Msg: "--list and --patch don't go together", Hint: "confine diff --patch --run ID shows one run of the list"}
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

// applyCommand copies what a run changed to the real trees.
func applyCommand(s *session, line *Line) (int, error) {
	return s.review("apply", line, func(r *reviewing) error {
		run, err := r.open()
		if err != nil {
			return err
		}
		defer run.Close()
		signals, stop := watchSignals(s.ctx, s.log.advise)
		defer stop()
		protection := review.NewProtection(signals.ctx, s.env, run)
		done, err := r.store.Apply(run, r.paths, changes.Options{
			Context: signals.ctx, Committed: signals.markCommitted,
			Force: r.flags["force"], AllowProtected: r.flags["allow-protected"], Protected: protection.Test,
		})
		if left := protection.Err(); left != nil {
			return left
		}
		if err != nil {
			return err
		}
		if _, err = fmt.Fprintf(r, "applied %s of run %s\n", plural(done.Applied, "change"), run.ID()); err != nil {
			return err
		}
		for _, line := range ApplyNotes(&done) {
			s.log.notice(line)
		}
		return nil
	})
}

// discardCommand drops what a run changed.
func discardCommand(s *session, line *Line) (int, error) {
	return s.review("discard", line, func(r *reviewing) error {
		run, err := r.open()
		if broken, ok := errors.AsType[*changes.BrokenError](err); ok && broken.Run == r.id {
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

// review reads the options, opens the store, and runs the subcommand.
func (s *session) review(name string, line *Line, do func(*reviewing) error) (_ int, err error) {
	r := &reviewing{session: s, flags: map[string]bool{}}
	id, named := line.last("run")
	if r.id = id; named && id == "" { // a script's variable that isn't set
		return rcUsage, &config.UsageError{Msg: "--run: it names no run", Hint: "without --run the latest one is meant"}
	}
	for _, name := range []string{"list", "patch", "json", "force", "allow-protected"} {
		if r.flags[name], err = line.on(name); err != nil {
			return rcUsage, err
		}
	}
	if r.paths, err = CanonicalPaths(line.Rest); err != nil {
		return rcUsage, err
	}
	src := s.sources(nil)
	dir, err := src.StoreDir()
	if err != nil {
		return rcUsage, err
	}
	if r.store, err = changes.FindStore(dir); err != nil {
		return s.problem(err, rcProblem)
	}
	defer r.store.Close()
	r.store.OnRecovered = func(did changes.Recovered) { n := did.Notice(); s.log.advise(n.Text, n.Remedy) }
	r.store.Waiting = func() { s.log.notice("waiting for another apply or discard to end") }
	if err = do(r); err == nil {
		return rcOK, nil
	}
	var unread *stdoutError
	if name == "diff" && errors.As(err, &unread) && errors.Is(err, syscall.EPIPE) {
		return rcUnread, nil
	}
	if _, remedy := hint.Split(err); errors.Is(err, changes.ErrNoRun) && remedy == "" {
		err = hint.With(err, "--run ID names one of those that confine diff --list lists; --keep keeps what a run changes")
	}
	rc := rcProblem
	if interrupted, ok := errors.AsType[*interruptedError](err); ok {
		rc = interrupted.rc()
	}
	return s.problem(err, rc)
}

// Write writes to standard output.
func (r *reviewing) Write(b []byte) (int, error) {
	if err := r.Out(b); err != nil {
		return 0, &stdoutError{err}
	}
	return len(b), nil
}

// open opens the run that was named, or the newest that has to do with the current
// directory: that it is in, or that is in it.
func (r *reviewing) open() (*changes.Run, error) {
	if r.id != "" {
		return r.store.Open(r.id)
	}
	here, err := currentDir()
	if err != nil {
		return nil, err
	}
	run, err := r.store.Latest(func(tree string) bool { return related(tree, here) })
	if errors.Is(err, changes.ErrNoRun) {
		err = fmt.Errorf("%w changed anything in %q or around it", err, here)
		if all, _ := r.store.List(); len(all) > 0 && all[0].Err == nil && len(all[0].Trees) > 0 {
			err = hint.With(err, fmt.Sprintf("--run %s names the latest, which changed something in %q; confine diff --list lists all", all[0].ID, all[0].Trees[0]))
		}
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

// related: the tree has to do with the directory.
func related(tree, here string) bool { return within(here, tree) || within(tree, here) }

func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// counts are "2 added, 1 deleted".
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

// CanonicalPaths makes paths what runs keep: absolute and without symbolic links on the way.
// The last component may be one, or gone, and so may be directories above it.
func CanonicalPaths(paths []string) ([]string, error) {
	all := make([]string, 0, len(paths))
	for _, p := range paths {
		if p == "" {
			return nil, &config.UsageError{Msg: "the name of a path is empty"}
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
				return nil, &config.UsageError{Msg: err.Error()}
			}
			dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest)
		}
		all = append(all, filepath.Join(dir, rest))
	}
	return all, nil
}

// keptLine is a line of diff --list --json; fields are added only.
type keptLine struct {
	ID      string           `json:"id"`
	Time    time.Time        `json:"time"`
	Command []string         `json:"command"`
	Trees   []string         `json:"trees"`
	Summary *changes.Summary `json:"summary,omitempty"`
	// Error: its record can't be read, and nothing but the id is known.
	Error string `json:"error,omitempty"`
}

// list writes one line for each run that is kept, the newest first.
func (r *reviewing) list(asJSON bool) error {
	all, err := r.store.List()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for i := range all {
		in := &all[i]
		switch {
		case asJSON:
			line := keptLine{ID: in.ID, Time: in.Time, Command: append([]string{}, in.Command...), Trees: append([]string{}, in.Trees...), Summary: &in.Summary}
			if in.Err != nil {
				line.Error, line.Summary = in.Err.Error(), nil
			}
			out.Write(outputs.Encode(line))
		case in.Err != nil:
			msg, remedy := hint.Split(in.Err)
			fmt.Fprintf(&out, "%s  %s; %s\n", in.ID, terminal.Visible(msg), terminal.Visible(remedy))
		default:
			sum := &in.Summary
			fmt.Fprintf(&out, "%s  %s  %s  %s  %s\n", in.ID, in.Time.Format(time.DateTime), places(in.Trees),
				counts(sum.Added, sum.Modified, sum.Deleted, sum.Mode, sum.Link), terminal.Visible(strings.Join(in.Command, " ")))
		}
	}
	_, err = r.Write(out.Bytes())
	return err
}

// places are the trees of a run.
func places(trees []string) string {
	all := make([]string, len(trees))
	for i, t := range trees {
		all[i] = changes.Quote(t)
	}
	return strings.Join(all, ", ")
}

// ApplyNotes are lines on where the tree isn't as the run left it.
func ApplyNotes(done *changes.Result) (lines []string) {
	if n := done.NoSetID; n > 0 {
		line := "set-id bits of " + plural(n, "path") + " were left out"
		if done.Nothing > 0 {
			line += "; for " + plural(done.Nothing, "change") + " that was all there was"
		}
		lines = append(lines, line)
	}
	if n := done.Parted; n > 0 {
		lines = append(lines, plural(n, "file")+" had other names (hard links), which keep the old content, as in the overlay")
	}
	if n := done.Copied; n > 0 {
		lines = append(lines, plural(n, "hard link")+" became "+map[bool]string{true: "a file of its own", false: "files of their own"}[n == 1])
	}
	return lines
}

// interruption is a signal that comes while changes are applied. Before the commit it
// ends the apply, and nothing was changed; afterwards the apply goes on to its end, and says
// so. A second signal does what it always does, and whoever comes next finishes the work, or undoes it.
type interruption struct {
	say    func(text, remedy string)
	ctx    context.Context // ends with it
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	sig       os.Signal
	committed bool
}

func newInterruption(ctx context.Context, say func(text, remedy string)) *interruption {
	in := &interruption{say: say}
	in.ctx, in.cancel = context.WithCancelCause(ctx)
	return in
}

// watchSignals begins to note signals, those aside that the caller had us ignore (nohup).
func watchSignals(ctx context.Context, say func(text, remedy string)) (in *interruption, stop func()) {
	in = newInterruption(ctx, say)
	var watched []os.Signal
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			watched = append(watched, sig)
		}
	}
	if watched == nil { // to Notify none are all
		return in, func() {}
	}
	signals := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(signals, watched...)
	go func() {
		select {
		case sig := <-signals:
			signal.Reset(watched...)
			in.signalled(sig)
		case <-done:
		}
	}()
	return in, func() { signal.Stop(signals); close(done) }
}

func (in *interruption) signalled(sig os.Signal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.sig = sig
	in.cancel(&interruptedError{sig})
	in.notify()
}

func (in *interruption) markCommitted() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.committed = true
	in.notify()
}

// notify says, once there are both, that the signal is too late. Each comes once.
func (in *interruption) notify() {
	if in.sig != nil && in.committed {
		in.say(signalName(in.sig)+": the changes are committed, and are being applied to the end",
			"should that be killed too, the next confine diff, apply or discard finishes or undoes it")
	}
}

type interruptedError struct{ sig os.Signal }

func (e *interruptedError) Error() string {
	return hint.Text(signalName(e.sig)+": stopped before the commit, nothing was changed", e.Remedy())
}

func (e *interruptedError) Remedy() string { return "the run is kept: confine apply begins again" }

// rc is that of a program that the signal ended.
func (e *interruptedError) rc() int {
	if n, ok := e.sig.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return rcProblem
}

func signalName(sig os.Signal) string {
	switch sig {
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	}
	return fmt.Sprint(sig)
}
