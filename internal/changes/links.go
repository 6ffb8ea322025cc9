package changes

import "slices"

// Names of one file that are applied at different times are linked as well: what was
// applied leaves the record, so what is left of the file remembers its name.

// maxLinked bounds how many are remembered of a file: more than one, for it may be gone or
// changed when the next name comes.
const maxLinked = 8

// first names the object that e is, one of several hard links perhaps.
func (e *Entry) first() applied {
	if e.Link == "" {
		return applied{e.Tree, e.Path}
	}
	return applied{e.Tree, e.Link}
}

// linkedTo are the names of an object that were applied before.
func (m *manifest) linkedTo(object applied) []string {
	if m.linked == nil {
		m.linked = map[applied][]string{}
		for i := range m.Changes {
			if e := &m.Changes[i]; len(e.Linked) > 0 {
				m.linked[e.first()] = e.Linked
			}
		}
	}
	return m.linked[object]
}

// linkOf is the name that e becomes a hard link of, as far as the record knows.
func (m *manifest) linkOf(e *Entry) string {
	if e.Link != "" || e.now() != File {
		return e.Link
	}
	if names := m.linkedTo(e.first()); len(names) > 0 {
		return names[0]
	}
	return ""
}

// without is the record's changes but those that drop says. Were these applied, what is left
// of the same files remembers their names.
func (m *manifest) without(drop func(i int) bool, wereApplied bool) (left []Entry) {
	holder := map[applied]int{} // the first entry that is left of a file
	for i, e := range m.Changes {
		if drop(i) {
			continue
		}
		e.Linked = nil
		left = append(left, e)
		if _, ok := holder[e.first()]; !ok && e.now() == File {
			holder[e.first()] = len(left) - 1
		}
	}
	for of, at := range holder {
		left[at].Linked = slices.Clone(m.linkedTo(of))
	}
	for i := range m.Changes {
		e := &m.Changes[i]
		at, ok := holder[e.first()]
		if !ok || !wereApplied || !drop(i) || e.now() != File || e.Path == e.first().Path {
			continue // the first name is the Link of the others
		}
		if len(left[at].Linked) < maxLinked {
			left[at].Linked = append(left[at].Linked, e.Path)
		}
	}
	return left
}

// comesLater: the first name of e's object is still in the record, and not chosen.
func (m *manifest) comesLater(e *Entry, chosen map[int]bool) bool {
	i, ok := slices.BinarySearchFunc(m.Changes, e.first(), func(o Entry, first applied) int {
		if o.Tree != first.Tree {
			return o.Tree - first.Tree
		}
		return comparePaths(o.Path, first.Path)
	})
	return ok && e.Link != "" && !chosen[i] && m.Changes[i].now() == File
}
