package supervisor

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/cgroup"
	"github.com/confine-run/confine/supervisor/internal/disk"
	"github.com/confine-run/confine/supervisor/internal/tree"
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
	proc    int   // the root of the proc inside, or -1
	scratch []int // private places, for their fill: first the one that most share, or -1
	ipc     ipcTables
	sized   []string // where the others are inside
	full    []string // those of them that were full at the end
	cores   int
	largest string // process, when the dog found the limit of memory reached

	begin *time.Timer // of run
	found chan hit
	stop  chan struct{}
	done  chan struct{}

	trees            *disk.Watchdog // nil: none is writable
	metered, weighed chan struct{}

	looks looks

	mu                               sync.Mutex
	targets                          map[int]bool               // as proc numbers them: it was a task too many; guarded by mu
	early                            []int                      // whom the dog killed of others; guarded by mu
	hitSet                           map[status.Capability]bool // guarded by mu
	onLimit                          func(status.Capability)    // guarded by mu
	memoryNow, memoryPeak, tasksPeak int64                      // of the cgroup; guarded by mu
}

// head is the start that a target gets: most short ones need no sample at all, and
// the first would compete with them for a core.
const head = 5 * time.Millisecond

// maxEarly bounds whom the dog has killed and nobody was told of: where there are more, a target that is among them
// is one of very many.
const maxEarly = 1 << 16

// unknown is a target that was gone before its number could be told.
const unknown = -1

// hit is a limit that ends the run; broken is a watch that can't see any more.
type hit struct {
	cause  status.Cause
	detail string
	broken error
}

// newWatch makes what watches a run. proc is the root of the proc inside, or -1: then
// the tree is found from pid, the init, in the caller's proc. The descriptors
// are the watch's from then on. killTasks: no kernel mechanism holds their number.
func newWatch(p *plan.Plan, group *cgroup.Group, trees *disk.Watchdog, killTasks bool, proc int, scratch, ipc []int, pid int) (*watch, error) {
	w := &watch{
		plan: &p.Watch, held: &p.Held, group: group, trees: trees, proc: proc, scratch: scratch, ipc: ipcTables{fds: ipc},
		found: make(chan hit, 8), stop: make(chan struct{}), done: make(chan struct{}),
		metered: make(chan struct{}), weighed: make(chan struct{}),
		hitSet: map[status.Capability]bool{}, targets: map[int]bool{},
		root: func() (*tree.Tree, error) { return tree.New(proc) },
	}
	if trees != nil && proc >= 0 {
		trees.CountOpen(proc)
	}
	for i := range p.Box.Mounts {
		if m := &p.Box.Mounts[i]; m.Kind == handoff.MountTmpfs {
			w.sized = append(w.sized, m.Dst) // in this order the child tells of them
		}
	}
	if proc < 0 {
		w.root = func() (*tree.Tree, error) { return tree.NewFromPID(pid) }
	}
	if w.cores = len(p.Exec.CPUs); w.cores == 0 {
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
	return w, nil
}

// start begins to watch soon, or at once if the child waits for that: begun tells it.
func (w *watch) start(begun func()) {
	wait := head
	if begun != nil && w.dog != nil {
		wait, w.dog.FirstDelay, w.dog.Begun, begun = 0, head, begun, nil
	}
	w.begin = time.AfterFunc(wait, w.run)
	if begun != nil {
		begun()
	}
}

// makeRoom lets more goroutines run at once than there are cores. On a busy host those that run wait for
// a turn of the kernel's, and the watchdog, whose thread may come before all others, would wait for them.
func makeRoom() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 6) }

// awaited says whether a run can get past a limit before the watchdog's first look, if that is late.
func awaited(p *plan.Plan) bool { return p.Watch.Memory > 0 || p.Watch.KillTasks && p.Watch.Tasks > 0 }

// guard sets the tree's watchdog on what the cgroup doesn't hold.
func (w *watch) guard(limits tree.Limits) error {
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
		w.found <- hit{cause: status.CauseCPUTree,
			detail: fmt.Sprintf("CPU time limit of %s reached", w.plan.CPU)}
	}
	w.dog.OnMemory = func(bytes int64, biggest tree.Process) {
		w.largest = biggest.Name
		w.found <- hit{cause: status.CauseMemWatch,
			detail: fmt.Sprintf("%s (pid %d) held the most", biggest.Name, biggest.PID)}
	}
	w.dog.OnTasks = func(int64) { w.note(status.Tasks) }
	w.dog.OnKill = w.killed
	return nil
}

// killed hears of each task too many that the dog killed. A target may be one of
// them before its start has been told here.
func (w *watch) killed(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, is := w.targets[pid]; is {
		w.targets[pid] = true
	} else if len(w.early) < maxEarly {
		w.early = append(w.early, pid)
	}
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

// weigh watches the trees until the end.
func (w *watch) weigh() {
	defer close(w.weighed)
	w.trees.OnHit = func(c status.Capability, used int64) {
		w.note(c)
		detail := fmt.Sprintf("disk limit of %d bytes reached: the writable trees grew by more", w.plan.Disk)
		if c == status.Files {
			detail = fmt.Sprintf("limit of %d files reached: there are more new ones in the writable trees", w.plan.Files)
		}
		w.found <- hit{cause: status.CauseDisk, detail: detail}
	}
	if err := w.trees.Run(w.stop); err != nil {
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
	w.looks.end()
	w.close()
}

func (w *watch) close() {
	if w.tree != nil {
		_ = w.tree.Close()
	}
	for _, fd := range slices.Concat([]int{w.proc}, w.scratch, w.ipc.fds) {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// started tells which process is a target: by its number inside, which in the
// caller's own pid namespace (shared) is the caller's, too. For want of a proc of the
// inside it takes the caller's number from pidfd, as long as that is there. It gives the number.
func (w *watch) started(inside, pidfd int, shared bool) int {
	if w == nil || w.dog == nil {
		return inside
	}
	if w.proc < 0 && !shared {
		if inside = pidOf(pidfd); inside == 0 {
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

// tooMany says whether a target was killed as a task too many.
func (w *watch) tooMany(number int) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.targets[number]
}

// inodeSize is about what an inode of a tmpfs and its name take of the kernel's memory, which a cgroup counts as well.
const inodeSize = 1024

// scratchUsed is what is in private places, which is memory. Whoever asks while the run
// goes on also finds out what is full then, and may be emptied before the end.
func (w *watch) scratchUsed() (bytes, inodes int64) {
	w.places(func(_ int, fs *unix.Statfs_t) {
		bytes += int64(fs.Blocks-fs.Bfree) * fs.Bsize
		inodes += int64(fs.Files - fs.Ffree)
	})
	return bytes, inodes
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

// looks are for limits that the kernel holds and counts no hits of: of descriptors, and of
// tasks without a cgroup. What has reached one is seen by looking: while a process is held
// that is about to end with a status that isn't 0, and when something was written to standard
// error, as most programs do that give up. The former still has all that it had when it
// failed, unless it gave that back itself; the latter goes on meanwhile.
type looks struct {
	mu    sync.Mutex
	ended bool      // guarded by mu
	next  time.Time // none before for anybody but the target; guarded by mu
	tasks int64     // the most that were seen, zombies too; guarded by mu
}

// lookShare is the part of a core that looks may take: a look is followed by so many times
// its own cost without one.
const lookShare = 50

// pair is what pipe and socketpair need, so that of the last descriptor most programs have no use.
const pair = 2

// end waits for a look that goes on. There is none afterwards.
func (l *looks) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// look looks at everybody. It is left out soon after another, but for the target's end.
func (w *watch) look(target bool) {
	if w == nil {
		return
	}
	tasks := w.plan.Tasks > 0 && !w.plan.KillTasks
	if !tasks && w.plan.Descriptors == 0 {
		return
	}
	l := &w.looks
	l.mu.Lock()
	defer l.mu.Unlock()
	begun := time.Now()
	if l.ended || !target && begun.Before(l.next) {
		return
	}
	t, err := w.root()
	if err != nil {
		return
	}
	defer t.Close()
	s, err := t.Sample(tree.Need{PSSAbove: tree.NoPSS})
	if err != nil {
		return
	}
	if tasks {
		l.tasks = max(l.tasks, s.Tasks)
	}
	if n := w.plan.Descriptors; n > 0 && t.Descriptors()+pair > n {
		w.note(status.FileDescriptors)
	}
	now := time.Now()
	l.next = now.Add(lookShare * now.Sub(begun))
}

// tasksSeen is the most that a look has found.
func (w *watch) tasksSeen() int64 {
	if w == nil {
		return 0
	}
	w.looks.mu.Lock()
	defer w.looks.mu.Unlock()
	return w.looks.tasks
}

// ipcTables are handoff.IPCTables of the run's own IPC namespace. What they show is memory
// that no process has to have mapped: a segment that nobody has attached, semaphores,
// messages. What is attached of a segment is in the PSS of a process, too, as shared memory.
type ipcTables struct {
	fds []int
	buf []byte
}

// What the kernel takes for each, by the columns of the tables.
const (
	semaphoreSize = 64   // struct sem is as large as a line of the cache
	ipcObjectSize = 1024 // a table's entry with all that belongs to it
	messageSize   = 64   // besides its text
)

// ipcCosts says for each table which columns count, and how much for one.
var ipcCosts = [...][]struct{ column, bytes int64 }{
	{{14, 1}, {15, 1}},         // shm: rss, swap
	{{3, semaphoreSize}},       // sem: nsems
	{{3, 1}, {4, messageSize}}, // msg: cbytes, qnum
}

// used is what all of it takes now.
func (t *ipcTables) used() (sum int64) {
	for i, fd := range t.fds {
		sum += ipcMemory(t.read(fd), i)
	}
	return sum
}

// read is the whole of a table; valid until the next.
func (t *ipcTables) read(fd int) []byte {
	for n := 0; ; {
		if n == len(t.buf) {
			t.buf = append(t.buf, make([]byte, len(t.buf)+4096)...)
		}
		got, err := unix.Pread(fd, t.buf[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil || got <= 0 {
			return t.buf[:n]
		}
		n += got
	}
}

// ipcMemory adds up one table.
func ipcMemory(text []byte, table int) (sum int64) {
	_, rest, _ := bytes.Cut(text, []byte("\n")) // the names of the columns
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		sum += ipcObjectSize
		column := int64(0)
		for field := range bytes.FieldsSeq(line) {
			for _, c := range ipcCosts[table] {
				if c.column == column {
					n, _ := strconv.ParseInt(string(field), 10, 64)
					sum += min(max(n, 0), 1<<50) * c.bytes
				}
			}
			column++
		}
	}
	return sum
}

// reachedMemory says whether the run ended at its memory limit, as far as that is
// known before everything is: what only the counters know is the settlement's.
func (j *job) reachedMemory() bool {
	if limits[j.out.cause] == status.MemLimit {
		return true
	}
	if j.group == nil || j.plan.Held.Memory == 0 || j.out.cause != "" {
		return false
	}
	if !j.counted {
		j.count()
	}
	return j.oomKilled || j.stat.OOMs.Known && j.stat.OOMs.N > 0
}

// outOfMemory says what of the run's memory is files, now that nothing of it runs any more.
// Private places outlive the run's namespace for as long as we hold them.
func (w *watch) outOfMemory(shared []handoff.Upper) *status.OutOfMemory {
	if w == nil {
		return nil
	}
	m := &status.OutOfMemory{Process: w.largest}
	if m.FileBytes, _ = w.scratchUsed(); m.FileBytes == 0 {
		return m
	}
	see := func(at string, bytes int64) {
		if bytes > m.PathBytes {
			m.Path, m.PathBytes = at, bytes
		}
	}
	for i, fd := range w.scratch {
		if i > 0 && i <= len(w.sized) {
			var fs unix.Statfs_t
			if unix.Fstatfs(fd, &fs) == nil {
				see(w.sized[i-1], int64(fs.Blocks-fs.Bfree)*fs.Bsize)
			}
			continue
		}
		for _, p := range shared {
			if bytes, err := measure(fd, p.Part); err == nil {
				see(p.Dst, bytes)
			}
		}
	}
	return m
}

// measure looks through one of the directories of scratch.
func measure(scratch int, part uint32) (int64, error) {
	dir, err := unix.Openat(scratch, strconv.FormatUint(uint64(part), 10), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(dir)
	return disk.Measure(dir)
}

// beatEvery is how often it is told what the run uses.
const beatEvery = time.Second

// capabilityOf is whose limit a cause is, "" of those that are no limit.
func capabilityOf(cause status.Cause) status.Capability {
	switch cause {
	case status.CauseDisk:
		return status.Disk
	case status.CauseTasks:
		return status.Tasks
	}
	switch limits[cause] {
	case status.Timeout:
		return status.WallTime
	case status.CPULimit:
		return status.CPUTime
	case status.MemLimit:
		return status.Memory
	}
	return ""
}

// tell says whom to tell about limits, those included that were reached already.
func (w *watch) tell(limit func(status.Capability)) {
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

// load is what the tree uses now: as the cgroup counts, and else by the last sample.
func (w *watch) load() status.Load {
	seen := w.usage()
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
