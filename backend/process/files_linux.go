package process

import (
	"path"
	"strings"

	"github.com/confine-run/confine/internal/explain"
	"github.com/confine-run/confine/supervisor/files"
)

// operations of calls, as the evaluator has them. Taking a name away is writing to its
// directory.
var operations = map[files.Wish]explain.Op{
	files.Read: explain.Read, files.List: explain.Read, files.Connect: explain.Read,
	files.Write: explain.Write, files.Create: explain.Create, files.Exec: explain.Exec,
	files.Remove: explain.Write,
}

// refuses says whether the rules refuse an access: the evaluator says so, and what the
// target sees there doesn't contradict it. What the run itself has made, the evaluator
// doesn't know of.
func (p *Plan) refuses(a *files.Access) (files.Refusal, bool) {
	op, ok := operations[a.Wish]
	if !ok || !remarkable(a.Path) {
		return files.Refusal{}, false
	}
	name := a.Path
	if a.Wish == files.Remove || a.Wish == files.Create && a.Exists && strings.HasPrefix(a.Call, "rename") {
		if !a.Exists {
			return files.Refusal{}, false
		}
		name, op = path.Dir(a.Path), explain.Write
	}
	s := p.see(name, op)
	if s.Granted || !agrees(a, &s) {
		return files.Refusal{}, false
	}
	r := files.Refusal{Rule: "no rule shows it", Hint: p.hintFor(&s)}
	if s.Rule.Path != "" {
		r.Rule = ruleWords(&s)
	}
	return r, true
}

// agrees says whether the target sees what the evaluator thinks that it does.
func agrees(a *files.Access, s *explain.Decision) bool {
	const anybody = 0o777
	switch s.Reason {
	case explain.Hidden:
		if s.Details == byLandlock {
			return a.Exists || a.Unknown || a.Wish == files.Create
		}
		if a.Wish == files.Create && a.InPlace {
			return false // a place of the run's own
		}
		return !a.Exists || a.Mode&anybody == 0 // masked
	case explain.ReadOnly:
		return a.ReadOnly || s.Details == byLandlock
	}
	return false
}

// unremarkable are files that C libraries and runtimes try at every start, and go on
// without: a program never failed because of them, and a line about each would hide
// those that it did fail because of. A name that ends in a slash is all below it.
var unremarkable = [...]struct{ path, why string }{
	{"/usr/share/locale/locale.alias", "glibc's setlocale; Debian has a link to /etc there"},
	{"/var/run/nscd/socket", "glibc's getpwnam and getaddrinfo ask a cache first"},
	{"/run/nscd/socket", "the same"},
	{"/sys/kernel/mm/transparent_hugepage/", "allocators of Go and Java"},
	{"/sys/kernel/mm/hugepages", "Java's allocator"},
	{"/sys/devices/system/cpu/", "how many there are; sched_getaffinity says it, too"},
	{"/sys/fs/cgroup/", "Node and Java look for limits"},
}

// remarkable says whether a refused file is worth telling.
func remarkable(name string) bool {
	for i := range unremarkable {
		u := &unremarkable[i]
		if name == u.path || strings.HasSuffix(u.path, "/") && strings.HasPrefix(name, u.path) {
			return false
		}
	}
	return true
}
