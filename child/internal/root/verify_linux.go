package root

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/handoff"
)

// verify holds the kernel's table of mounts against the plan: nothing else is
// mounted, and every mount carries the flags that it was to get.
func (b *Builder) verify() error {
	table, err := mountTable()
	if err != nil {
		return err
	}
	return (&checker{planned(b.box.Mounts), b.image, b.fell, b.masker.unsearchable, b.flat, b.box.Root.Sealed}).check(table)
}

// checker is what the plan says, and what became of it.
type checker struct {
	all                []*handoff.Mount // see planned
	image              bool
	fell               *handoff.Fallbacks
	unsearchable, flat []string
	sealed             bool
}

func (c *checker) check(table []mountEntry) error {
	var on map[covering]bool
	for i := range table {
		m := &table[i]
		want, known := c.wanted(m.point)
		if !known {
			return fault.Of("verify (a mount that nobody planned)", m.point, unix.EEXIST)
		}
		for _, option := range []struct {
			name string
			want bool
		}{{"ro", want.readOnly}, {"nosuid", true}, {"nodev", want.nodev}} {
			if !option.want || m.has(option.name) {
				continue
			}
			if on == nil {
				on = atop(table)
			}
			if option.name != "ro" || !on[covering{m.id, m.point}] {
				return fault.Of("verify (mount lacks "+option.name+")", m.point, unix.EPERM)
			}
		}
		if want.super != "" && !lists(m.super, want.super) {
			return fault.Of("verify (mount lacks "+want.super+")", m.point, unix.EPERM)
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

// planned are the mounts of the plan by place, so that what it says of a mount point is found by
// asking for that and what is above: a tree that somebody else made can bring thousands of both.
func planned(mounts []handoff.Mount) []*handoff.Mount {
	all := make([]*handoff.Mount, 0, len(mounts))
	for i := range mounts {
		switch m := &mounts[i]; m.Kind {
		case handoff.MountDir, handoff.MountSymlink, handoff.MountAbsent: // no mounts
		default:
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b *handoff.Mount) int { return strings.Compare(a.Dst, b.Dst) }) // at one place, in the plan's order
	return all
}

type wanted struct {
	readOnly, nodev bool
	super           string // an option of the file system
}

// wanted is what the plan says of a mount point: of the last entry there, or of
// the bind whose own mounts reach so far.
func (c *checker) wanted(point string) (w wanted, known bool) {
	if point == "/" {
		w, known = wanted{readOnly: !c.image || c.sealed || c.fell.RootReadOnly, nodev: true}, true
	}
	if c.fell.RootReadOnly { // what is mounted in the tree came with it
		w, known = wanted{readOnly: true, nodev: true}, true
	}
	if slices.Contains(c.unsearchable, point) {
		return wanted{readOnly: true, nodev: true}, true
	}
	for n := 1; n < len(point); { // what is at "/" is the root's own affair, above
		if next := strings.IndexByte(point[n+1:], '/'); next < 0 {
			n = len(point)
		} else {
			n += 1 + next
		}
		at, _ := slices.BinarySearchFunc(c.all, point[:n], func(m *handoff.Mount, dst string) int { return strings.Compare(m.Dst, dst) })
		for ; at < len(c.all) && c.all[at].Dst == point[:n]; at++ {
			known = c.wants(&w, c.all[at], point) || known
		}
	}
	return w, known
}

// wants is what one entry, at a mount point or above, adds to what is known of the point.
func (c *checker) wants(w *wanted, m *handoff.Mount, point string) bool {
	switch m.Kind {
	case handoff.MountBind:
		*w = wanted{readOnly: m.ReadOnly, nodev: !m.Device}
	case handoff.MountOverlay:
		*w = wanted{readOnly: slices.Contains(c.flat, m.Dst), nodev: true}
	case handoff.MountReadOnly:
		*w = wanted{readOnly: true, nodev: w.nodev}
	case handoff.MountScratch, handoff.MountTmpfs:
		*w = wanted{readOnly: m.ReadOnly, nodev: true}
	case handoff.MountFile:
		if !c.image || m.Dst != point {
			return false
		}
		*w = wanted{readOnly: true, nodev: true}
	case handoff.MountMask, handoff.MountBeneath:
		*w = wanted{readOnly: true, nodev: true}
	case handoff.MountProc:
		*w = wanted{readOnly: c.fell.ProcOfCaller, nodev: true}
	case handoff.MountDevpts:
		*w = wanted{super: "max=" + strconv.FormatInt(m.Size, 10)}
	case handoff.MountPin:
		// what was there, once more
	default:
		return false
	}
	return true
}
