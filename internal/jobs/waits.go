package jobs

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/confine-run/confine/internal/config"
)

// Need is what a job takes of a worker, and what a worker has.
type Need struct {
	Memory int64 `json:"memory"` // bytes
	CPU    int64 `json:"cpu"`    // percent of one
	Tasks  int64 `json:"tasks"`
}

// NeedOf is what a job takes by its policy: the limits, which it may use up. Without a limit it is all that the worker has.
func NeedOf(p *config.Policy, room Need) Need {
	n := Need{Memory: p.MemoryLimit, CPU: int64(p.CPULimit), Tasks: p.Processes}
	if n.CPU == 0 {
		n.CPU = 100 * int64(max(p.CPUs, 1))
	}
	n.Memory = cmp.Or(n.Memory, room.Memory)
	n.Tasks = cmp.Or(n.Tasks, room.Tasks)
	return n
}

// Fits says whether a worker with so much room can have it, when nothing else runs there.
func (n Need) Fits(room Need) bool {
	return n.Memory <= room.Memory && n.CPU <= room.CPU && n.Tasks <= room.Tasks
}

// Waits is what a job that nobody has begun waits for, as far as workers say what they have. What a worker's own profile and ceiling add to the
// job's policy isn't known here.
type Waits struct {
	Need    Need   `json:"need"` // 0: the worker decides
	Workers int    `json:"workers"`
	Fit     int    `json:"fit"`     // of those, that have so much room, if not now
	Largest Need   `json:"largest"` // room of theirs, each of its own
	Detail  string `json:"detail"`  // the same in words
}

// WaitsOf says what a job waits for, of which these are all workers; nil: its policy says nothing that can be understood.
func WaitsOf(j *Job, all []Named) *Waits {
	need, err := j.needs()
	if err != nil {
		return nil
	}
	w := &Waits{Need: need, Workers: len(all)}
	for i := range all {
		room := all[i].Info.Room
		if need.Fits(room) {
			w.Fit++
		}
		w.Largest = Need{max(w.Largest.Memory, room.Memory), max(w.Largest.CPU, room.CPU), max(w.Largest.Tasks, room.Tasks)}
	}
	switch {
	case w.Workers == 0:
		w.Detail = "it waits for a worker, and there is none at the moment"
	case w.Fit == 0:
		w.Detail = "it waits for a worker with " + w.short() + ", and there is none at the moment"
	default:
		w.Detail = fmt.Sprintf("it waits for its turn; workers that have room for it when nothing else runs: %d", w.Fit)
	}
	return w
}

// needs is what its own policy says that it takes.
func (j *Job) needs() (n Need, err error) {
	settings, err := j.Settings()
	if err != nil {
		return n, err
	}
	r, err := config.Resolve(config.Sources{Dir: "/", Flags: settings})
	if err != nil {
		return n, err
	}
	n = NeedOf(&r.Policy, Need{})
	named := r.IsSet("profile") // else it is the worker's
	if !named && !r.IsSet("memory-limit") {
		n.Memory = 0
	}
	if !named && !r.IsSet("cpu-limit") && !r.IsSet("cpus") {
		n.CPU = 0
	}
	if !named && !r.IsSet("processes") {
		n.Tasks = 0
	}
	return n, nil
}

// short says what it needs, where no worker has it.
func (w *Waits) short() string {
	var all []string
	add := func(need, most int64, what string) {
		if need > most {
			all = append(all, what)
		}
	}
	add(w.Need.Memory, w.Largest.Memory, fmt.Sprintf("%.1fG of memory (the largest has %.1fG)", float64(w.Need.Memory)/(1<<30), float64(w.Largest.Memory)/(1<<30)))
	add(w.Need.CPU, w.Largest.CPU, fmt.Sprintf("%d %% of CPUs (the largest has %d %%)", w.Need.CPU, w.Largest.CPU))
	add(w.Need.Tasks, w.Largest.Tasks, fmt.Sprintf("%d processes (the largest has %d)", w.Need.Tasks, w.Largest.Tasks))
	if len(all) == 0 {
		return "room for all of what it may use at once"
	}
	return strings.Join(all, " and ")
}
