// Package plan is what the planner decides and the supervisor carries out: the
// child's part, the outside's part, and the ledger as it will be if everything
// is confirmed.
//
// It is a leaf: plain data.
package plan

import (
	"time"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/status"
)

// Plan is what will be done for one run, and nothing else needs to be known to
// do it. It is plain data: printable, comparable, made without privilege.
type Plan struct {
	Child handoff.Child // what the inside does
	Watch Watch         // what the outside watches
	Held  Held          // what the run's cgroup holds instead

	// Namespaces are CLONE_NEW* flags. None: the host refuses them, and the
	// ledger says so.
	Namespaces uintptr
	UIDMap     IDMap
	GIDMap     IDMap
	// SeccompKills: a call that the filter refuses ends the target by SIGSYS.
	SeccompKills bool

	Network Network // what Child.Network leads to
	Files   Files   // what is told of files

	// KeepAbsent are protected paths that did not exist when the plan was made,
	// in trees that are writable inside. What appears there is removed again.
	KeepAbsent []string
	// KeepClear are the directories missing on the way there, parents first. What
	// appears there and is no directory is removed, too.
	KeepClear []string

	// Overlays are the trees that the caller has as overlays, in the order of their
	// paths inside; what is changed there is told in the report.
	Overlays []Overlay
	// Keep is the directory in which changes are kept for later. "": they aren't.
	Keep string
	// Protect are paths that aren't taken over from overlays unasked: absolute, or at
	// the end of any.
	Protect []string

	Ledger  map[status.Capability]status.Enforcement
	Notices []string // for the user, each one line, without prefix
}

// IDMap is a map of one id, as in uid_map(5).
type IDMap struct{ Inside, Outside uint32 }

// Watch is what the supervisor holds the run to. Zero means no limit.
type Watch struct {
	Wall  time.Duration
	CPU   time.Duration // whole tree
	Grace time.Duration // between SIGTERM and SIGKILL

	Memory     int64 // bytes of PSS, whole tree
	Tasks      int64 // threads count
	KillTasks  bool  // the kernel doesn't hold Tasks: the watchdog kills what is too much
	CPUPercent int   // of one core, by stopping and continuing
	Output     int64 // bytes per stream
	Disk       int64 // size of the scratch file system, and what Trees may grow by
	Files      int64 // inodes, likewise
	Trees      []Tree
}

// Network is what may be reached through the gateway, in the policy's own words.
type Network struct {
	Allow, Deny    []string
	Ports          []int
	BlockInternal  bool
	Publish        []Publish
	Log            bool  // what was allowed is told with its process
	MaxBytes       int64 // both ways together; 0: no limit
	AnyPort        bool  // some rule is open to every port
	MaxConnections int   // at one time; 0: as many as the gateway takes
	// Supervised: there is no network inside, and the outside makes the calls that say
	// whom to reach.
	Supervised bool
}

// Files is what the listener of the system call filter looks at and lets through.
type Files struct {
	Log   bool // accesses that the rules refuse are told
	Watch bool // all accesses are handed to who asked for them
}

// Any says whether anything is looked at.
func (f Files) Any() bool { return f.Log || f.Watch }

// Publish is a port of the caller's loopback that leads to one inside.
type Publish struct{ Outside, Inside uint16 }

// Tree is a directory or file of the caller's that is writable inside.
type Tree struct {
	Path     string // absolute, without symbolic links
	Dev, Ino uint64 // what it was when it was resolved
}

// Overlay is a tree of the caller's to which nothing is written through.
type Overlay struct {
	Dst      string // inside
	Path     string // absolute, without symbolic links
	Dev, Ino uint64 // what it was when it was resolved
}

// Held are the limits that the kernel holds the run's cgroup to. Zero: not these.
type Held struct {
	Memory     int64 // bytes
	Tasks      int64
	CPUPercent int
	CPU        bool // it counts CPU time, for Watch.CPU
}
