package confine

import (
	"slices"
	"strings"

	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/denials"
	"github.com/confine-run/confine/supervisor/files"
)

type (
	// Access is what IO.Accesses is told of.
	Access = files.Access
	// Peaks is what IO.Peaks is told of.
	Peaks = files.Peaks
	// PassedCall is what IO.Passed is told of.
	PassedCall = denials.Denial
)

// learningDisk and learningTasks bound what a run can do to the host while it is learned
// from: it may need more than strict gives, and not all that there is.
const (
	learningDisk  = 4 << 30
	learningTasks = 4096
)

// Permissive lifts what the profile says, so that a run under it shows what the command
// needs: it sees whatever the caller may read, and writes to overlays, reaches hosts
// through the gateway, and has no limits but on disk and tasks. What flags, variables and files said
// stays. reads and overlays are directories to show so, beside the current one.
// Command.WatchFiles and WatchCalls hand what it does to IO.
func (r *Resolved) Permissive(reads, overlays []string) {
	p := &r.Policy
	f := &p.Filesystem
	for _, o := range []struct {
		option string
		lift   func()
	}{
		{"time-limit", func() { p.TimeLimit = 0 }},
		{"cpu-time", func() { p.CPUTime = 0 }},
		{"memory-limit", func() { p.MemoryLimit = 0 }},
		{"cpus", func() { p.CPUs = 0 }},
		{"cpu-limit", func() { p.CPULimit = 0 }},
		{"processes", func() { p.Processes = learningTasks }},
		{"file-descriptors", func() { p.FileDescriptors = 0 }},
		{"disk-limit", func() { p.DiskLimit = learningDisk }},
		{"output-limit", func() { p.OutputLimit = 0 }},
		{"allow-network", func() {
			p.Network.Allow, p.Network.BlockInternal = []string{"*", "0.0.0.0/0", "::/0", "localhost"}, false
		}},
		{"workdir", func() { f.Workdir = "overlay" }},
		{"keep", func() { f.Keep = false }},
		{"landlock", func() { f.Landlock = false }},
		{"seccomp", func() { p.Seccomp = profileDefault }},
		{"seccomp-action", func() { p.SeccompAction = "errno" }},
	} {
		if !r.said(o.option) {
			o.lift()
		}
	}
	if p.hasOverlay() {
		r.Notices = slices.DeleteFunc(r.Notices, func(n string) bool { return n == nothingToKeep })
	}
	p.AllowPartial = butOverlays(p.AllowPartial)
	for _, dir := range append([]string{"/"}, reads...) {
		f.AllowRead = with(f.AllowRead, dir)
	}
	for _, dir := range overlays {
		if !slices.Contains(f.AllowRead, dir) && !slices.Contains(f.AllowWrite, dir) {
			f.Overlay = with(f.Overlay, dir)
		}
	}
}

// butOverlays is what may be enforced in part: where there can be no overlays, the run
// would write to the caller's files.
func butOverlays(partial []string) (list []string) {
	if slices.Contains(partial, wordAll) {
		partial = Capabilities()
	}
	for _, c := range partial {
		if c != string(status.Overlay) && c != string(status.Filesystem) {
			list = append(list, c)
		}
	}
	return list
}

// said: by somebody, and not only by a profile.
func (r *Resolved) said(option string) bool {
	said := r.Origins[option]
	if len(said) == 0 {
		return false
	}
	last := said[len(said)-1].Source
	return last != unsaid && !strings.HasPrefix(last, "profile ")
}
