package host

import (
	"errors"
	"path"
	"strings"

	"github.com/confine-run/confine/internal/hierarchy"
)

// v1Controllers are those that a limit of ours can use.
var v1Controllers = [...]string{"cpu", "cpuacct", "cpuset", "freezer", "memory", "pids"}

// v2Controllers likewise.
var v2Controllers = [...]string{"cpu", "cpuset", "io", "memory", "pids"}

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
	for _, d := range hierarchy.Dirs(cgroup, mountinfo) {
		if !d.V2 {
			for _, c := range d.Controllers {
				v1[c] = cgroupResult("cgroup1:"+c, Yes, d.Path, writable(d.Path))
			}
			continue
		}
		refused := writable(d.Path)
		if refused == nil {
			refused = writable(path.Join(d.Path, "cgroup.procs"))
		}
		own = cgroupResult("cgroup2", Yes, d.Path, refused)
		list, _ := f.read(path.Join(d.Path, "cgroup.controllers"))
		for _, c := range strings.Fields(list) {
			v2[c] = cgroupResult("cgroup2:"+c, Yes, d.Path, refused)
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
		errors.As(refused, &r.Errno)
	}
	return r
}
