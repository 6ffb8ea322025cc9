package changes

// Options of Apply.
type Options struct {
	// Force lets the run's version win over what has changed since, what was added
	// since below a directory that the run removed included.
	Force bool
	// Protected tells, by its path below the tree, what later programs of the
	// caller's run or obey: git hooks, start-up files. Such changes, and those
	// below them, are refused unless AllowProtected.
	Protected      func(rel string) bool
	AllowProtected bool
}

// Result is what Apply did.
type Result struct {
	Applied int // changes that the tree has now
	Already int // of those, what it had before
}

// protects: path, or a directory that it is in, is protected.
func (o *Options) protects(path string) bool {
	if o.AllowProtected || o.Protected == nil {
		return false
	}
	for ; path != ""; path, _ = split(path) {
		if o.Protected(path) {
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
		case o.protects(e.Path):
			refused.add(path, "is protected: programs outside run or obey it", "look at it with confine diff --patch; then --allow-protected, or confine discard it")
		}
	}
	if len(refused.Refused) > 0 {
		return refused
	}
	return nil
}
