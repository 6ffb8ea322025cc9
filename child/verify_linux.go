package child

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
)

// verify holds the kernel's table of mounts against the plan: nothing else is
// mounted, and every mount carries the flags that it was to get.
func (s *state) verify() error {
	if !s.has(unix.CLONE_NEWNS) {
		return nil
	}
	table, err := s.mountTable()
	if err != nil {
		return err
	}
	return s.check(table)
}

func (s *state) check(table []mountEntry) error {
	tree, on := s.planned(), atop(table)
	for i := range table {
		m := &table[i]
		want, known := s.wanted(tree, m.point)
		if !known {
			return fault("verify (a mount that nobody planned)", m.point, unix.EEXIST)
		}
		for _, option := range []struct {
			name string
			want bool
		}{{"ro", want.readOnly}, {"nosuid", true}, {"nodev", want.nodev}} {
			if option.want && !m.has(option.name) && (option.name != "ro" || !on[covering{m.id, m.point}]) {
				return fault("verify (mount lacks "+option.name+")", m.point, unix.EPERM)
			}
		}
		if want.super != "" && !lists(m.super, want.super) {
			return fault("verify (mount lacks "+want.super+")", m.point, unix.EPERM)
		}
	}
	return nil
}

// covering is a mount and the place that something else is mounted on.
type covering struct{ id, point string }

// atop are the mounts on the whole of which something else is mounted, which is what the plan
// says of the place; what is below is reached by no name. The table can be long, and is gone
// through once.
func atop(table []mountEntry) map[covering]bool {
	on := make(map[covering]bool, len(table))
	for i := range table {
		if m := &table[i]; m.parent != m.id {
			on[covering{m.parent, m.point}] = true
		}
	}
	return on
}

// placed is a name in the tree of what was planned.
type placed struct {
	entries []*handoff.Mount // in the order of the plan
	below   map[string]*placed
}

// planned is the plan by place, so that what it says of a mount point is found by walking
// that: a tree that somebody else made can bring thousands of both.
func (s *state) planned() *placed {
	root := &placed{}
	for i := range s.box.Mounts {
		m, at := &s.box.Mounts[i], root
		if m.Kind == handoff.MountDir || m.Kind == handoff.MountSymlink || m.Kind == handoff.MountAbsent {
			continue // no mounts
		}
		for name := range names(m.Dst) {
			next := at.below[name]
			if next == nil {
				if next = new(placed); at.below == nil {
					at.below = make(map[string]*placed)
				}
				at.below[name] = next
			}
			at = next
		}
		at.entries = append(at.entries, m)
	}
	return root
}

// names are those of a path.
func names(path string) iter.Seq[string] {
	if path == "/" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(strings.TrimPrefix(path, "/"), "/")
}

type wanted struct {
	readOnly, nodev bool
	super           string // an option of the file system
}

// wanted is what the plan says of a mount point: of the last entry there, or of
// the bind whose own mounts reach so far.
func (s *state) wanted(tree *placed, point string) (w wanted, known bool) {
	if point == "/" {
		w, known = wanted{readOnly: !s.hasImage() || s.fellBack.RootReadOnly, nodev: true}, true
	}
	if s.fellBack.RootReadOnly { // what is mounted in the tree came with it
		w, known = wanted{readOnly: true, nodev: true}, true
	}
	if slices.Contains(s.shut, point) {
		return wanted{readOnly: true, nodev: true}, true
	}
	at := tree
	for name := range names(point) { // what is at "/" is the root's own affair, above
		if at = at.below[name]; at == nil {
			break
		}
		for _, m := range at.entries {
			if s.wants(&w, m, point) {
				known = true
			}
		}
	}
	return w, known
}

// wants is what one entry, at a mount point or above, adds to what is known of the point.
func (s *state) wants(w *wanted, m *handoff.Mount, point string) bool {
	switch m.Kind {
	case handoff.MountBind:
		*w = wanted{readOnly: m.ReadOnly, nodev: !m.Device}
	case handoff.MountOverlay:
		*w = wanted{readOnly: slices.Contains(s.flat, m.Dst), nodev: true}
	case handoff.MountReadOnly:
		*w = wanted{readOnly: true, nodev: w.nodev}
	case handoff.MountScratch, handoff.MountTmpfs:
		*w = wanted{readOnly: m.ReadOnly, nodev: true}
	case handoff.MountFile:
		if !s.hasImage() || m.Dst != point {
			return false
		}
		*w = wanted{readOnly: true, nodev: true}
	case handoff.MountMask, handoff.MountBeneath:
		*w = wanted{readOnly: true, nodev: true}
	case handoff.MountProc:
		*w = wanted{readOnly: s.fellBack.ProcOfCaller, nodev: true}
	case handoff.MountDevpts:
		*w = wanted{super: "max=" + strconv.FormatInt(m.Size, 10)}
	case handoff.MountPin:
		// what was there, once more
	default:
		return false
	}
	return true
}
