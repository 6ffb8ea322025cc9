package rootfs

import (
	"github.com/confine-run/confine/confine/hostfs"
)

// mounts reads the table, once.
func (c *compiler) mounts() hostfs.Mounts {
	if c.mounted == nil {
		text, err := c.host.ReadFile("/proc/self/mountinfo", 16<<20)
		if err != nil {
			return nil
		}
		c.mounted = hostfs.ParseMounts(text)
	}
	return c.mounted
}

// shownDevices are those of trees of which something is shown as itself, and of what is
// mounted in them.
func shownDevices(t hostfs.Mounts, grants []grant) map[uint32]bool {
	devices := map[uint32]bool{}
	for i := range grants {
		g := &grants[i]
		if g.access != read && g.access != write || !g.src.Mode.IsDir() {
			continue
		}
		if m := t.Covering(g.src.Path); m != nil {
			devices[m.Dev] = true
		}
		for j := range t {
			if hostfs.Below(t[j].At, g.src.Path) {
				devices[t[j].Dev] = true
			}
		}
	}
	return devices
}
