// Package hierarchy says where a process stands in the cgroup hierarchies: it
// reads /proc/self/cgroup and /proc/self/mountinfo, given as text, and nothing
// else. On other systems than Linux it finds none.
package hierarchy

import (
	"path"
	"strings"

	"github.com/confine-run/confine/internal/mounts"
)

// Dir is the directory of one hierarchy that the process is in.
type Dir struct {
	Path        string
	Mount       string   // where the hierarchy is mounted; Path is Mount or below it
	Controllers []string // of v1; v2 says it in a file
	V2          bool
}

// Dirs finds them. A hierarchy that is not mounted, or not above the process,
// has none; nor has any when the mounts can't be read.
func Dirs(cgroup, mountinfo string) (dirs []Dir) {
	all, err := mounts.Parse(mountinfo)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(cgroup) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		list, own, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		for _, m := range all {
			v2 := m.FSType == "cgroup2"
			if v2 != (list == "") || !v2 && (m.FSType != "cgroup" || !has(m.VFSOptions, list)) {
				continue
			}
			below, ok := under(own, m.Root)
			if !ok {
				continue
			}
			d := Dir{Path: path.Join(m.Mountpoint, below), Mount: m.Mountpoint, V2: v2}
			if !v2 {
				d.Controllers = strings.Split(list, ",")
			}
			dirs = append(dirs, d)
			break
		}
	}
	return dirs
}

// has says that the hierarchy of a mount with these options is the one with these controllers.
func has(options, list string) bool {
	for _, c := range strings.Split(list, ",") {
		if !strings.Contains(","+options+",", ","+c+",") {
			return false
		}
	}
	return true
}

// under gives what of own lies below root. A path that leaves the cgroup
// namespace upwards lies nowhere.
func under(own, root string) (string, bool) {
	below := own
	if root != "/" {
		var ok bool
		if below, ok = strings.CutPrefix(own, root); !ok || below != "" && below[0] != '/' {
			return "", false
		}
	}
	return below, below != "/.." && !strings.HasPrefix(below, "/../")
}
