package host

import (
	"path"
	"strings"
)

// cgroupDir is one directory that this process is in.
type cgroupDir struct {
	dir         string
	controllers []string // of v1; v2 says it in a file
	v2          bool
}

// v1Controllers are those that a limit of ours can use.
var v1Controllers = [...]string{"cpu", "cpuacct", "cpuset", "freezer", "memory", "pids"}

// v2Controllers likewise.
var v2Controllers = [...]string{"cpu", "cpuset", "io", "memory", "pids"}

// cgroupDirs finds the directories from /proc/self/cgroup and
// /proc/self/mountinfo. A hierarchy that is not mounted, or not above us, has
// none.
func cgroupDirs(cgroup, mountinfo string) (dirs []cgroupDir) {
	mounts := cgroupMounts(mountinfo)
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
			d := cgroupDir{dir: path.Join(m.point, below), v2: m.v2}
			if !m.v2 {
				d.controllers = strings.Split(list, ",")
			}
			dirs = append(dirs, d)
			break
		}
	}
	return dirs
}

type cgroupMount struct {
	root, point, options string
	v2                   bool
}

// has: the hierarchy of this mount is the one with these controllers.
func (m cgroupMount) has(list string) bool {
	for _, c := range strings.Split(list, ",") {
		if !strings.Contains(","+m.options+",", ","+c+",") {
			return false
		}
	}
	return true
}

// under gives what of own lies below root.
func under(own, root string) (string, bool) {
	if root == "/" {
		return own, true
	}
	below, ok := strings.CutPrefix(own, root)
	return below, ok && (below == "" || below[0] == '/')
}

// cgroupMounts reads proc_pid_mountinfo(5). Cgroup file systems have no blanks
// in their roots and mount points, as far as anybody mounts them.
func cgroupMounts(mountinfo string) (mounts []cgroupMount) {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 6 || len(right) < 3 {
			continue
		}
		if kind := right[0]; kind == "cgroup" || kind == "cgroup2" {
			mounts = append(mounts, cgroupMount{left[3], left[4], right[2], kind == "cgroup2"})
		}
	}
	return mounts
}

// cgroupResults asks for every controller whether a limit could be set with it.
// writable says whether a directory or file can be written; nothing is made.
func cgroupResults(f *Facts, writable func(string) error) (rs []Result) {
	cgroup, ok := f.read("/proc/self/cgroup")
	mountinfo, ok2 := f.read("/proc/self/mountinfo")
	if !ok || !ok2 {
		return []Result{cgroupResult("cgroup2", Unknown, "/proc/self/cgroup is not readable", nil)}
	}
	own := cgroupResult("cgroup2", No, "no cgroup2 file system is mounted", nil)
	v2, v1 := map[string]Result{}, map[string]Result{}
	for _, d := range cgroupDirs(cgroup, mountinfo) {
		if !d.v2 {
			for _, c := range d.controllers {
				v1[c] = cgroupResult("cgroup1:"+c, Yes, d.dir, writable(d.dir))
			}
			continue
		}
		refused := writable(d.dir)
		if refused == nil {
			refused = writable(path.Join(d.dir, "cgroup.procs"))
		}
		own = cgroupResult("cgroup2", Yes, d.dir, refused)
		list, _ := f.read(path.Join(d.dir, "cgroup.controllers"))
		for _, c := range strings.Fields(list) {
			v2[c] = cgroupResult("cgroup2:"+c, Yes, d.dir, refused)
		}
	}
	rs = append(rs, own)
	for _, c := range v2Controllers {
		r, ok := v2[c]
		if !ok {
			r = cgroupResult("cgroup2:"+c, No, "the controller is not given to this cgroup", nil)
		}
		rs = append(rs, r)
	}
	for _, c := range v1Controllers {
		r, ok := v1[c]
		if !ok {
			r = cgroupResult("cgroup1:"+c, No, "no such hierarchy is mounted", nil)
		}
		rs = append(rs, r)
	}
	return rs
}

func cgroupResult(name string, a Answer, detail string, refused error) Result {
	r := Result{Name: name, Means: "limits of whole trees by the kernel", Answer: a, Detail: detail}
	if _, controller, ok := strings.Cut(name, ":"); ok {
		r.Means = "the " + controller + " controller"
	}
	if refused != nil {
		r.Answer = No
		r.Detail = refused.Error()
		r.Errno = errnoOf(refused)
	}
	return r
}
