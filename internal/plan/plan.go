// Package plan is what the planner decides and the supervisor carries out: the
// child's part, the outside's part, and the ledger as it will be if everything
// is confirmed.
//
// It is plain data, and knows of nothing but data.
package plan

import (
	"strings"
	"time"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/network"
)

// Plan is what will be done for one run, and nothing else needs to be known to
// do it. It is plain data: printable, comparable, made without privilege.
type Plan struct {
	Box    handoff.Box    // what the inside builds
	Bounds handoff.Bounds // what of it depends on the cgroup
	Exec   handoff.Exec   // and what it starts there
	Watch  Watch          // what the outside watches
	Held   Held           // what the run's cgroup holds instead

	// Namespaces are CLONE_NEW* flags. None: the host refuses them, and the
	// ledger says so.
	Namespaces uintptr
	UIDMap     IDMap
	GIDMap     IDMap
	// Began is since when the caller's trees are what is below its overlays, where that is earlier than it itself; zero: since it begins.
	Began time.Time
	// SeccompKills: a call that the filter refuses ends the target by SIGSYS.
	SeccompKills bool

	Network Network // what Box.Network leads to
	Files   Files   // what is told of files

	Guarded

	// Overlays are the trees that the caller has as overlays, in the order of their
	// paths inside; what is changed there is told in the report.
	Overlays []Overlay
	// Keep is the directory in which changes are kept for later. "": they aren't.
	Keep string
	// Protect are paths that aren't taken over from overlays unasked: absolute, or at
	// the end of any.
	Protect []string

	Ledger  Ledger
	Notices []hint.Notice // for the user, each one line, without prefix
}

// Guarded is what is held to its place, or looked at again, when the run is over.
type Guarded struct {
	// KeepAbsent are protected paths that did not exist when the plan was made,
	// in trees that are writable inside. What appears there is removed again.
	KeepAbsent []string
	// KeepClear are the directories missing on the way there, parents first. What
	// appears there and is no directory is removed, too.
	KeepClear []string

	// Hidden are paths inside at which something is hidden that would be seen again if somebody
	// outside replaced it. Not sockets: those bound later aren't hidden either.
	Hidden []string
	// Covered are protected paths that were there when the plan was made, and directories on the
	// way to them. A mount covers the file that is at a path, and not its name: whatever takes
	// its place during the run gets another name afterwards.
	Covered []Covered

	// GitIndexes are those that the target can write, and that could be read. No gitlink that
	// it adds may lead git to a repository.
	GitIndexes []GitIndex
	// Places are the caller's directories that the target can write to, and those in them
	// that it can't: for what is found out only after the run.
	Places []Place
}

// IDMap is a map of one id, as in uid_map(5).
type IDMap struct{ Inside, Outside uint32 }

// Watch is what the supervisor holds the run to. Zero means no limit.
type Watch struct {
	Wall  time.Duration
	CPU   time.Duration // whole tree
	Grace time.Duration // between SIGTERM and SIGKILL

	Memory    int64 // bytes of PSS, whole tree
	Tasks     int64 // threads count
	KillTasks bool  // the kernel doesn't hold Tasks: the watchdog kills what is too much
	// Descriptors is RLIMIT_NOFILE, which the kernel holds and tells nobody of; 0: the
	// caller's own is lower.
	Descriptors int64
	CPUPercent  int   // of one core, by stopping and continuing
	Output      int64 // bytes per stream
	Disk        int64 // size of the scratch file system, and what Trees may grow by
	Files       int64 // inodes, likewise
	Trees       []Tree
}

// Network is what may be reached through the gateway.
type Network struct {
	Rules          network.Rules
	Publish        []Publish
	Log            bool  // what was allowed is told with its process
	MaxBytes       int64 // both ways together; 0: no limit
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

// Covered is a file or directory of the caller's.
type Covered struct {
	Path     string // absolute; no symbolic link on the way
	Dev, Ino uint64 // 0: a directory, whichever
	Born     int64  // when it was made, for numbers are used again; 0: that can't be told
}

// GitIndex is the index of a work tree.
type GitIndex struct {
	Tree string // absolute, without symbolic links, as Dir
	Dir  string // the git directory that has the index
	// Common is the one that it has everything else in common with; mostly the same.
	Common string
	Hash   int // size of object names
	// When the plan was made: the tree was a repository's, and the index named these.
	Repository bool
	Gitlinks   []string
}

// Place is a directory or file of the caller's.
type Place struct {
	Path     string // absolute, without symbolic links
	Writable bool   // to the target, with what is below, unless a longer Path says otherwise
}

// Writable says whether the target could write to a path, which is clean and absolute. Of a tree that is shown
// twice, the one that can be written to counts.
func Writable(places []Place, path string) bool {
	longest, writable := -1, false
	for i := range places {
		p := &places[i]
		if rest, ok := strings.CutPrefix(path, p.Path); !ok || len(p.Path) < longest || rest != "" && rest[0] != '/' && p.Path != "/" {
			continue
		}
		writable = p.Writable || writable && len(p.Path) == longest
		longest = len(p.Path)
	}
	return writable
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
