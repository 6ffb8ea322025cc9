package cgroup

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// control is one controller: how its limit is set, if there is one, and what it
// counts.
type control struct {
	name     Controller
	limit    func(*dir, Limits) error
	files    []reading
	watchOOM func(*dir) *oomWatch
}

// controls1 in v1: the parts of a run that each hierarchy may carry. Where several
// share one, as cpu and cpuacct do, it gets one directory.
var controls1 = []control{
	{Memory, limitMemory1, memoryFiles1, watchOOM1},
	{PIDs, limitPIDs, pidsFiles, nil},
	{CPU, limitCPU1, cpuFiles1, nil},
	{CPUAcct, nil, cpuacctFiles, nil},
	{CPUSet, nil, nil, nil},
}

// controls2 are what a directory of v2 may carry.
var controls2 = []control{
	{Memory, limitMemory, memoryFiles, watchOOM2},
	{PIDs, limitPIDs, pidsFiles, nil},
	{CPU, limitCPU, cpuFiles, nil},
	{IO, nil, ioFiles, nil},
}

// hold is a limit that was asked for, and why the kernel didn't take it.
type hold struct {
	controller Controller
	err        error
}

// reading is a file, and what of it goes into a Stat.
type reading struct {
	name string
	into func(*Stat, []byte)
}

// limitMemory sets memory.max.
//
// Nothing may be swapped out: what was would not be in memory.max any more, and a
// limit that can be passed by half the swap of the host is none.
func limitMemory(d *dir, l Limits) error {
	if err := d.set("memory.max", l.Memory); err != nil {
		return err
	}
	err := d.set("memory.swap.max", 0)
	if err != nil && (!errors.Is(err, unix.ENOENT) || hasSwap()) { // ENOENT: no accounting of swap in this kernel
		return err
	}
	// One that lost a process to the OOM killer is of no use any more.
	return d.set("memory.oom.group", 1)
}

// limitMemory1 is that of v1. It has two limits: memory, and memory with swap.
func limitMemory1(d *dir, l Limits) error {
	if err := d.set("memory.limit_in_bytes", l.Memory); err != nil {
		return err
	}
	err := d.set("memory.memsw.limit_in_bytes", l.Memory)
	if errors.Is(err, unix.ENOENT) { // swapaccount=0
		if err = d.set("memory.swappiness", 0); !hasSwap() {
			return nil
		}
	}
	return err
}

// hasSwap: the host has somewhere to swap to.
func hasSwap() bool {
	var info unix.Sysinfo_t
	return unix.Sysinfo(&info) != nil || info.Totalswap > 0
}

var memoryFiles = []reading{
	{"memory.current", func(s *Stat, b []byte) { s.Memory = count(b) }},
	{"memory.peak", func(s *Stat, b []byte) { s.MemoryPeak = count(b) }}, // Linux 5.19
	{"memory.events", func(s *Stat, b []byte) { s.OOMs, s.OOMKills = field(b, "oom"), field(b, "oom_kill") }},
	{"memory.pressure", func(s *Stat, b []byte) {
		s.Pressure.MemorySome, s.Pressure.MemoryFull = total(b, "some"), total(b, "full")
	}},
}

var memoryFiles1 = []reading{
	{"memory.usage_in_bytes", func(s *Stat, b []byte) { s.Memory = count(b) }},
	{"memory.max_usage_in_bytes", func(s *Stat, b []byte) { s.MemoryPeak = count(b) }},
	{"memory.oom_control", func(s *Stat, b []byte) { s.OOMKills = field(b, "oom_kill") }}, // Linux 4.13
}

// limitPIDs sets pids.max, which v1 and v2 have alike. A fork past it is
// refused with EAGAIN; nothing ends.
func limitPIDs(d *dir, l Limits) error { return d.set("pids.max", l.Tasks) }

var pidsFiles = []reading{
	{"pids.current", func(s *Stat, b []byte) { s.Tasks = count(b) }},
	{"pids.peak", func(s *Stat, b []byte) { s.TasksPeak = count(b) }}, // Linux 6.1
	{"pids.events", func(s *Stat, b []byte) { s.TasksHits = field(b, "max") }},
}

// period of the CPU rate, in microseconds: the kernel's own default. A shorter one
// would stop and start more often, a longer one be felt.
const period = 100_000

// limitCPU sets cpu.max.
func limitCPU(d *dir, l Limits) error {
	if err := d.write("cpu.max", strconv.FormatInt(quota(l), 10)+" "+strconv.Itoa(period)); err != nil {
		return d.failed("cpu.max", err)
	}
	return nil
}

// limitCPU1 is that of v1, in the period that every new cgroup has.
func limitCPU1(d *dir, l Limits) error { return d.set("cpu.cfs_quota_us", quota(l)) }

func quota(l Limits) int64 { return int64(l.CPUPercent) * period / 100 }

// cpu.stat is there without the controller too, and then holds the times only.
var cpuFiles = []reading{
	{"cpu.stat", func(s *Stat, b []byte) {
		s.CPU = span(field(b, "usage_usec"), useconds)
		s.User, s.System = span(field(b, "user_usec"), useconds), span(field(b, "system_usec"), useconds)
		s.Throttled = span(field(b, "throttled_usec"), useconds)
	}},
	{"cpu.pressure", func(s *Stat, b []byte) { s.Pressure.CPUSome = total(b, "some") }},
}

var cpuFiles1 = []reading{
	{"cpu.stat", func(s *Stat, b []byte) { s.Throttled = span(field(b, "throttled_time"), time.Nanosecond) }},
}

// cpuacctFiles: the parts are in ticks of 10 ms, the sum is exact.
var cpuacctFiles = []reading{
	{"cpuacct.usage", func(s *Stat, b []byte) { s.CPU = span(count(b), time.Nanosecond) }},
	{"cpuacct.stat", func(s *Stat, b []byte) {
		s.User, s.System = span(field(b, "user"), tick), span(field(b, "system"), tick)
	}},
}

// tick is USER_HZ, part of the ABI whatever CONFIG_HZ is.
const tick = 10 * time.Millisecond

// fillCPUSet gives a cpuset of v1 what it can have no process without: the memory
// nodes of its parent, and the CPUs that this process may use, since whoever joins
// a cpuset loses the affinity that it had. It makes no scheduling domain.
func (d *dir) fillCPUSet() *Error {
	cpus, err := affinity()
	if err != nil {
		return failed("", "sched_getaffinity", "", err)
	}
	var buf [256]byte
	nodes, err := d.parent.file("cpuset.effective_mems", buf[:])
	if err != nil {
		return failed("", "read", d.parent.path+"/cpuset.effective_mems", err)
	}
	for _, f := range [...]struct{ name, text string }{
		{"cpuset.sched_load_balance", "0"},
		{"cpuset.mems", strings.TrimSuffix(string(nodes), "\n")},
		{"cpuset.cpus", cpus},
	} {
		if err := d.write(f.name, f.text); err != nil {
			return d.failed(f.name, err)
		}
	}
	return nil
}

// affinity is the list of CPUs that this process may use.
func affinity() (string, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return "", err
	}
	var list []byte
	for cpu, left := 0, set.Count(); left > 0; cpu++ {
		if set.IsSet(cpu) {
			list = append(strconv.AppendInt(list, int64(cpu), 10), ',')
			left--
		}
	}
	return strings.TrimSuffix(string(list), ","), nil
}

// ioFiles count what block devices were asked for. There are no limits of ours.
var ioFiles = []reading{
	{"io.stat", func(s *Stat, b []byte) { s.Read, s.Written = sums(b, " rbytes="), sums(b, " wbytes=") }},
	{"io.pressure", func(s *Stat, b []byte) { s.Pressure.IOSome, s.Pressure.IOFull = total(b, "some"), total(b, "full") }},
}
