package rootfs

import (
	"slices"

	"github.com/confine-run/confine/internal/mounts"
)

// hostMount is one of the host's mounts.
type hostMount struct {
	id, on   int    // of itself, and of the mount that it is on
	dev      uint32 // as the kernel lists devices of sockets
	root, at string // what of the device is where
	numbered bool   // stat(2) tells the number that the kernel knows a file by
}

// mountTable is what is mounted on the host; later ones lie above earlier ones. nil is not known.
type mountTable []hostMount

// mounts reads the table, once.
func (c *compiler) mounts() mountTable {
	if c.mounted == nil {
		text, err := c.host.ReadFile("/proc/self/mountinfo", 16<<20)
		if err != nil {
			return nil
		}
		c.mounted = parseMounts(text)
	}
	return c.mounted
}

// parseMounts reads proc_pid_mountinfo(5). nil is not known.
func parseMounts(text string) (table mountTable) {
	all, err := mounts.Parse(text)
	if err != nil {
		return nil
	}
	for _, m := range all {
		table = append(table, hostMount{
			id: m.ID, on: m.Parent, dev: uint32(m.Major)<<20 | uint32(m.Minor), root: m.Root, at: m.Mountpoint,
			numbered: slices.Contains(numbered[:], m.FSType),
		})
	}
	return table
}

// numbered are file systems of which stat(2) tells a file's own number; of others it may
// be one that was made for it.
var numbered = [...]string{"tmpfs", "ext4", "ext3", "ext2", "xfs", "btrfs", "overlay", "f2fs"}

// MountedBelow says whether anything is mounted below a canonical path, as far as that can be told.
func MountedBelow(h Host, dir string) bool {
	text, err := h.ReadFile("/proc/self/mountinfo", 16<<20)
	table := parseMounts(text)
	return err != nil || table == nil || len(table.nested(dir)) > 0
}

// covering is the mount that a canonical path lies on, or nil.
func (t mountTable) covering(p string) (m *hostMount) {
	for i := range t {
		if under(p, t[i].at) && (m == nil || len(t[i].at) >= len(m.at)) {
			m = &t[i]
		}
	}
	return m
}

// nested are the mount points below a canonical path, on the mount that it lies on.
func (t mountTable) nested(dir string) (points []string) {
	m := t.covering(dir)
	for i := range t {
		if below(t[i].at, dir) && m != nil && t[i].on == m.id {
			points = append(points, t[i].at)
		}
	}
	slices.Sort(points)
	return slices.Compact(points)
}

// shownDevices are those of trees of which something is shown as itself, and of what is
// mounted in them.
func shownDevices(t mountTable, grants []grant) map[uint32]bool {
	devices := map[uint32]bool{}
	for i := range grants {
		g := &grants[i]
		if g.access != read && g.access != write || !g.src.Mode.IsDir() {
			continue
		}
		if m := t.covering(g.src.Path); m != nil {
			devices[m.dev] = true
		}
		for j := range t {
			if below(t[j].at, g.src.Path) {
				devices[t[j].dev] = true
			}
		}
	}
	return devices
}

// of is what a path on a mount is on its device.
func (m *hostMount) of(at string) string {
	if m == nil {
		return at
	}
	return rebase(at, m.at, m.root)
}

// aliases are other paths of what lies on a mount, by other mounts of the same device.
func (t mountTable) aliases(m *hostMount, at string) (others []string) {
	if m == nil {
		return nil
	}
	of := m.of(at)
	for i := range t {
		o := &t[i]
		if o == m || o.dev != m.dev || !under(of, o.root) {
			continue
		}
		if other := rebase(of, o.root, o.at); other != at {
			others = append(others, other)
		}
	}
	return others
}
