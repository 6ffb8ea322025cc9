package supervisor

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/cgroup"
	"github.com/confine-run/confine/supervisor/disk"
	"github.com/confine-run/confine/supervisor/tree"
)

// watch holds the run to what no kernel mechanism holds it to, and measures it.
// A nil watch watches nothing.
type watch struct {
	plan    *plan.Watch
	held    *plan.Held
	dog     *tree.Watchdog // nil: the cgroup sees everything
	tree    *tree.Tree     // the dog's
	group   *cgroup.Group  // nil: there is none
	root    func() (*tree.Tree, error)
	proc    int      // the root of the proc inside, or -1
	scratch []int    // private places, for their fill: first the one that most share, or -1
	sized   []string // where the others are inside
	full    []string // those of them that were full at the end
	cores   int

	begin *time.Timer // of run
	found chan hit
	stop  chan struct{}
	done  chan struct{}

	trees            *disk.Watchdog // nil: none is writable
	metered, weighed chan struct{}

	mu                               sync.Mutex
	target                           int                        // as proc numbers it, 0 until that is known; guarded by mu
	early                            []int                      // whom the dog killed until then; guarded by mu
	targetKilled                     bool                       // it was a task too many; guarded by mu
	hitSet                           map[status.Capability]bool // guarded by mu
	onLimit                          func(status.Capability)    // guarded by mu
	memoryNow, memoryPeak, tasksPeak int64                      // of the cgroup; guarded by mu
}

// head is the start that a target gets: most short ones need no sample at all, and
// the first would compete with them for a core.
const head = 5 * time.Millisecond

// unknown is a target that was gone before its number could be told.
const unknown = -1

// settled is when a run is no short one, and little is done for it any more.
const settled = 500 * time.Millisecond

// settle gives back the memory that only starting took.
func settle() {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil && bytes.Contains(status, []byte("\nTracerPid:\t0\n")) {
		linux.ForgetProgram()
		return
	}
	linux.ForgetData() // a debugger may have written into the program
}

// hit is a limit that ends the run; broken is a watch that can't see any more.
type hit struct {
	cause  status.Cause
	detail string
	broken error
}

// newWatch begins to watch. proc is the root of the proc inside, or -1: then
// the tree is found from pid, the init, in the caller's proc. The descriptors
// are the watch's from then on. killTasks: no kernel mechanism holds their number.
func newWatch(p *plan.Plan, group *cgroup.Group, trees *disk.Watchdog, killTasks bool, proc int, scratch []int, pid int) (*watch, error) {
	w := &watch{
		plan: &p.Watch, held: &p.Held, group: group, trees: trees, proc: proc, scratch: scratch,
		found: make(chan hit, 8), stop: make(chan struct{}), done: make(chan struct{}),
		metered: make(chan struct{}), weighed: make(chan struct{}),
		hitSet: map[status.Capability]bool{},
		root:   func() (*tree.Tree, error) { return tree.New(proc) },
	}
	for i := range p.Child.Mounts {
		if m := &p.Child.Mounts[i]; m.Kind == handoff.MountTmpfs {
			w.sized = append(w.sized, m.Dst) // in this order the child tells of them
		}
	}
	if proc < 0 {
		w.root = func() (*tree.Tree, error) { return tree.NewFromPID(pid) }
	}
	if w.cores = len(p.Child.CPUs); w.cores == 0 {
		w.cores = runtime.NumCPU()
	}
	limits := tree.Limits{CPU: p.Watch.CPU, Memory: p.Watch.Memory, CPUPercent: p.Watch.CPUPercent}
	if p.Held.CPU {
		limits.CPU = 0
	}
	if killTasks {
		limits.Tasks = p.Watch.Tasks
	}
	if group == nil || limits != (tree.Limits{}) {
		if err := w.guard(limits); err != nil {
			w.close()
			return nil, err
		}
	}
	w.begin = time.AfterFunc(head, w.run)
	return w, nil
}

// guard sets the tree's watchdog on what the cgroup doesn't hold.
func (w *watch) guard(limits tree.Limits) error {
	t, err := w.root()
	if err != nil {
		return err
	}
	w.tree, w.dog = t, tree.NewWatchdog(t, limits)
	w.dog.Cores = w.cores
	w.dog.Scratch = w.scratchUsed
	w.dog.OnCPU = func(used time.Duration) {
		w.found <- hit{cause: status.CauseCPUTree,
			detail: fmt.Sprintf("CPU time limit of %s reached", w.plan.CPU)}
	}
	w.dog.OnMemory = func(bytes int64, biggest tree.Process) {
		w.found <- hit{cause: status.CauseMemWatch,
			detail: fmt.Sprintf("memory limit of %d bytes reached: %s (pid %d) held the most", w.plan.Memory, biggest.Name, biggest.PID)}
	}
	w.dog.OnTasks = func(int64) { w.note(status.Tasks) }
	w.dog.OnKill = w.killed
	return nil
}

// killed hears of each task too many that the dog killed. The target may be one of
// them before its start has been told here.
func (w *watch) killed(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.target == 0 {
		w.early = append(w.early, pid)
		return
	}
	w.targetKilled = w.targetKilled || pid == w.target
}

func (w *watch) run() {
	defer close(w.done)
	if w.group != nil {
		go w.meter()
	} else {
		close(w.metered)
	}
	if w.trees != nil {
		go w.weigh()
	} else {
		close(w.weighed)
	}
	if w.dog == nil {
		return
	}
	if err := w.dog.Run(w.stop); err != nil {
		w.found <- hit{broken: err}
	}
}

// hits tells of limits that end the run.
func (w *watch) hits() <-chan hit {
	if w == nil {
		return nil
	}
	return w.found
}

func (w *watch) note(c status.Capability) {
	w.mu.Lock()
	tell := w.onLimit
	if w.hitSet[c] {
		tell = nil
	}
	w.hitSet[c] = true
	w.mu.Unlock()
	if tell != nil {
		tell(c)
	}
}

// end stops watching, once the run is over.
func (w *watch) end() {
	if w == nil {
		return
	}
	if !w.begin.Stop() {
		close(w.stop)
		<-w.done
		<-w.metered
		<-w.weighed
	}
	w.fill()
	w.close()
}

func (w *watch) close() {
	if w.tree != nil {
		_ = w.tree.Close()
	}
	for _, fd := range append([]int{w.proc}, w.scratch...) {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// started tells which process is the target: by its number inside, which in the
// caller's own pid namespace (shared) is the caller's, too. For want of a proc of the
// inside it takes the caller's number from pidfd, as long as that is there.
func (w *watch) started(inside, pidfd int, shared bool) {
	if w == nil || w.dog == nil {
		return
	}
	if w.proc < 0 && !shared {
		if inside = pidOf(pidfd); inside == 0 {
			inside = unknown
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.target = inside
	w.targetKilled, w.early = slices.Contains(w.early, inside), nil
}

// tooMany says whether the target itself was killed as a task too many.
func (w *watch) tooMany() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.targetKilled
}

// scratchUsed is what is in private places, which is memory. Whoever asks while the run
// goes on also finds out what is full then, and may be emptied before the end.
func (w *watch) scratchUsed() (used int64) {
	w.places(func(_ int, fs *unix.Statfs_t) { used += int64(fs.Blocks-fs.Bfree) * fs.Bsize })
	return used
}

// fill looks what is full at the end. Private places outlive the run's namespace for as long as
// we hold them.
func (w *watch) fill() {
	w.places(func(i int, fs *unix.Statfs_t) {
		if i > 0 && i <= len(w.sized) && fs.Blocks > 0 && fs.Bfree == 0 {
			w.full = append(w.full, w.sized[i-1])
		}
	})
}

// places looks at every private place, and notes the limits that are reached there.
func (w *watch) places(see func(i int, fs *unix.Statfs_t)) {
	for i, fd := range w.scratch {
		var fs unix.Statfs_t
		if fd < 0 || unix.Fstatfs(fd, &fs) != nil {
			continue
		}
		switch full := fs.Blocks > 0 && fs.Bfree == 0; {
		case full && i == 0 && w.plan.Disk > 0:
			w.note(status.Disk)
		case full && i > 0 && i <= len(w.sized):
			w.note(status.MountSize)
		}
		if w.plan.Files > 0 && fs.Files > 0 && fs.Ffree == 0 {
			w.note(status.Files)
		}
		see(i, &fs)
	}
}

// fullMounts are the places of a size of their own that were full when the watch ended.
func (w *watch) fullMounts() []string {
	if w == nil {
		return nil
	}
	return w.full
}

// freeze stops everything inside, by a view of its own on the same tree.
func (w *watch) freeze() (thaw func()) {
	if w == nil {
		return func() {}
	}
	t, err := w.root()
	if err != nil {
		return func() {}
	}
	_ = t.Stop() // as far as it goes
	return func() {
		_ = t.Continue()
		_ = t.Close()
	}
}

// usage is what was used, as far as samples tell.
func (w *watch) usage() tree.Usage {
	if w == nil || w.dog == nil {
		return tree.Usage{}
	}
	return w.dog.Usage()
}

// memory is what is in use now.
func (w *watch) memory() int64 {
	if w == nil || w.group == nil {
		return w.usage().Memory
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.memoryNow
}

// limits are those that were reached without ending the run. The peak is as the kernel counts.
func (w *watch) limits(tasksPeak int64) (hit []status.Capability) {
	if w == nil {
		return nil
	}
	u := w.usage()
	if u.Throttled > 0 {
		w.note(status.CPURate)
	}
	if w.plan.Tasks > 0 && tasksPeak >= w.plan.Tasks {
		w.note(status.Tasks)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.hitSet {
		hit = append(hit, c)
	}
	return hit
}
