package cgroup

import (
	"path"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/hierarchy"
)

// site is a place that a run's cgroup could be made in.
type site struct {
	source Source
	v2     string          // the directory; for systemd, the one that this process is in
	v1     []hierarchy.Dir // of CgroupV1, and of a parent in v1
	err    *Error          // why not, when that shows without asking
}

// facts are what the choice of sites depends on.
type facts struct {
	dirs    []hierarchy.Dir // of this process
	systemd bool            // is the init here
	root    bool            // effective uid 0
	anchor  bool            // the sandbox's init can be had
	// delegated: systemd has left this directory to whoever is in it.
	delegated func(unit string) bool
	// controllers is cgroup.controllers of a directory.
	controllers func(dir string) string
}

// sites are those to try, in order, for memory, tasks and, if asked for, the CPU rate. An explicit
// parent is the only one, wherever it is.
func sites(f *facts, parent string, l *Limits) (all []site) {
	v1 := make([]hierarchy.Dir, 0, len(f.dirs))
	var v2 *hierarchy.Dir
	for i := range f.dirs {
		if d := &f.dirs[i]; d.V2 && v2 == nil {
			v2 = d
		} else if !d.V2 {
			v1 = append(v1, *d)
		}
	}
	if parent != "" {
		return []site{{source: CgroupParent, v2: parent, v1: besides(parent, v1)}}
	}
	if v2 != nil && f.useful(v2, v1, l) {
		all = f.unified(v2)
	}
	if len(v1) > 0 {
		all = append(all, site{source: CgroupV1, v1: v1})
	}
	if len(all) == 0 {
		e := &Error{Source: WritableParent, Kind: NoController, Why: "the cgroup2 hierarchy has none of the controllers that are needed"}
		if v2 == nil {
			e.Kind, e.Why = Absent, "no cgroup file system is mounted, or none above this process"
		}
		return []site{{source: e.Source, err: e}}
	}
	return all
}

// unified are the sites of a cgroup2 hierarchy that has the controllers.
func (f *facts) unified(own *hierarchy.Dir) (all []site) {
	if f.systemd {
		s := site{source: SystemdUser, v2: own.Path}
		if f.root {
			s.source = SystemdSystem
		}
		if !f.anchor {
			s.err = &Error{Source: s.source, Kind: NoSystemd, Why: "a scope can't be made without a process"}
		}
		all = append(all, s)
	}
	w := site{source: WritableParent, v2: own.Path}
	if f.systemd {
		// One writer for each directory: systemd, unless it says otherwise.
		if unit := unitOf(own.Path, own.Mount); unit == "" || !f.delegated(unit) {
			w.err = &Error{Source: WritableParent, Kind: Managed, Path: own.Path, Why: "systemd manages it, and has not delegated it"}
		}
	}
	return append(all, w)
}

// useful: the hierarchy of v2 has one of the controllers for us. One that is in v1 is not
// in v2. Whoever gets a scope of systemd's may have more than was handed down to
// the own directory, so that the root is asked, too.
func (f *facts) useful(own *hierarchy.Dir, v1 []hierarchy.Dir, l *Limits) bool {
	var left []Controller
	for _, c := range []Controller{Memory, PIDs, CPU} {
		if l.wanted(c) && hierarchyOf(v1, c) < 0 {
			left = append(left, c)
		}
	}
	dirs := []string{own.Path, own.Mount}
	if own.Path == own.Mount {
		dirs = dirs[:1]
	}
	for _, dir := range dirs {
		if len(left) == 0 {
			return false
		}
		list := []byte(f.controllers(dir))
		if slices.ContainsFunc(left, func(c Controller) bool { return hasWord(list, string(c)) }) {
			return true
		}
	}
	return false
}

// hierarchyOf is the index of the hierarchy of v1 that has the controller, or -1.
func hierarchyOf(v1 []hierarchy.Dir, c Controller) int {
	return slices.IndexFunc(v1, func(d hierarchy.Dir) bool { return slices.Contains(d.Controllers, string(c)) })
}

// unitOf is the directory of the innermost unit of systemd's above a directory or at it. What
// is below a unit is the business of whoever the unit is delegated to.
func unitOf(dir, mount string) string {
	for dir != mount && len(dir) > len(mount) {
		if strings.HasSuffix(dir, ".scope") || strings.HasSuffix(dir, ".service") {
			return dir
		}
		dir = path.Dir(dir)
	}
	return ""
}

// besides gives, for a parent in one hierarchy of v1, the same place in the others: where
// there is none, the own one. It is empty when the parent is in none.
func besides(parent string, v1 []hierarchy.Dir) []hierarchy.Dir {
	for _, in := range v1 {
		below, ok := strings.CutPrefix(parent, in.Mount)
		if !ok || below != "" && below[0] != '/' {
			continue
		}
		all := make([]hierarchy.Dir, len(v1))
		for i, d := range v1 {
			all[i] = d
			all[i].Path = path.Join(d.Mount, below)
		}
		return all
	}
	return nil
}
