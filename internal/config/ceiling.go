package config

import (
	"path/filepath"
	"slices"
	"strings"
)

// Wider names the first option in which a policy allows more than a ceiling does, or could; "" is none. What can't be compared
// has to be the same. Names of profiles, and what the environment holds, are no matter of it.
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
	return first([]compared{
		{"allow-network", p.All && !c.All || !c.All && adds(p.Allow, c.Allow)},
		{"deny-network", !c.All && adds(c.Deny, p.Deny) || c.All && !p.All && adds(c.Deny, p.Deny)},
		{"allow-port", !c.All && len(c.Ports) > 0 && len(p.Allow) > 0 && (len(p.Ports) == 0 || adds(p.Ports, c.Ports))},
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
		{"mount", slices.ContainsFunc(p.Mounts, func(m Mount) bool { return m.Size == 0 && !slices.Contains(c.Mounts, m) })},
		{"virtual-fs", c.Virtual && !p.Virtual},
		{"temp-dir", p.TempDir && !c.TempDir},
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

func widerRest(p, c *Policy) string {
	allowed := slices.Contains(c.AllowPartial, WordAll) || !adds(p.AllowPartial, c.AllowPartial)
	return first([]compared{
		{"seccomp", p.Seccomp != c.Seccomp && c.Seccomp != "off" && !(p.Seccomp == "strict" && c.Seccomp == "default")},
		{"seccomp-action", p.SeccompAction != c.SeccompAction && p.SeccompAction == "log"},
		{"isolation", p.Isolation != c.Isolation && c.Isolation != "" && c.Isolation != "process"},
		{"user", c.User != nil && (p.User == nil || *p.User != *c.User)},
		{"cgroup-parent", p.CgroupParent != c.CgroupParent},
		{"allow-partial", !allowed},
		{"require", adds(c.Require, p.Require)},
	})
}
