package hostfs

import (
	"slices"

	"github.com/confine-run/confine/internal/mounts"
)

// Mount is one of the host's mounts.
type Mount struct {
	ID, On   int    // of itself, and of the mount that it is on
	Dev      uint32 // as the kernel lists devices of sockets
	Root, At string // what of the device is where
	Numbered bool   // stat(2) tells the number that the kernel knows a file by
}

// Mounts is what is mounted on the host; later ones lie above earlier ones. nil is not known.
type Mounts []Mount

// ParseMounts reads proc_pid_mountinfo(5). nil is not known.
func ParseMounts(text string) (table Mounts) {
	all, err := mounts.Parse(text)
	if err != nil {
		return nil
	}
	for _, m := range all {
		table = append(table, Mount{
			ID: m.ID, On: m.Parent, Dev: uint32(m.Major)<<20 | uint32(m.Minor), Root: m.Root, At: m.Mountpoint,
			Numbered: slices.Contains(numbered[:], m.FSType),
		})
	}
	return table
}

// numbered are file systems of which stat(2) tells a file's own number; of others it may
// be one that was made for it.
var numbered = [...]string{"tmpfs", "ext4", "ext3", "ext2", "xfs", "btrfs", "overlay", "f2fs"}

// ReadMounts is what is mounted on a host; nil is not known.
func ReadMounts(h Host) Mounts {
	text, err := h.ReadFile("/proc/self/mountinfo", 16<<20)
	if err != nil {
		return nil
	}
	return ParseMounts(text)
}

// MountedBelow says whether anything is mounted below a canonical path, as far as that can be told.
func MountedBelow(h Host, dir string) bool {
	table := ReadMounts(h)
	return table == nil || len(table.Nested(dir)) > 0
}

// Covering is the mount that a canonical path lies on, or nil.
func (t Mounts) Covering(p string) (m *Mount) {
	for i := range t {
		if Under(p, t[i].At) && (m == nil || len(t[i].At) >= len(m.At)) {
			m = &t[i]
		}
	}
	return m
}

// Nested are the mount points below a canonical path, on the mount that it lies on.
func (t Mounts) Nested(dir string) (points []string) {
	m := t.Covering(dir)
	for i := range t {
		if Below(t[i].At, dir) && m != nil && t[i].On == m.ID {
			points = append(points, t[i].At)
		}
	}
	slices.Sort(points)
	return slices.Compact(points)
}

// Of is what a path on a mount is on its device.
func (m *Mount) Of(at string) string {
	if m == nil {
		return at
	}
	return Rebase(at, m.At, m.Root)
}

// Aliases are other paths of what lies on a mount, by other mounts of the same device.
func (t Mounts) Aliases(m *Mount, at string) (others []string) {
	if m == nil {
		return nil
	}
	of := m.Of(at)
	for i := range t {
		o := &t[i]
		if o == m || o.Dev != m.Dev || !Under(of, o.Root) {
			continue
		}
		if other := Rebase(of, o.Root, o.At); other != at {
			others = append(others, other)
		}
	}
	return others
}

// Point says whether something is mounted at a path.
func (t Mounts) Point(at string) bool {
	return slices.ContainsFunc(t, func(m Mount) bool { return m.At == at })
}
