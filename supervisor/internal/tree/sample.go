package tree

import (
	"errors"
	"math"
	"time"
)

// Need says what a sample is wanted for.
type Need struct {
	// PSSAbove: PSS is measured when memory may be above this many bytes
	// (Sample.Bound).
	PSSAbove int64
	// AnewAbove: it is also measured when RSS and all files are above this many,
	// whatever it was when it was last measured. Zero: never.
	AnewAbove int64
	// NoPSSAbove: from here on PSS is left to a sample with everybody stopped, because
	// memory grows while it is measured. Zero: never.
	NoPSSAbove int64
	// Beside: it is measured while nobody waits for it, and a later sample has it.
	Beside bool
	// Scratch is how many bytes are in a tmpfs that is the tree's.
	Scratch int64
	Memfds  Walk
	// StopAbove: when more processes than this are there, they are stopped
	// before they are looked at, and the sample says so; Continue wakes them.
	// Zero: never.
	StopAbove int
}

func (n *Need) wantsPSS(s *Sample) bool {
	if n.NoPSSAbove > 0 && s.Bound > n.NoPSSAbove {
		return false
	}
	return s.Bound > n.PSSAbove || n.AnewAbove > 0 && s.ceiling() > n.AnewAbove
}

// Walk says how to look for memfds.
type Walk int

const (
	NoWalk    Walk = iota // not at all: what was found last stands
	PartWalk              // go on where the last one ended, for a bounded number of descriptors
	WholeWalk             // from the first descriptor to the last
)

// NoPSS is a PSSAbove that is never reached.
const NoPSS = math.MaxInt64

// Times never decrease.
type Times struct {
	CPU, User, System time.Duration // what the whole tree ever used, and its parts
	// Unreaped is the part of CPU that is known from the ledger only: of
	// processes that disappeared without anybody waiting for them.
	Unreaped time.Duration
}

// Sample is the tree at one moment, PID 1 left out.
type Sample struct {
	At        time.Time
	Processes int   // zombies count
	Tasks     int64 // threads; zombies count, as in the kernel's own limits
	Zombies   int64 // of the tasks

	Stopped bool // somebody was stopped: see Need

	Times

	RSS int64 // bytes; shared pages count for each process
	// PSS is in bytes, swap included, and only there when HasPSS.
	PSS    int64
	HasPSS bool
	// PSSShmem is the part of PSS that is shared memory.
	PSSShmem int64
	// Scratch is what Need said; Memfds are the bytes of memfds that somebody in
	// the tree has a descriptor of, mapped or not.
	Scratch, Memfds int64
	// Walked: Memfds is of this moment, because a walk has ended in this sample.
	Walked bool
	// What the walk and measuring PSS took, of CPU.
	walkCost, pssCost time.Duration

	// Bound is what Memory can't be above, as far as one read of stat for each
	// process tells: the sum of RSS and all files, or the memory when PSS was last
	// measured and all that has grown since.
	Bound int64

	// Earlier is a sample from before whose PSS is known by now. It is valid until the next one.
	Earlier *Sample

	// Estimated is the number of processes whose PSS could not be read (a
	// program file that its user can't read, for one). Their RSS stands in.
	Estimated int
}

// Memory is the best figure there is. Where PSS was measured, it is that and
// those files of the scratch file system and of memfds that nobody has mapped: what is mapped
// is in the PSS already. Else it is RSS and all files, which is never less.
func (s *Sample) Memory() int64 {
	if s.HasPSS {
		return s.PSS + max(s.files()-s.PSSShmem, 0)
	}
	return s.ceiling()
}

// files are the bytes in files that are memory.
func (s *Sample) files() int64 { return s.Scratch + s.Memfds }

// ceiling is what Memory can't be above.
func (s *Sample) ceiling() int64 { return s.RSS + s.files() }

// exact: memory is counted, and nothing twice. A memfd that was found earlier
// may have been given back since, and its memory be something else by now.
func (s *Sample) exact() bool { return s.HasPSS && (s.Walked || s.Memfds == 0) }

// Live is the number of tasks that are no zombies.
func (s *Sample) Live() int64 { return s.Tasks - s.Zombies }

// Process is one process of the tree.
type Process struct {
	PID   int    // as seen inside
	Name  string // its comm, which it chose itself; unprintable bytes are replaced
	Bytes int64  // memory
}

func (p *process) describe(memory int64) Process {
	name := make([]byte, 0, len(p.comm))
	for _, c := range p.comm {
		if c == 0 {
			break
		}
		if c < ' ' || c > '~' {
			c = '?'
		}
		name = append(name, c)
	}
	return Process{PID: int(p.pid), Name: string(name), Bytes: memory}
}

// ErrUnsettled says that processes were still appearing, or still running,
// after as many passes as are made.
var ErrUnsettled = errors.New("the process tree did not come to rest")

// Limits are what a run is held to. Zero means no limit.
type Limits struct {
	CPU        time.Duration // user and system time of the whole tree
	Memory     int64         // bytes of the whole tree, as Sample.Memory counts them
	Tasks      int64         // threads that are alive
	CPUPercent int           // of one core, by stopping and continuing
}

// Usage is what a tree used so far.
type Usage struct {
	Times

	// Memory and MemoryPeak are in bytes, as Sample.Memory counts them. Without a
	// limit of memory nobody looks for memfds, and they are left out.
	Memory, MemoryPeak int64
	Tasks, TasksPeak   int64 // zombies left out
	Throttled          time.Duration

	// Estimated: at the peak of memory, RSS stood in for the PSS of some process.
	Estimated bool
}
