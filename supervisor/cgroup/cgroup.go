package cgroup

import "time"

// Controller is one of those that a limit or a count of ours comes from. The
// names are the kernel's.
type Controller string

// The controllers. CPUAcct is a controller of v1 only; v2 counts always.
const (
	Memory  Controller = "memory"
	PIDs    Controller = "pids"
	CPU     Controller = "cpu"
	CPUAcct Controller = "cpuacct"
	IO      Controller = "io"
	Freezer Controller = "freezer"
)

// Source is where a run's cgroup came from.
type Source string

// The sources, in the order that they are tried in. SystemdUser and SystemdSystem
// exclude each other.
const (
	CgroupParent   Source = "cgroup_parent"        // named by the user
	SystemdUser    Source = "systemd_user_scope"   // the user's own manager
	SystemdSystem  Source = "systemd_system_scope" // as root
	WritableParent Source = "writable_parent"      // the own directory
	CgroupV1       Source = "cgroup_v1"            // the own directory in each hierarchy of v1
)

// Limits of one run. Zero means none.
type Limits struct {
	Memory     int64 // bytes
	Tasks      int64 // threads count
	CPUPercent int   // of one core; 150 is one and a half
}

// Options say what a run's cgroup is wanted for.
type Options struct {
	Parent string // a directory, from --cgroup-parent; "" to find one
	Limits Limits
	// Anchor gives the pid of the sandbox's init, and blocks until it is there.
	// Only a systemd scope needs it: systemd makes none without a process. Nil or
	// a result of 0 leaves systemd out.
	Anchor func() int
	// Account: usage is wanted, whatever the limits.
	Account bool
	// Freezer: Freeze and Thaw are wanted. In v1 they cost a directory more; v2 has
	// them anyway.
	Freezer bool
}

// wanted are the controllers that a limit or a count needs.
func (o *Options) wanted() (cs []Controller) {
	if o.Limits.Memory > 0 || o.Account {
		cs = append(cs, Memory)
	}
	if o.Limits.Tasks > 0 || o.Account {
		cs = append(cs, PIDs)
	}
	if o.Limits.CPUPercent > 0 {
		cs = append(cs, CPU)
	}
	return cs
}

// limited are the controllers that a limit needs.
func (l *Limits) limited() (cs []Controller) {
	for _, c := range [...]struct {
		name Controller
		set  bool
	}{{Memory, l.Memory > 0}, {PIDs, l.Tasks > 0}, {CPU, l.CPUPercent > 0}} {
		if c.set {
			cs = append(cs, c.name)
		}
	}
	return cs
}

// Offer is what Make would most likely do.
type Offer struct {
	Source      Source
	Version     int
	Path        string // of the directory that the run's would be made in
	Controllers []Controller
	Err         *Error // why there is none; the rest is then zero
}

// Has says whether the controller is on offer.
func (o *Offer) Has(c Controller) bool {
	for _, have := range o.Controllers {
		if have == c {
			return true
		}
	}
	return false
}

// Count is a number that not every kernel gives.
type Count struct {
	N     int64
	Known bool
}

// Span is a time that not every kernel gives.
type Span struct {
	D     time.Duration
	Known bool
}

// Stat is what a run used so far.
type Stat struct {
	CPU, User, System Span
	Throttled         Span  // how long the CPU rate held threads back, summed over CPUs
	ThrottledPeriods  Count // of 100 ms each
	Periods           Count // in which something ran

	Memory, MemoryPeak Count // bytes, page cache included
	Swap               Count // bytes
	MemoryHits         Count // times that memory was wanted past the limit; reclaim may have helped; v2 only
	OOMs               Count // times that nothing helped at the limit; v2 only
	OOMKills           Count // processes killed; by the OOM killer of the host, too

	Tasks, TasksPeak Count // threads
	TasksHits        Count // forks refused

	Read, Written Count // bytes, by block devices; a device on another counts twice

	Pressure Pressure
}

// Pressure is for how long threads waited, v2 only: Some, at least one did;
// Full, all did.
type Pressure struct {
	CPUSome, MemorySome, MemoryFull, IOSome, IOFull Span
}
