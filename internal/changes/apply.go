package changes

import "strings"

// Options of Apply.
type Options struct {
	// Force lets the run's version win over what has changed since, what was added
	// since below a directory that the run removed included.
	Force bool
	// Protected tells, by its absolute path and what is to be there, what later
	// programs of the caller's run or obey: git hooks, start-up files. It is asked for
	// each directory on the way, too. Such changes are refused unless AllowProtected, and so is
	// what the run's policy protected.
	Protected      func(path string, t Type) bool
	AllowProtected bool
}

// Result is what Apply did.
type Result struct {
	Applied int // changes that the tree has now
	Already int // of those, what it had before
}

// protects: a path, or a directory that it is in, is protected.
func (o *Options) protects(m *manifest, e *Entry) bool {
	if o.AllowProtected {
		return false
	}
	full := join(m.Trees[e.Tree].Path, e.Path)
	t := e.now()
	for at := full; len(at) > 1; at, _ = split(at) {
		if m.protects(at) || o.Protected != nil && o.Protected(at, t) {
			return true
		}
		t = Dir
	}
	return false
}

// protects: the run's policy did.
func (m *manifest) protects(full string) bool {
	for _, p := range m.Protect {
		if full == p || !strings.HasPrefix(p, "/") && strings.HasSuffix(full, "/"+p) {
			return true
		}
	}
	return false
}

// refuse collects what is never applied, or not without being asked for.
func (m *manifest) refuse(chosen map[int]bool, o *Options) error {
	refused := &RefusedError{}
	for i := range m.Changes {
		if !chosen[i] {
			continue
		}
		e := &m.Changes[i]
		path := m.Trees[e.Tree].Path + "/" + e.Path
		switch {
		case e.now().special():
			refused.add(path, "a "+string(e.Type)+" is never made in the real tree", "confine discard "+Quote(path))
		case e.Unkept != "":
			refused.add(path, e.Unkept, "confine discard "+Quote(path))
		case o.protects(m, e):
			refused.add(path, "is protected: programs outside run or obey it", "look at it with confine diff --patch; then --allow-protected, or confine discard it")
		}
	}
	if len(refused.Refused) > 0 {
		return refused
	}
	return nil
}
