package changes

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/confine-run/confine/internal/hint"
)

// StoreDir is where runs are kept: $XDG_STATE_HOME/confine/runs, by default below
// ~/.local/state.
func StoreDir(getenv func(string) string) (string, error) {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // as its specification has it, a relative one doesn't count
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", hint.New("neither XDG_STATE_HOME nor HOME is an absolute path", "set HOME")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "confine", "runs"), nil
}

// Keeping is what Keep needs to know.
type Keeping struct {
	// Start is when the run began: what changed in the real tree since may not be
	// what the run began with. It comes from the fine clock: a file's time may be
	// ahead of CLOCK_REALTIME_COARSE.
	Start   time.Time
	Command []string
	Protect []string // paths that the policy protects: absolute, or at the end of any
	Trees   []Tree
	Sets    []*Set // of Read, one for each tree
}

// Info is a kept run in a list.
type Info struct {
	ID      string
	Time    time.Time
	Command []string
	Trees   []string
	Summary Summary
	Err     error // its record can't be read
}

// Recovered is an interrupted apply that was brought to an end.
type Recovered struct {
	Run      string
	Changes  int  // that it was about
	Finished bool // all of them are in the tree; else none is
	// Stuck: it could be neither finished nor undone, and Trees are in between. What is to be
	// done elsewhere needn't wait for it.
	Stuck error
	Trees []string
}

// overlaps: one of its trees is one of those, or in one, or around one.
func (d *Recovered) overlaps(trees []keptTree) bool {
	for _, mine := range d.Trees {
		for _, t := range trees {
			_, in := relative(mine, t.Path)
			if _, around := relative(t.Path, mine); in || around {
				return true
			}
		}
	}
	return false
}

// Notice is what to say about it.
func (d Recovered) Notice() hint.Notice {
	n := "1 change"
	if d.Changes != 1 {
		n = fmt.Sprintf("%d changes", d.Changes)
	}
	switch {
	case d.Stuck != nil:
		why, remedy := hint.Split(d.Stuck)
		return hint.Notice{Text: "the interrupted apply of run " + d.Run + " can be neither finished nor undone now: " + why, Remedy: remedy}
	case d.Finished:
		return hint.Notice{Text: "finished the interrupted apply of run " + d.Run + ": " + n}
	}
	return hint.Notice{Text: "undid the interrupted apply of run " + d.Run + ": none of its " + n + " is in the tree"}
}

// ID of the run.
func (r *Run) ID() string { return r.m.ID }

// Info is the run in short.
func (r *Run) Info() Info {
	in := Info{ID: r.m.ID, Time: r.m.Time, Command: r.m.Command, Summary: r.m.summary()}
	if r.m.Changes == nil && r.m.Summary != nil {
		in.Summary = *r.m.Summary // of a list, which reads no further
	}
	for _, t := range r.m.Trees {
		in.Trees = append(in.Trees, t.Path)
	}
	return in
}

// Entries are the run's changes that are neither applied nor discarded yet.
func (r *Run) Entries() []Entry { return r.m.Changes }

// Deep counts, at least, the changes that weren't kept for the length of their paths.
func (r *Run) Deep() (n int) {
	for _, t := range r.m.Trees {
		n += t.Deep
	}
	return n
}

// missesDeep: something that is too deep to be kept is at or below one of the paths, or in the
// run without paths.
func (r *Run) missesDeep(paths []string) bool {
	for _, t := range r.m.Trees {
		if t.Deep > 0 && len(paths) == 0 {
			return true
		}
		for _, p := range paths {
			rel, ok := relative(t.Path, p)
			if t.Deep > 0 && ok && (below(t.DeepIn, rel) || below(rel, t.DeepIn)) {
				return true
			}
		}
	}
	return false
}

// deepIn is where they are, in the first tree that has some.
func (r *Run) deepIn() string {
	for _, t := range r.m.Trees {
		if t.Deep > 0 {
			return short(join2(t.Path, t.DeepIn))
		}
	}
	return ""
}

// short leaves of a long path what can be read.
func short(path string) string {
	for len(path) > 200 {
		up, _ := split(path)
		if up == "" {
			break
		}
		path = up
	}
	return path
}

// Truncated counts, at least, the changes that were too many to be kept.
func (r *Run) Truncated() (n int) {
	for _, t := range r.m.Trees {
		n += t.Truncated
	}
	return n
}
