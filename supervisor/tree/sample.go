package tree

import (
	"math"
	"time"
)

// Need says what a sample is wanted for.
type Need struct {
	// PSSAbove: PSS is measured when the sum of RSS is above this many bytes.
	PSSAbove int64
	// RushAbove: when more processes than this are there, they are stopped
	// before they are looked at, and the sample says so; Continue wakes them.
	// Zero: never.
	RushAbove int
}

// NoPSS is a PSSAbove that is never reached.
const NoPSS = math.MaxInt64

// Sample is the tree at one moment, PID 1 left out.
type Sample struct {
	At        time.Time
	Processes int   // zombies count
	Tasks     int64 // threads; zombies count, as in the kernel's own limits
	Zombies   int64 // of the tasks

	Rushed bool // somebody was stopped: see Need

	// CPU is what the whole tree ever used, User and System its parts. It
	// never decreases.
	CPU, User, System time.Duration
	// Unreaped is the part of CPU that is known from the ledger only: of
	// processes that disappeared without anybody waiting for them.
	Unreaped time.Duration

	RSS int64 // bytes; shared pages count for each process
	// PSS is in bytes, swap included, and only there when HasPSS.
	PSS    int64
	HasPSS bool
	// Estimated is the number of processes whose PSS could not be read (a
	// program file that its user can't read, for one). Their RSS stands in.
	Estimated int
}

// Memory is the best figure there is: PSS where it was measured, else RSS,
// which is never less.
func (s *Sample) Memory() int64 {
	if s.HasPSS {
		return s.PSS
	}
	return s.RSS
}

// Live is the number of tasks that are no zombies.
func (s *Sample) Live() int64 { return s.Tasks - s.Zombies }

// Process is one process of the tree.
type Process struct {
	PID   int    // as seen inside
	Name  string // its comm, which it chose itself; unprintable bytes are replaced
	Bytes int64  // memory
}

func (p *process) describe() Process {
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
	return Process{PID: int(p.pid), Name: string(name), Bytes: p.memory}
}
