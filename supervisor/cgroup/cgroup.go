package cgroup

import (
	"slices"
	"strings"
	"syscall"
	"time"
)

// Controller is one of those that a limit or a count of ours comes from. The
// names are the kernel's.
type Controller string

// The controllers. CPUAcct is a controller of v1 only; v2 counts always. CPUSet is
// used in v1 only, and only to be shown.
const (
	Memory  Controller = "memory"
	PIDs    Controller = "pids"
	CPU     Controller = "cpu"
	CPUAcct Controller = "cpuacct"
	CPUSet  Controller = "cpuset"
	IO      Controller = "io"
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
}

// wanted says whether a limit or a count needs the controller. Memory and tasks are counted always.
func (l *Limits) wanted(c Controller) bool {
	return c == Memory || c == PIDs || c == CPU && l.CPUPercent > 0
}

// limited says whether a limit needs the controller.
func (l *Limits) limited(c Controller) bool {
	switch c {
	case Memory:
		return l.Memory > 0
	case PIDs:
		return l.Tasks > 0
	case CPU:
		return l.CPUPercent > 0
	}
	return false
}

// Offer is what Make would most likely do.
type Offer struct {
	Source      Source
	Version     int
	Path        string // of the directory that the run's would be made in
	Controllers []Controller
	Views       []View // with the directories that the run's would be made in
	Err         *Error // why there is none; the rest is then zero
}

// View is a directory of the run's cgroup, and where programs look for it.
type View struct {
	Path     string   // outside
	Dev, Ino uint64   // of Path; 0 in an Offer
	At       string   // inside
	Links    []string // in the directory of At, to At
}

// viewRoot is where cgroup file systems are mounted.
const viewRoot = "/sys/fs/cgroup"

// view1 is the one of a hierarchy of v1, named after all controllers that it has. It is ok if runtimes look for it.
func view1(path string, controllers []string) (_ View, ok bool) {
	v := View{Path: path, At: viewRoot + "/" + strings.Join(controllers, ",")}
	if len(controllers) > 1 {
		for _, c := range controllers {
			v.Links = append(v.Links, viewRoot+"/"+c)
		}
	}
	return v, slices.ContainsFunc(controllers, func(c string) bool { return isLookedAt(Controller(c)) })
}

// isLookedAt says whether runtimes look for a controller. The JVM believes none of v1's limits unless it
// finds memory and all of the others.
func isLookedAt(c Controller) bool { return c == Memory || c == CPU || c == CPUAcct || c == CPUSet }

// Has says whether the controller is on offer.
func (o *Offer) Has(c Controller) bool { return slices.Contains(o.Controllers, c) }

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
	Throttled         Span // how long the CPU rate held threads back, summed over CPUs

	Memory, MemoryPeak Count // bytes, page cache included
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

// Kind is why a source gives no cgroup. The set is closed.
type Kind string

// The kinds.
const (
	Absent       Kind = "absent"        // there is no such directory or hierarchy
	NotCgroup    Kind = "not_cgroup"    // it is a directory of something else
	ReadOnly     Kind = "read_only"     // mounted so
	Denied       Kind = "denied"        // not this user's to write
	Managed      Kind = "managed"       // systemd's, and not delegated
	Full         Kind = "full"          // cgroup.max.descendants or cgroup.max.depth
	Occupied     Kind = "occupied"      // processes of others are in it
	NoController Kind = "no_controller" // none of those that are needed
	NoSystemd    Kind = "no_systemd"    // it can't be asked, or refused
	TimedOut     Kind = "timed_out"
	Failed       Kind = "failed" // another errno of the kernel's
)

// Error is why there is no cgroup, or why something can't be done with it.
type Error struct {
	Source Source
	Kind   Kind
	Op     string // the system call, or the method of systemd's
	Path   string
	Errno  syscall.Errno
	Why    string // where Op and Errno don't say it
	// Next is why the source that was tried after this one gave none either.
	Next *Error
}

func (e *Error) Error() string {
	var all []string
	for ; e != nil; e = e.Next {
		all = append(all, e.text())
	}
	return strings.Join(all, "; ")
}

func (e *Error) text() string {
	call, errno := e.Op, ""
	if e.Path != "" {
		call = strings.TrimPrefix(e.Op+` "`+e.Path+`"`, " ")
	}
	if e.Errno != 0 {
		errno = e.Errno.Error()
	}
	parts := []string{string(e.Source), call, errno, e.Why}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// Unwrap gives the errno, and why the next source gave none.
func (e *Error) Unwrap() (errs []error) {
	if e.Errno != 0 {
		errs = append(errs, e.Errno)
	}
	if e.Next != nil {
		errs = append(errs, e.Next)
	}
	return errs
}

// and appends what came after.
func (e *Error) and(next *Error) *Error {
	if e == nil {
		return next
	}
	last := e
	for last.Next != nil {
		last = last.Next
	}
	last.Next = next
	return e
}

// kindOf classifies what the kernel says when a cgroup is made or changed.
func kindOf(errno syscall.Errno) Kind {
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR:
		return Absent
	case syscall.EROFS:
		return ReadOnly
	case syscall.EACCES, syscall.EPERM:
		return Denied
	case syscall.EAGAIN:
		return Full
	case syscall.EBUSY:
		return Occupied
	case syscall.ETIMEDOUT:
		return TimedOut
	}
	return Failed
}
