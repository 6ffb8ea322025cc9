package review

import (
	"maps"
	"strings"
	"sync"

	"github.com/confine-run/confine/internal/changes"
)

// Agreed is what the caller's trees have of a sandbox that goes on, since it was applied. Without it each file that was applied would be
// one that somebody changed after the sandbox was opened. What somebody has changed since then is other than this, and a conflict.
type Agreed struct {
	mu  sync.Mutex
	all map[string]changes.Base // by absolute paths
}

// Clone is for a sandbox that goes on as this one does now.
func (a *Agreed) Clone() *Agreed {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &Agreed{all: maps.Clone(a.all)}
}

// holds says whether a tree had what was applied.
func (a *Agreed) holds(path string, had changes.Base) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was, ok := a.all[path]
	if !ok || was.Type != had.Type {
		return false
	}
	switch was.Type {
	case changes.Absent:
		return true
	case changes.File:
		return was.Digest != "" && was.Digest == had.Digest
	case changes.Symlink:
		return was.Target == had.Target
	}
	return false
}

// add remembers what was applied at and below paths, all without paths.
func (a *Agreed) add(trees []string, all []changes.Entry, paths []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]changes.Base{}
	}
	for i := range all {
		e := &all[i]
		path := strings.TrimSuffix(trees[e.Tree], "/") + "/" + e.Path
		if !among(path, paths) {
			continue
		}
		now := changes.Base{Type: e.Type, Digest: e.Digest, Target: e.Target}
		switch e.Kind {
		case changes.Deleted:
			now = changes.Base{}
		case changes.ModeOnly:
			now.Digest, now.Target = e.Base.Digest, e.Base.Target
		}
		a.all[path] = now
	}
}

// among: path is one of those, or below one.
func among(path string, paths []string) bool {
	for _, p := range paths {
		if path == p || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return len(paths) == 0
}
