package cli

import (
	"strconv"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/status"
)

// limit is how one limit is spoken of.
type limit struct {
	capability status.Capability
	option     string
	what       string
	value      func(*confine.Policy) string // empty: none
}

// limits is in the order of the summary.
var limits = [...]limit{
	{status.WallTime, "time-limit", "wall-clock time", func(p *confine.Policy) string { return duration(p.TimeLimit) }},
	{status.CPUTime, "cpu-time", "CPU time", func(p *confine.Policy) string { return duration(p.CPUTime) }},
	{status.Memory, "memory-limit", "memory", func(p *confine.Policy) string { return size(p.MemoryLimit) }},
	{status.CPURate, "cpu-limit", "CPU rate", func(p *confine.Policy) string {
		if p.CPULimit == 0 {
			return ""
		}
		return strconv.Itoa(p.CPULimit) + "% of a core"
	}},
	{status.CPUs, "cpus", "cores", func(p *confine.Policy) string { return count(int64(p.CPUs)) }},
	{status.Tasks, "processes", "tasks", func(p *confine.Policy) string { return count(p.Processes) }},
	{status.FileDescriptors, "file-descriptors", "open files per process", func(p *confine.Policy) string { return count(p.FileDescriptors) }},
	{status.Disk, "disk-limit", "disk", func(p *confine.Policy) string { return size(p.DiskLimit) }},
	{status.FileSize, "max-file-size", "bytes in one file", func(p *confine.Policy) string { return size(p.MaxFileSize) }},
	{status.Files, "max-files", "files", func(p *confine.Policy) string { return count(p.MaxFiles) }},
	{status.Output, "output-limit", "output per stream", func(p *confine.Policy) string { return size(p.OutputLimit) }},
}

// ends: reaching the limit is what ended the run, and was said already.
func (l *limit) ends(s status.Status) bool {
	switch l.capability {
	case status.WallTime:
		return s == status.Timeout
	case status.CPUTime:
		return s == status.CPULimit
	case status.Memory:
		return s == status.MemLimit
	}
	return false
}
