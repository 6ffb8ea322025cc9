package cgroup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// limitMemory sets memory.max. The kernel counts in pages and rounds down.
//
// Nothing may be swapped out: what was would not be in memory.max any more, and a
// limit that can be passed by half the swap of the host is none.
func limitMemory(d *dir, bytes int64) hold {
	err := d.setNumber("memory.max", bytes, pages(bytes))
	if err == nil {
		err = d.setNumber("memory.swap.max", 0, 0)
		if errors.Is(err, unix.ENOENT) && !hasSwap() { // no accounting of swap in this kernel
			err = nil
		}
	}
	if err == nil {
		// One that lost a process to the OOM killer is of no use any more.
		err = d.setNumber("memory.oom.group", 1, 1)
	}
	return held("memory.max", err)
}

// limitMemory1 is that of v1. It has two limits: memory, and memory with swap.
func limitMemory1(d *dir, bytes int64) hold {
	err := d.setNumber("memory.limit_in_bytes", bytes, pages(bytes))
	if err == nil {
		err = d.setNumber("memory.memsw.limit_in_bytes", bytes, pages(bytes))
		if errors.Is(err, unix.ENOENT) { // swapaccount=0
			if err = d.setNumber("memory.swappiness", 0, 0); !hasSwap() {
				err = nil
			}
		}
	}
	return held("memory.limit_in_bytes", err)
}

func pages(bytes int64) int64 {
	page := int64(os.Getpagesize())
	return bytes / page * page
}

// hasSwap: the host has somewhere to swap to.
func hasSwap() bool {
	var info unix.Sysinfo_t
	return unix.Sysinfo(&info) != nil || info.Totalswap > 0
}

var memoryFiles = []reading{
	{"memory.current", func(s *Stat, b []byte) { s.Memory = count(b) }},
	{"memory.peak", func(s *Stat, b []byte) { s.MemoryPeak = count(b) }}, // Linux 5.19
	{"memory.swap.current", func(s *Stat, b []byte) { s.Swap = count(b) }},
	{"memory.events", func(s *Stat, b []byte) {
		s.MemoryHits, s.OOMs, s.OOMKills = field(b, "max"), field(b, "oom"), field(b, "oom_kill")
	}},
	{"memory.pressure", func(s *Stat, b []byte) {
		s.Pressure.MemorySome, s.Pressure.MemoryFull = total(b, "some"), total(b, "full")
	}},
}

// memory.failcnt is left out: with a limit on memory and swap together it stays zero, and
// the count of that is zero in some kernels (6.18).
var memoryFiles1 = []reading{
	{"memory.usage_in_bytes", func(s *Stat, b []byte) { s.Memory = count(b) }},
	{"memory.max_usage_in_bytes", func(s *Stat, b []byte) { s.MemoryPeak = count(b) }},
	{"memory.memsw.usage_in_bytes", func(s *Stat, b []byte) { // after memory: it is both
		s.Swap = Count{}
		if both := count(b); both.Known && s.Memory.Known {
			s.Swap = Count{max(both.N-s.Memory.N, 0), true}
		}
	}},
	{"memory.oom_control", func(s *Stat, b []byte) { s.OOMKills = field(b, "oom_kill") }}, // Linux 4.13
}

// KilledForMemory says that the OOM killer has killed in the group, and because of the
// group's own limit: memory.events tells that in v2; in v1 the peak has to be at
// the limit. Without that it was the host, or a cgroup above, that ran out of memory.
func (g *Group) KilledForMemory() bool {
	if _, ok := g.Holds(Memory); !ok {
		return false
	}
	s := g.Stat()
	if g.version == 2 {
		return s.OOMKills.N > 0 && s.OOMs.N > 0
	}
	const huge = 2 << 20 // a page of this size may be what found no room
	return s.OOMKills.N > 0 && s.MemoryPeak.N >= g.memory-huge
}
