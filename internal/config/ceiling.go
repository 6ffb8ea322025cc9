package config

import (
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/network"
)

// CeilingError is a policy that shows more than a ceiling does. It unwraps to nothing: that it is about the ceiling is what counts.
type CeilingError struct {
	Option string // that shows it; "command": it was found by the command; empty: the ceiling itself can't be told
	Path   string // what it shows, outside
	Err    error
}

func (e *CeilingError) Error() string {
	switch e.Option {
	case "":
		return e.Err.Error()
	case "command":
		return "what is visible for the command is wider than the ceiling allows: " + e.Err.Error()
	case "dir":
		return "dir " + strconv.Quote(e.Path) + " " + e.Err.Error()
	}
	return "the policy's " + e.Option + " is wider than the ceiling allows: " + e.Err.Error()
}

// Wider names the first option in which a policy allows more than a ceiling does, or could; "" is none. What can't be compared
// has to be the same. Names of profiles, and what the environment holds, are no matter of it. Of paths only the words are compared, since
// nothing is resolved: a backend with a ceiling compares what they show.
func (p *Policy) Wider(ceiling *Policy) string {
	for _, part := range []func(p, c *Policy) string{widerLimits, widerNetwork, widerFiles, widerRest} {
		if option := part(p, ceiling); option != "" {
			return option
		}
	}
	return ""
}

// compared is one option, and whether it is wider.
type compared struct {
	option string
	wider  bool
}

func first(all []compared) string {
	for _, c := range all {
		if c.wider {
			return c.option
		}
	}
	return ""
}

// over: a limit of 0 is none.
func over[N ~int | ~int64](limit, most N) bool { return most > 0 && (limit == 0 || limit > most) }

// adds says whether some has what all hasn't.
func adds[T comparable](some, all []T) bool {
	return slices.ContainsFunc(some, func(v T) bool { return !slices.Contains(all, v) })
}

func widerLimits(p, c *Policy) string {
	return first([]compared{
		{"time-limit", over(p.TimeLimit, c.TimeLimit)},
		{"cpu-time", over(p.CPUTime, c.CPUTime)},
		{"memory-limit", over(p.MemoryLimit, c.MemoryLimit)},
		{"cpu-limit", over(p.CPULimit, c.CPULimit)},
		{"cpus", over(p.CPUs, c.CPUs)},
		{"processes", over(p.Processes, c.Processes)},
		{"file-descriptors", over(p.FileDescriptors, c.FileDescriptors)},
		{"disk-limit", over(p.DiskLimit, c.DiskLimit)},
		{"max-file-size", over(p.MaxFileSize, c.MaxFileSize)},
		{"max-files", over(p.MaxFiles, c.MaxFiles)},
		{"output-limit", over(p.OutputLimit, c.OutputLimit)},
		{"grace", p.Grace > c.Grace},
	})
}

func widerNetwork(policy, ceiling *Policy) string {
	p, c := &policy.Network, &ceiling.Network
	allow, deny, ports := network.Wider(p.rules(), c.rules())
	return first([]compared{
		{"allow-network", !c.All && (p.All || allow)},
		{"deny-network", deny},
		{"allow-port", !c.All && ports},
		{"block-internal", c.BlockInternal && !p.BlockInternal},
		{"log-network", c.Log && !p.Log},
		{"max-network-bytes", over(p.MaxBytes, c.MaxBytes)},
		{"max-connections", over(p.MaxConnections, c.MaxConnections)},
		{"publish", adds(p.Publish, c.Publish)},
	})
}

// workdirs are the ways in which the current directory appears, the narrowest first.
var workdirs = []string{"", "none", "ro", "overlay", "rw"}

func widerFiles(policy, ceiling *Policy) string {
	p, c := &policy.Filesystem, &ceiling.Filesystem
	below := func(paths []string, trees ...[]string) bool {
		return !slices.ContainsFunc(paths, func(path string) bool { return !under(path, slices.Concat(trees...)) })
	}
	return first([]compared{
		{"allow-read", !below(p.AllowRead, c.AllowRead, c.AllowWrite)},
		{"allow-write", !below(p.AllowWrite, c.AllowWrite)},
		{"deny", adds(c.Deny, p.Deny)},
		{"workdir", slices.Index(workdirs, p.Workdir) > slices.Index(workdirs, c.Workdir)},
		{"mount", widerMounts(policy, ceiling)},
		{"virtual-fs", c.Virtual && !p.Virtual},
		{"home", p.Home && !c.Home},
		{"etc", p.Etc && !c.Etc},
		{"ephemeral-home", p.EphemeralHome && !c.EphemeralHome},
		{"overlay", !below(p.Overlay, c.Overlay, c.AllowWrite)},
		{"keep", p.Keep && !c.Keep},
		{"rootfs", p.Rootfs != c.Rootfs},
		{"landlock", c.Landlock && !p.Landlock},
		{"protect", adds(c.Protect, p.Protect)},
		{"log-files", c.Log && !p.Log},
	})
}

// widerMounts: a mount is one of the ceiling's. Other places of the run's own are as much as is left of the ceiling's disk limit, since each
// has its size beside the policy's own limit.
func widerMounts(policy, ceiling *Policy) bool {
	most := ceiling.DiskLimit
	room := most - policy.DiskLimit
	for _, m := range policy.Filesystem.Mounts {
		if slices.Contains(ceiling.Filesystem.Mounts, m) {
			continue
		}
		if m.Size <= 0 || most > 0 && m.Size > room {
			return true
		}
		room -= m.Size
	}
	return false
}

// under says whether a path is in one of the trees.
func under(path string, trees []string) bool {
	path = filepath.Clean(path)
	for _, tree := range trees {
		if tree = filepath.Clean(tree); path == tree || tree == "/" || strings.HasPrefix(path, tree+"/") {
			return true
		}
	}
	return false
}

// The narrowest first.
var (
	filters       = []string{"strict", "default", "off"}
	filterActions = []string{"kill", "errno", "log"}
)

func widerRest(p, c *Policy) string {
	allowed := slices.Contains(c.AllowPartial, WordAll) || !adds(p.AllowPartial, c.AllowPartial)
	rank := func(all []string, word string) int { return slices.Index(all, word) }
	named := rank(filters, p.Seccomp) >= 0 && rank(filters, c.Seccomp) >= 0
	acts := rank(filterActions, p.SeccompAction) >= 0 && rank(filterActions, c.SeccompAction) >= 0
	return first([]compared{
		{"seccomp", p.Seccomp != c.Seccomp && !(named && rank(filters, p.Seccomp) < rank(filters, c.Seccomp))},
		{"seccomp-action", p.SeccompAction != c.SeccompAction && !(acts && rank(filterActions, p.SeccompAction) < rank(filterActions, c.SeccompAction))},
		{"isolation", cmp.Or(p.Isolation, "process") != cmp.Or(c.Isolation, "process")},
		{"deterministic", c.Deterministic && !p.Deterministic},
		{"user", (p.User == nil) != (c.User == nil) || p.User != nil && *p.User != *c.User},
		{"cgroup-parent", p.CgroupParent != c.CgroupParent},
		{"allow-partial", !allowed},
		{"require", adds(c.Require, p.Require)},
	})
}
