package selftest

import (
	"time"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// tightTime is a wall clock limit that nothing can hold by accident.
const tightTime = 300 * time.Millisecond

// limits: each is made small enough for the attempt to be harmless without it.
func limits() []attempt {
	return []attempt{
		{name: "memory", invariant: 3, walls: walls(status.Memory), limit: true, tries: "uses twice the memory that it may",
			inside: "alloc 128 8", outside: "alloc 128 0", ends: []status.Status{status.MemLimit},
			policy: func(p *config.Policy, _ values) { p.MemoryLimit = 64 << 20 }},
		{name: "memory_tree", invariant: 3, walls: walls(status.Memory), limit: true, tries: "the same, in three processes",
			inside: "allocs 3 44 8", outside: "allocs 3 44 0", ends: []status.Status{status.MemLimit},
			policy: func(p *config.Policy, _ values) { p.MemoryLimit, p.Processes = 64<<20, 0 }},
		{name: "tasks", invariant: 3, walls: walls(status.Tasks), limit: true, tries: "starts more processes than it may",
			inside: "lived 10 1", policy: func(p *config.Policy, _ values) { p.Processes = 20 }},
		{name: "wall_time", invariant: 3, walls: walls(status.WallTime), limit: true, tries: "runs longer than it may, deaf to signals",
			inside: "deaf 2", outside: "deaf 1", ends: []status.Status{status.Timeout},
			policy: func(p *config.Policy, _ values) { p.TimeLimit, p.Grace = tightTime, tightTime }},
		{name: "cpu_time", invariant: 3, walls: walls(status.CPUTime), limit: true, tries: "uses more CPU time than it may, a little in each of many processes",
			inside: "spins 20 100", outside: "spins 2 100", ends: []status.Status{status.CPULimit},
			policy: func(p *config.Policy, _ values) { p.CPUTime, p.CPULimit = 300*time.Millisecond, 0 }},
		{name: "open_files", invariant: 3, walls: walls(status.FileDescriptors), limit: true, tries: "opens more files than it may",
			inside: "open 200", policy: func(p *config.Policy, _ values) { p.FileDescriptors = 64 }},
		{name: "file_size", invariant: 3, walls: walls(status.FileSize), limit: true, tries: "writes a file larger than it may",
			inside: "fill {tmp}/large 4194304", policy: func(p *config.Policy, _ values) { p.MaxFileSize = 1 << 20 }, skip: noTemp},
		{name: "disk", invariant: 3, walls: walls(status.Disk), limit: true, tries: "fills its temporary directory",
			inside: "fill {tmp}/full 33554432", policy: func(p *config.Policy, _ values) { p.DiskLimit, p.MaxFileSize = 8<<20, 0 }, skip: noTemp},
		{name: "files", invariant: 3, walls: walls(status.Files), limit: true, tries: "makes more files than it may",
			inside: "files {tmp} 150", policy: func(p *config.Policy, _ values) { p.MaxFiles = 75 }, skip: noTemp},
		{name: "output", invariant: 3, walls: walls(status.Output), limit: true, tries: "writes more to its output than it may",
			inside: "put 1 2000000", special: (*driver).flooded,
			policy: func(p *config.Policy, _ values) { p.OutputLimit = 64 << 10 }},
	}
}

func noTemp(p *config.Policy, _ values) string {
	if !p.Filesystem.TempDir {
		return "the policy gives it no temporary directory"
	}
	return ""
}
