package changes

import (
	"errors"
	"path/filepath"
	"time"
)

// StoreDir is where runs are kept: $XDG_STATE_HOME/confine/runs, by default below
// ~/.local/state.
func StoreDir(getenv func(string) string) (string, error) {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // as its specification has it, a relative one doesn't count
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", errors.New("neither XDG_STATE_HOME nor HOME is an absolute path\nhint: set HOME")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "confine", "runs"), nil
}

// Keeping is what Keep needs to know.
type Keeping struct {
	// Start is when the run began, by the clock that file systems stamp with
	// (CLOCK_REALTIME_COARSE): what changed in the real tree since may not be
	// what the run began with.
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

// Truncated counts, at least, the changes that weren't kept.
func (r *Run) Truncated() (n int) {
	for _, t := range r.m.Trees {
		n += t.Truncated
	}
	return n
}
