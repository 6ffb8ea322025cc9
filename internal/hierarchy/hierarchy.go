// Package hierarchy says where a process stands in the cgroup hierarchies: it
// reads /proc/self/cgroup and /proc/self/mountinfo, given as text, and nothing
// else. It is a leaf, the same on every operating system.
package hierarchy

import (
	"path"
	"strings"
)

// Dir is the directory of one hierarchy that the process is in.
type Dir struct {
	Path        string
	Mount       string   // where the hierarchy is mounted; Path is Mount or below it
	Controllers []string // of v1; v2 says it in a file
	V2          bool
}

// Dirs finds them. A hierarchy that is not mounted, or not above the process,
// has none.
func Dirs(cgroup, mountinfo string) (dirs []Dir) {
	mounts := mounts(mountinfo)
	for line := range strings.Lines(cgroup) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		list, own, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		for _, m := range mounts {
			if m.v2 != (list == "") || !m.v2 && !m.has(list) {
				continue
			}
			below, ok := under(own, m.root)
			if !ok {
				continue
			}
			d := Dir{Path: path.Join(m.point, below), Mount: m.point, V2: m.v2}
			if !m.v2 {
				d.Controllers = strings.Split(list, ",")
			}
			dirs = append(dirs, d)
			break
		}
	}
	return dirs
}

type mount struct {
	root, point, options string
	v2                   bool
}

// has: the hierarchy of this mount is the one with these controllers.
func (m mount) has(list string) bool {
	for _, c := range strings.Split(list, ",") {
		if !strings.Contains(","+m.options+",", ","+c+",") {
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

// mounts reads proc_pid_mountinfo(5). Cgroup file systems have no blanks in
// their roots and mount points, as far as anybody mounts them.
func mounts(mountinfo string) (all []mount) {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		if !ok || !strings.HasPrefix(after, "cgroup") { // most lines, and spares splitting them
			continue
		}
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 6 || len(right) < 3 {
			continue
		}
		if kind := right[0]; kind == "cgroup" || kind == "cgroup2" {
			all = append(all, mount{left[3], left[4], right[2], kind == "cgroup2"})
		}
	}
	return all
}
