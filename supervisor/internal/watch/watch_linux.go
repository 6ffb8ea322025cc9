package watch

import (
	"errors"
	"fmt"
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
	"github.com/confine-run/confine/supervisor/internal/disk"
	"github.com/confine-run/confine/supervisor/internal/tree"
)

// Watch holds a run to what no kernel mechanism holds it to, and measures it.
// A nil Watch watches nothing.
type Watch struct {
	plan    *plan.Watch
	held    *plan.Held
	dog     *tree.Watchdog // nil: the cgroup sees everything
	tree    *tree.Tree     // the dog's
	group   *cgroup.Group  // nil: there is none
	root    func() (*tree.Tree, error)
	proc    int // the root of the proc inside, or -1
	private places
	ipc     ipcTables
	cores   int
	largest string         // process, when the dog found the limit of memory reached
	trees   *disk.Watchdog // nil: none is writable

	course
	looks looks
	noted
}

// course is how a watch begins and ends.
type course struct {
	begin            *time.Timer // of run
	found            chan Hit
	stop, done       chan struct{}
	metered, weighed chan struct{}
}

// noted is what is seen by several goroutines.
type noted struct {
	mu      sync.Mutex
	targets map[int]bool               // as proc numbers them: it was a task too many; guarded by mu
	early   []int                      // whom the dog killed of others; guarded by mu
	hitSet  map[status.Capability]bool // guarded by mu
	onLimit func(status.Capability)    // guarded by mu

	memoryNow, memoryPeak, tasksPeak int64 // of the cgroup; guarded by mu
}

// head is the start that a target gets: most short ones need no sample at all, and
// the first would compete with them for a core.
const head = 5 * time.Millisecond

// maxEarly bounds whom the dog has killed and nobody was told of: where there are more, a target that is among them
// is one of very many.
const maxEarly = 1 << 16

// unknown is a target that was gone before its number could be told.
const unknown = -1

// Hit is a limit that ends the run; Broken is a watch that can't see any more.
type Hit struct {
	Cause  status.Cause
	Detail string
	Broken error
}

// Inside is what a watch looks at. The descriptors are the watch's.
type Inside struct {
	Init      int            // its number
	Proc      int            // the root of the proc inside, or -1: then the tree is found from the init, in the caller's proc
	Scratch   []int          // private places, for their fill: first the one that most share, or -1
	IPC       []int          // handoff.IPCTables
	Group     *cgroup.Group  // or nil
	Trees     *disk.Watchdog // or nil
	KillTasks bool           // no kernel mechanism holds their number
}

// New makes what watches a run.
func New(p *plan.Plan, in Inside) (*Watch, error) {
	w := &Watch{
		plan: &p.Watch, held: &p.Held, group: in.Group, trees: in.Trees, proc: in.Proc, private: places{fds: in.Scratch}, ipc: ipcTables{fds: in.IPC},
		course: course{found: make(chan Hit, 8), stop: make(chan struct{}), done: make(chan struct{}),
			metered: make(chan struct{}), weighed: make(chan struct{})},
		noted: noted{hitSet: map[status.Capability]bool{}, targets: map[int]bool{}},
		root:  func() (*tree.Tree, error) { return tree.New(in.Proc) },
	}
	if in.Trees != nil && in.Proc >= 0 {
		in.Trees.CountOpen(in.Proc)
	}
	for i := range p.Box.Mounts {
		if m := &p.Box.Mounts[i]; m.Kind == handoff.MountTmpfs {
			w.private.sized = append(w.private.sized, m.Dst) // in this order the child tells of them
		}
	}
	if in.Proc < 0 {
		w.root = func() (*tree.Tree, error) { return tree.NewFromPID(in.Init) }
	}
	if w.cores = len(p.Exec.CPUs); w.cores == 0 {
		w.cores = runtime.NumCPU()
	}
	limits := tree.Limits{CPU: p.Watch.CPU, Memory: p.Watch.Memory, CPUPercent: p.Watch.CPUPercent}
	if p.Held.CPU {
		limits.CPU = 0
	}
	if in.KillTasks {
		limits.Tasks = p.Watch.Tasks
	}
	if in.Group == nil || limits != (tree.Limits{}) {
		if err := w.guard(limits); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

// Start begins to watch soon, or at once if the child waits for that: begun tells it.
func (w *Watch) Start(begun func()) {
	wait := head
	if begun != nil && w.dog != nil {
		wait, w.dog.FirstDelay, w.dog.Begun, begun = 0, head, begun, nil
	}
	w.begin = time.AfterFunc(wait, w.run)
	if begun != nil {
		begun()
	}
}

// Awaited says whether a run can get past a limit before the watchdog's first look, if that is late.
func Awaited(p *plan.Plan) bool { return p.Watch.Memory > 0 || p.Watch.KillTasks && p.Watch.Tasks > 0 }

// guard sets the tree's watchdog on what the cgroup doesn't hold.
func (w *Watch) guard(limits tree.Limits) error {
	t, err := w.root()
	if err != nil {
		return err
	}
	w.tree, w.dog = t, tree.NewWatchdog(t, limits)
	w.dog.Cores = w.cores
	w.dog.Scratch = func() int64 {
		bytes, inodes := w.scratchUsed()
		return bytes + inodes*inodeSize + w.ipc.used()
	}
	w.dog.OnCPU = func(used time.Duration) {
		w.found <- Hit{Cause: status.CauseCPUTree,
			Detail: fmt.Sprintf("CPU time limit of %s reached", w.plan.CPU)}
	}
	w.dog.OnMemory = func(bytes int64, biggest tree.Process) {
		w.largest = biggest.Name
		w.found <- Hit{Cause: status.CauseMemWatch,
			Detail: fmt.Sprintf("%s (pid %d) held the most", biggest.Name, biggest.PID)}
	}
	w.dog.OnTasks = func(int64) { w.note(status.Tasks) }
	w.dog.OnKill = w.killed
	return nil
}

// killed hears of each task too many that the dog killed. A target may be one of
// them before its start has been told here.
func (w *Watch) killed(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, is := w.targets[pid]; is {
		w.targets[pid] = true
	} else if len(w.early) < maxEarly {
		w.early = append(w.early, pid)
	}
}

func (w *Watch) run() {
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
		w.found <- Hit{Broken: err}
	}
}

// weigh watches the trees until the end.
func (w *Watch) weigh() {
	defer close(w.weighed)
	w.trees.OnHit = func(c status.Capability, used int64) {
		w.note(c)
		detail := fmt.Sprintf("disk limit of %d bytes reached: the writable trees grew by more", w.plan.Disk)
		if c == status.Files {
			detail = fmt.Sprintf("limit of %d files reached: there are more new ones in the writable trees", w.plan.Files)
		}
		w.found <- Hit{Cause: status.CauseDisk, Detail: detail}
	}
	if err := w.trees.Run(w.stop); err != nil {
		w.found <- Hit{Broken: err}
	}
}

// Hits tells of limits that end the run.
func (w *Watch) Hits() <-chan Hit {
	if w == nil {
		return nil
	}
	return w.found
}

// Break says that the run can't be held to its limits any more.
func (w *Watch) Break(err error) { w.found <- Hit{Broken: err} }

func (w *Watch) note(c status.Capability) {
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

// Tell says whom to tell about limits, those included that were reached already.
func (w *Watch) Tell(limit func(status.Capability)) {
	if w == nil || limit == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onLimit = limit
	for c := range w.hitSet {
		limit(c)
	}
}

// End stops watching, once the run is over.
func (w *Watch) End() {
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
	w.looks.end()
	w.close()
}

func (w *Watch) close() {
	if w.tree != nil {
		_ = w.tree.Close()
	}
	for _, fd := range slices.Concat([]int{w.proc}, w.private.fds, w.ipc.fds) {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// Started tells which process is a target: by its number inside, which in the
// caller's own pid namespace (shared) is the caller's, too. For want of a proc of the
// inside it takes the caller's number from pidfd, as long as that is there. It gives the number.
func (w *Watch) Started(inside, pidfd int, shared bool) int {
	if w == nil || w.dog == nil {
		return inside
	}
	if w.proc < 0 && !shared {
		if inside = linux.PIDOf(pidfd); inside == 0 {
			return unknown
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.Index(w.early, inside)
	if w.targets[inside] = at >= 0; at >= 0 {
		w.early = slices.Delete(w.early, at, at+1)
	}
	return inside
}

// TooMany says whether a target was killed as a task too many.
func (w *Watch) TooMany(number int) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.targets[number]
}

// Freeze stops everything inside, by a view of its own on the same tree.
func (w *Watch) Freeze() (thaw func()) {
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

// pauses is how often those who make others faster than they are stopped are stopped again.
const pauses = 16

// Alone says whether nobody is inside but the init.
func (w *Watch) Alone() (bool, error) {
	t, err := w.root()
	if err != nil {
		return false, err
	}
	defer t.Close()
	return tree.Alone(t)
}

// Pause gives what stops everybody inside, by a view of its own on the same tree. The dog, which stops and continues by itself,
// waits meanwhile.
func (w *Watch) Pause() (stop func() (resume func(), err error), err error) {
	t, err := w.root()
	if err != nil {
		return nil, err
	}
	return func() (func(), error) {
		release := func() {}
		if w.dog != nil {
			release = w.dog.Hold()
		}
		resume := func() {
			_ = t.Continue()
			_ = t.Close()
			release()
		}
		var err error
		for range pauses {
			if err = t.Stop(); !errors.Is(err, tree.ErrUnsettled) {
				break
			}
		}
		if err != nil {
			resume()
			return nil, err
		}
		return resume, nil
	}, nil
}

// Usage is what was used, as far as samples tell.
func (w *Watch) Usage() tree.Usage {
	if w == nil || w.dog == nil {
		return tree.Usage{}
	}
	return w.dog.Usage()
}

// Memory is what is in use now.
func (w *Watch) Memory() int64 {
	if w == nil || w.group == nil {
		return w.Usage().Memory
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.memoryNow
}

// Load is what the tree uses now: as the cgroup counts, and else by the last sample.
func (w *Watch) Load() status.Load {
	seen := w.Usage()
	l := status.Load{CPUMS: seen.CPU.Milliseconds(), MemoryBytes: seen.Memory, Tasks: seen.Tasks}
	if w == nil || w.group == nil {
		return l
	}
	s := w.group.Stat()
	if s.CPU.Known {
		l.CPUMS = s.CPU.D.Milliseconds()
	}
	if s.Memory.Known {
		l.MemoryBytes = s.Memory.N
	}
	if s.Tasks.Known {
		l.Tasks = s.Tasks.N
	}
	return l
}

// Limits are those that were reached without ending the run. The peak is as the kernel counts.
func (w *Watch) Limits(tasksPeak int64) (hit []status.Capability) {
	if w == nil {
		return nil
	}
	u := w.Usage()
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
