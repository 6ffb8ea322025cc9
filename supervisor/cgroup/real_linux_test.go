package cgroup

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

const mib = 1 << 20

// either is what the tests need that hold for both versions.
const (
	anyMemory = "cgroup1:memory|cgroup2:memory"
	anyPIDs   = "cgroup1:pids|cgroup2:pids"
	anyCPU    = "cgroup1:cpu|cgroup2:cpu"
)

func TestLimitsAreInTheKernelsFiles(t *testing.T) {
	need(t, anyMemory, anyPIDs, anyCPU)
	g := mustMake(t, Options{Limits: Limits{Memory: 64*mib + 1, Tasks: 10, CPUPercent: 150}})
	text := map[string]string{"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "10", "cpu.max": "150000 100000"}
	if g.Version() == 1 {
		text = map[string]string{"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864", "pids.max": "10",
			"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"}
	}
	for _, c := range []Controller{Memory, PIDs, CPU} {
		if ok, err := g.Holds(c); !ok || err != nil {
			t.Errorf("%s: %v, %v", c, ok, err)
		}
	}
	for file, want := range text {
		got, found := "", false
		for _, dir := range g.Paths() {
			if b, err := os.ReadFile(dir + "/" + file); err == nil {
				got, found = strings.TrimSpace(string(b)), true
			}
		}
		// Without accounting of swap there is no file for it.
		if got != want && (found || !strings.Contains(file, "sw")) {
			t.Errorf("%s holds %q, want %q", file, got, want)
		}
	}
	if ok, err := g.Holds(IO); ok || err != nil {
		t.Error("a limit that nobody asked for: ", err)
	}
	for _, p := range g.Paths() {
		if o, ok := parseName(p[strings.LastIndexByte(p, '/')+1:]); !ok || o != thisOwner() {
			t.Errorf("%s is %+v's, want %+v", p, o, thisOwner())
		}
	}
	must.Do(t, g.Remove())
	for _, p := range g.Paths() {
		if exists(p) {
			t.Error("left: ", p)
		}
	}
	if err := g.Remove(); err != nil {
		t.Error("a second time: ", err)
	}
	if s := g.Stat(); s != (Stat{}) {
		t.Errorf("removed, and counts %+v", s)
	}
	if g.OOM() != nil {
		t.Error("removed, and waits for an OOM kill")
	}
}

func TestALimitThatTheKernelRefusesDoesNotHold(t *testing.T) {
	need(t, anyPIDs, anyCPU)
	g := mustMake(t, Options{Limits: Limits{Tasks: 1 << 40, CPUPercent: 50}})
	if ok, err := g.Holds(PIDs); ok || !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "/pids.max\": invalid argument") {
		t.Error(err)
	}
	if ok, err := g.Holds(CPU); !ok {
		t.Error(err)
	}
}

func TestMemoryLimit(t *testing.T) {
	need(t, anyMemory)
	control := mustMake(t, Options{})
	hog := member(t, control, "hog 100")
	hog.expect("ready")
	hog.expect("done")
	must.Do(t, hog.Wait())
	if s := control.Stat(); s.MemoryPeak.Known && s.MemoryPeak.N < 100*mib || s.OOMKills.N != 0 || s.OOMs.N != 0 || control.KilledForMemory(&s) {
		t.Errorf("without a limit: %+v", s)
	}

	g := mustMake(t, Options{Limits: Limits{Memory: 50 * mib}})
	other := member(t, g, "sleep")
	other.expect("ready")
	oom := g.OOM()
	if oom == nil || g.OOM() != oom {
		t.Fatal("no channel, or more than one")
	}
	hog = member(t, g, "hog 100")
	hog.expect("ready")
	select {
	case <-oom:
	case <-time.After(time.Minute):
		t.Fatal("not told of an OOM kill")
	}
	if err := signalOf(hog.Wait()); err != unix.SIGKILL {
		t.Error("the hog: ", err)
	}
	s := g.Stat()
	if s.OOMKills.N < 1 || !g.KilledForMemory(&s) || s.MemoryPeak.Known && (s.MemoryPeak.N > 51*mib || s.MemoryPeak.N < 40*mib) {
		t.Errorf("%+v", s)
	}
	if g.Version() == 1 {
		return // the rest is the caller's
	}
	if s.OOMs.N < 1 {
		t.Errorf("%+v", s)
	}
	if err := signalOf(other.Wait()); err != unix.SIGKILL {
		t.Error("the rest of the group: ", err)
	}
}

func signalOf(err error) syscall.Signal {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.Sys().(syscall.WaitStatus).Signal()
	}
	return -1
}

func TestTasksLimit(t *testing.T) {
	need(t, anyPIDs)
	g := mustMake(t, Options{Limits: Limits{Tasks: 40}})
	p := member(t, g, "tasks 60")
	p.expect("ready")
	got, err := strconv.Atoi(p.line())
	must.Do(t, err)
	if got < 1 || got >= 40 { // threads count
		t.Errorf("%d children", got)
	}
	s := g.Stat()
	if s.TasksHits.N < 1 || s.Tasks.N < 2 || s.Tasks.N > 40 || s.TasksPeak.Known && (s.TasksPeak.N > 40 || s.TasksPeak.N < s.Tasks.N) {
		t.Errorf("%+v", s)
	}
}

func TestCPURate(t *testing.T) {
	need(t, anyCPU)
	g := mustMake(t, Options{Limits: Limits{CPUPercent: 20}})
	p := member(t, g, "spin")
	p.expect("ready")
	before, ok := g.CPUTime()
	if !ok {
		t.Fatal("CPU time is not known")
	}
	began := time.Now()
	eventually(t, "throttled", func() bool { return time.Since(began) > time.Second && g.Stat().Throttled.D > 0 })
	after, _ := g.CPUTime()
	if share := float64(after-before) / float64(time.Since(began)); share > 0.6 { // alone it is 1; a busy host books late
		t.Errorf("%.0f %% of a core, want 20", 100*share)
	}
	s := g.Stat()
	if s.CPU.D < after {
		t.Errorf("%+v", s)
	}
	if sum := s.User.D + s.System.D; sum < s.CPU.D/2-tick || sum > 2*s.CPU.D+2*tick {
		t.Errorf("%v user and %v system of %v", s.User.D, s.System.D, s.CPU.D)
	}
}

// tree starts 15 processes in as many sessions.
func tree(t *testing.T, g *Group) *process {
	p := member(t, g, "tree 3")
	for range 15 {
		p.expect("ready")
	}
	if pids, err := g.dirs[0].processes(); err != nil || len(pids) != 15 {
		t.Fatalf("%d processes, %v: %+v", len(pids), err, g.Stat())
	}
	return p
}

func TestKillInRounds(t *testing.T) {
	need(t, anyMemory)
	for name, hold := range map[string]func(g *Group) func() func(){
		"without forks": func(g *Group) func() func() { return g.stopForks },
		"as it is":      func(*Group) func() func() { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			g := mustMake(t, Options{})
			tree(t, g)
			must.Do(t, g.dirs[0].killAll(hold(g), time.Now().Add(time.Minute)))
			if pids, err := g.dirs[0].processes(); err != nil || len(pids) != 0 {
				t.Errorf("%v, %v", pids, err)
			}
		})
	}
}

// A process that is never the same for long can't be killed by its number.
func TestKillReachesWhatForksFasterThanItIsListed(t *testing.T) {
	need(t, anyMemory, anyPIDs)
	g := mustMake(t, Options{})
	p := member(t, g, "chain")
	p.expect("ready")
	time.Sleep(50 * time.Millisecond)
	if pids, err := g.dirs[0].processes(); err != nil || slices.Equal(pids, []int{p.Process.Pid}) {
		t.Fatalf("it does not change: %v, %v", pids, err)
	}
	must.Do(t, g.kill(time.Now().Add(time.Minute)))
	eventually(t, "empty", func() bool { pids, err := g.dirs[0].processes(); return err == nil && len(pids) == 0 })
	if g.Version() == 1 { // whether it would have got away depends on the host
		if b, err := os.ReadFile(g.in(PIDs).path + "/pids.max"); err != nil || string(b) != "0\n" {
			t.Errorf("forks were not stopped: %q, %v", b, err)
		}
	}
}

func TestRemoveKillsWhatIsLeft(t *testing.T) {
	need(t, anyMemory)
	g := mustMake(t, Options{Limits: Limits{Memory: 500 * mib, Tasks: 200}})
	tree(t, g)
	must.Do(t, os.Mkdir(g.dirs[0].path+"/below", 0o755))
	began := time.Now()
	must.Do(t, g.Remove())
	t.Logf("15 processes and a directory below: %v", time.Since(began))
	for _, p := range g.Paths() {
		if exists(p) {
			t.Error("left: ", p)
		}
	}
}

func TestNoDescriptorIsLeftOrInherited(t *testing.T) {
	need(t, anyMemory)
	mustMake(t, Options{}) // what the runtime opens once
	before := descriptors(t)
	g := mustMake(t, Options{Limits: Limits{Memory: 64 * mib, Tasks: 10, CPUPercent: 50}})
	g.Stat()
	g.OOM()
	for fd := range descriptors(t) {
		if before[fd] {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%d would be inherited", fd)
		}
	}
	must.Do(t, g.Remove())
	after := descriptors(t)
	for fd := range after {
		if !before[fd] {
			t.Errorf("%d is left", fd)
		}
	}
}

func descriptors(t *testing.T) map[int]bool {
	entries, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	all := map[int]bool{}
	for _, e := range entries {
		fd, _ := strconv.Atoi(e.Name())
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil { // not the one just read by
			all[fd] = true
		}
	}
	return all
}

// TestManyAtOnce: also where each finds what others left, and sweeps it.
func TestManyAtOnce(t *testing.T) {
	need(t, anyMemory, anyPIDs)
	var left []string
	for range 5 {
		m, _ := killedMaker(t, limits)
		left = append(left, m.Paths...)
	}
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			g, err := Make(Options{Limits: Limits{Memory: 64 * mib, Tasks: 10}})
			if err != nil {
				t.Error(err)
				return
			}
			if ok, err := g.Holds(Memory); !ok {
				t.Error(err)
			}
			g.Stat()
			if err := g.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	swept(t, limits, left)
}

func TestStatAllocatesNothing(t *testing.T) {
	need(t, anyMemory)
	g := mustMake(t, Options{})
	if n := testing.AllocsPerRun(100, func() { g.Stat() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { g.CPUTime() }); n != 0 {
		t.Errorf("%v allocations for the CPU time", n)
	}
}

// killedMaker makes a group with a member, is killed, and leaves it behind.
func killedMaker(t *testing.T, o Options) (m made, member int) {
	t.Helper()
	t.Setenv("WITH_MEMBER", "1")
	text, err := json.Marshal(struct {
		Parent string
		Limits Limits
	}{o.Parent, o.Limits})
	must.Do(t, err)
	maker := start(t, again("make "+string(text)))
	member, err = strconv.Atoi(maker.line())
	must.Do(t, err)
	m = maker.made()
	if m.Error != "" || len(m.Paths) == 0 {
		t.Fatalf("%+v", m)
	}
	must.Do(t, maker.Process.Kill())
	_ = maker.Wait()
	for _, p := range m.Paths {
		if !exists(p) {
			t.Fatal("nothing is left to be swept: ", p)
		}
	}
	return m, member
}

func TestLeftoversOfAKilledSupervisorAreRemoved(t *testing.T) {
	need(t, anyMemory, anyPIDs)
	m, member := killedMaker(t, limits)
	swept(t, limits, m.Paths)
	eventually(t, "the member is gone", func() bool {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(member) + "/stat")
		return err != nil || strings.Contains(string(b), ") Z ") // whoever adopted it may take its time
	})
}

func TestFrozenLeftoversAreSwept(t *testing.T) {
	need(t, "cgroup2:memory")
	m, _ := killedMaker(t, limits)
	for _, p := range m.Paths {
		must.Do(t, os.WriteFile(p+"/cgroup.freeze", []byte("1"), 0))
	}
	swept(t, limits, m.Paths)
}

// swept makes groups until the directories are gone: mostly one will do, but it
// waits only so long for what it has killed.
func swept(t *testing.T, o Options, dirs []string) {
	t.Helper()
	for _, dir := range dirs {
		eventually(t, "removed: "+dir, func() bool {
			g, err := Make(o)
			must.Do(t, err)
			must.Do(t, g.Remove())
			return !exists(dir)
		})
	}
}

func TestOnlyTheDeadOfTheOwnNamespacesAreSwept(t *testing.T) {
	need(t, anyMemory)
	g := mustMake(t, limits)
	parent := g.dirs[0].parent
	me := thisOwner()
	gone := me
	gone.pid = deadPID(t)
	alive := me
	alive.pid = os.Getppid()
	reused := alive
	reused.start = 1 << 40
	if _, start, ok := thisProcess().process(alive.pid); !ok {
		t.Fatal("the parent process can't be seen")
	} else {
		alive.start = start
	}
	elsewhere := gone
	elsewhere.spaces ^= 1 << 32
	otherTime := gone
	otherTime.spaces ^= 1
	for name, c := range map[string]struct {
		dir           string
		locked, swept bool
	}{
		"gone":                   {gone.name(1), false, true},
		"gone, the leaf":         {gone.name(2) + selfSuffix, false, true},
		"gone, held by a reader": {gone.name(3), true, true},
		"the number used again":  {reused.name(1), false, true},
		"locked":                 {reused.name(2), true, false},
		"alive":                  {alive.name(1), false, false},
		"this process":           {me.name(1), false, false},
		"another pid namespace":  {elsewhere.name(1), false, false},
		"another time namespace": {otherTime.name(1), false, false},
		"no name of ours":        {"confine-1-2", false, false},
		"somebody else's":        {"somebody-" + gone.name(1), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := path.Join(parent.path, c.dir)
			must.Do(t, os.Mkdir(dir, 0o755))
			defer os.Remove(dir)
			if c.locked {
				d, err := openDir(dir)
				must.Do(t, err)
				defer d.close()
				if !locks(d.fd) {
					t.Fatal("can't be locked")
				}
			}
			mustMake(t, limits)
			if exists(dir) == c.swept {
				t.Errorf("swept: %v", c.swept)
			}
		})
	}
}

// lockable says whether nobody holds the lock of a directory.
func lockable(t *testing.T, name string) bool {
	d, err := openDir(name)
	must.Do(t, err)
	defer d.close()
	return locks(d.fd)
}

func TestALockEndsWithItsOwnerAndNotBefore(t *testing.T) {
	need(t, anyMemory, anyPIDs)
	g := mustMake(t, limits)
	d := g.dirs[0]
	if lockable(t, d.path) {
		t.Error("not locked: ", d.path)
	}
	if fd, _ := g.Join(); fd >= 0 && locks(fd) { // as it would be by whoever gets this descriptor
		t.Error("the lock goes with the descriptor that others get: ", d.path)
	}
	m, member := killedMaker(t, limits)
	for _, p := range m.Paths {
		if !lockable(t, p) {
			t.Errorf("locked without an owner, by its member %d at most: %s", member, p)
		}
	}
	swept(t, limits, m.Paths)
}

func TestASweepAmongManyIsRare(t *testing.T) {
	const many, starts = 40, 300
	d := fake(t, nil)
	h := thisProcess()
	alive, gone := h.owner, h.owner
	alive.pid, gone.pid = os.Getppid(), deadPID(t)
	_, alive.start, _ = h.process(alive.pid)
	for i := range uint32(many - 1) {
		must.Do(t, os.Mkdir(path.Join(d.path, alive.name(i)), 0o755))
	}
	left := path.Join(d.path, gone.name(0))
	must.Do(t, os.Mkdir(left, 0o755))
	var st unix.Stat_t
	if must.Do(t, unix.Fstat(d.fd, &st)); st.Nlink != many+2 {
		t.Skip("this file system doesn't count directories")
	}
	swept := 0
	for range starts {
		again, err := openDir(d.path)
		must.Do(t, err)
		h.sweep(again, new([]string))
		again.close()
		if !exists(left) {
			swept++
			must.Do(t, os.Mkdir(left, 0o755))
		}
	}
	if want := starts * sweepSiblings / many; swept < want/2 || swept > want*2 {
		t.Errorf("%d of %d starts swept, want some %d", swept, starts, want)
	}
	all, err := d.children()
	if err != nil || len(all) != many {
		t.Errorf("%d directories are left, %v", len(all), err)
	}
}

func deadPID(t *testing.T) int {
	c := again("nothing")
	must.Do(t, c.Run())
	return c.Process.Pid
}

// In a pid namespace whose proc is the outer one's, no owner can be judged by it.
func TestOwnersAreNotJudgedByAnotherProc(t *testing.T) {
	h := thisProcess()
	h.proc = t.TempDir()
	must.Do(t, os.Symlink("1", h.proc+"/self"))
	if _, _, ok := h.process(os.Getpid()); ok {
		t.Error("a process was seen in another proc")
	}
	reused := thisOwner()
	reused.pid, reused.start = os.Getppid(), 1<<40
	d := fake(t, nil)
	if h.dead(d, reused, reused.name(1), true) {
		t.Error("one that lives was taken for dead")
	}
	if h = thisProcess(); !h.dead(d, reused, reused.name(1), true) {
		t.Error("the control: its number is used by another")
	}
	h.owner.spaces = 0
	if h.dead(d, reused, reused.name(1), true) {
		t.Error("judged without knowing the own namespaces")
	}
}
