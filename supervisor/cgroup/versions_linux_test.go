package cgroup

import (
	"encoding/json"
	"errors"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hierarchy"
	"github.com/confine-run/confine/internal/must"
)

// place is a directory of v2 for one test, below the one that this process is in.
type place struct {
	testing.TB
	*dir
}

func newPlace(t testing.TB) *place {
	t.Helper()
	need(t, "cgroup2:memory", "cgroup2:pids", "cgroup2:cpu", "root")
	places, e := thisProcess().places("self")
	if e != nil {
		t.Fatal(e)
	}
	own := places[slices.IndexFunc(places, func(d hierarchy.Dir) bool { return d.V2 })].Path
	must.Do(t, os.WriteFile(own+"/cgroup.subtree_control", []byte("+memory +pids +cpu"), 0))
	name := own + "/test-" + strconv.Itoa(os.Getpid()) + "-" + strings.ReplaceAll(t.Name(), "/", "-")
	must.Do(t, os.Mkdir(name, 0o755))
	d, err := openDir(name)
	must.Do(t, err)
	d.parent, err = openDir(own)
	must.Do(t, err)
	d.name = path.Base(name)
	t.Cleanup(func() {
		must.Do(t, d.killAll(nil, time.Now().Add(time.Minute)))
		must.Do(t, d.removeTree(2, time.Now().Add(time.Minute)))
		d.close()
		d.parent.close()
	})
	return &place{t, d}
}

func (p *place) read(name string) string {
	p.Helper()
	b, err := os.ReadFile(p.path + "/" + name)
	must.Do(p, err)
	return strings.TrimSpace(string(b))
}

func (p *place) set(name, text string) {
	p.Helper()
	must.Do(p, os.WriteFile(p.path+"/"+name, []byte(text), 0))
}

// maker starts a helper in the place that makes a group.
func (p *place) maker(o Options, change func(*syscall.SysProcAttr)) *process {
	p.Helper()
	o.Anchor = nil
	text, err := json.Marshal(struct {
		Parent string
		Limits Limits
	}{o.Parent, o.Limits})
	must.Do(p, err)
	c := again("make " + string(text))
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: p.fd}
	if change != nil {
		change(c.SysProcAttr)
	}
	return start(p.TB, c)
}

var limits = Options{Limits: Limits{Memory: 50 * mib, Tasks: 100}}

func TestTheSupervisorAndItsChildMoveAsideAndBack(t *testing.T) {
	p := newPlace(t)
	t.Setenv("WITH_CHILD", "1")
	maker := p.maker(limits, nil)
	m := maker.made()
	if m.Source != WritableParent || m.Version != 2 || !m.Holds || len(m.Paths) != 1 || path.Dir(m.Paths[0]) != p.path {
		t.Fatalf("%+v", m)
	}
	if got := p.read("cgroup.subtree_control"); got != "memory pids" {
		t.Errorf("handed down: %q", got)
	}
	if p.read("cgroup.procs") != "" || !strings.HasSuffix(strings.TrimSpace(m.Own), selfSuffix) {
		t.Errorf("in the place: %q; the maker: %q", p.read("cgroup.procs"), m.Own)
	}
	must.Do(t, maker.in.Close())
	if after := maker.made(); !strings.HasSuffix(strings.TrimSpace(after.Own), "/"+p.name) {
		t.Errorf("not back: %q", after.Own)
	}
	if got := p.read("cgroup.subtree_control"); got != "" {
		t.Errorf("still handed down: %q", got)
	}
	if below, err := p.children(); len(below) > 0 {
		t.Error("left: ", below, err)
	}
	must.Do(t, maker.Wait())
}

func TestProcessesOfOthersAreNotMoved(t *testing.T) {
	p := newPlace(t)
	other := sleeper()
	other.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: p.fd}
	start(t, other).expect("ready")
	m := p.maker(limits, nil).madeNone()
	if m.Kind != Occupied || m.Errno != unix.EBUSY || !strings.Contains(m.Error, strconv.Itoa(other.Process.Pid)) {
		t.Errorf("%+v", m)
	}
	if below, _ := p.children(); len(below) > 0 || p.read("cgroup.subtree_control") != "" {
		t.Errorf("left: %q, %q", below, p.read("cgroup.subtree_control"))
	}
	if got := strings.Fields(p.read("cgroup.procs")); !slices.Contains(got, strconv.Itoa(other.Process.Pid)) {
		t.Errorf("moved: %q", got)
	}
}

func TestTheLastRunRestoresSubtreeControl(t *testing.T) {
	p := newPlace(t)
	o := limits
	o.Parent = p.path
	first := mustMake(t, o)
	second := mustMake(t, o)
	must.Do(t, first.Remove())
	if ok, _ := second.Holds(Memory); !ok || p.read("cgroup.subtree_control") != "memory pids" {
		t.Errorf("taken from a run that is on: %q", p.read("cgroup.subtree_control"))
	}
	must.Do(t, second.Remove())
	third := mustMake(t, Options{Parent: p.path, Limits: Limits{CPUPercent: 50}})
	must.Do(t, third.Remove())
	if got := p.read("cgroup.subtree_control"); got != "memory pids" { // not third's to take
		t.Errorf("%q", got)
	}
	p.set("cgroup.subtree_control", "-memory -pids")
	third = mustMake(t, o)
	must.Do(t, os.Mkdir(p.path+"/somebody", 0o755))
	must.Do(t, third.Remove())
	if got := p.read("cgroup.subtree_control"); got != "memory pids" { // somebody may need it
		t.Errorf("%q", got)
	}
}

func TestAParentThatIsWrong(t *testing.T) {
	p := newPlace(t)
	wrong := func(t *testing.T, o Options, kind Kind, errno syscall.Errno, words string) {
		t.Helper()
		_, err := Make(o)
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != kind || e.Source != CgroupParent || !errors.Is(err, errno) || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v", e, err)
		}
		if below, _ := p.children(); len(below) > 0 {
			t.Errorf("left: %q", below)
		}
	}
	o := limits
	o.Parent = p.path
	t.Run("full of descendants", func(t *testing.T) {
		p.set("cgroup.max.descendants", "0")
		defer p.set("cgroup.max.descendants", "max")
		wrong(t, o, Full, unix.EAGAIN, "mkdirat")
	})
	t.Run("too deep", func(t *testing.T) {
		p.set("cgroup.max.depth", "0")
		defer p.set("cgroup.max.depth", "max")
		wrong(t, o, Full, unix.EAGAIN, "mkdirat")
	})
	t.Run("occupied", func(t *testing.T) {
		other := sleeper()
		other.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: p.fd}
		c := start(t, other)
		c.expect("ready")
		if m := p.maker(o, nil).madeNone(); m.Kind != Occupied || m.Errno != unix.EBUSY || !strings.Contains(m.Error, "not confine's") {
			t.Errorf("%+v", m)
		}
		must.Do(t, c.Process.Kill())
		_ = c.Wait()
	})
	t.Run("without controllers", func(t *testing.T) {
		must.Do(t, os.Mkdir(p.path+"/bare", 0o755))
		defer os.Remove(p.path + "/bare")
		_, err := Make(Options{Parent: p.path + "/bare", Limits: limits.Limits})
		if e := err.(*Error); e.Kind != NoController {
			t.Error(err)
		}
		offer := Look(p.path + "/bare")
		if offer.Err != nil || len(offer.Controllers) != 0 {
			t.Errorf("%+v", offer)
		}
	})
	t.Run("locked", func(t *testing.T) {
		fd, err := unix.Open(p.path, flagsDir, 0)
		must.Do(t, err)
		defer unix.Close(fd)
		must.Do(t, unix.Flock(fd, unix.LOCK_EX))
		wrong(t, o, Failed, unix.EAGAIN, "flock")
	})
	t.Run("read-only", func(t *testing.T) {
		t.Setenv("READ_ONLY", p.path)
		m := p.maker(o, func(s *syscall.SysProcAttr) { s.Unshareflags = unix.CLONE_NEWNS }).madeNone()
		if m.Kind != ReadOnly || m.Errno != unix.EROFS {
			t.Errorf("%+v", m)
		}
	})
	t.Run("somebody else's", func(t *testing.T) {
		m := p.maker(o, nobody).madeNone()
		if m.Kind != Denied || m.Errno != unix.EACCES {
			t.Errorf("%+v", m)
		}
	})
	t.Run("across what is somebody else's", func(t *testing.T) {
		must.Do(t, os.Mkdir(p.path+"/given", 0o755))
		must.Do(t, os.Mkdir(p.path+"/own", 0o755))
		defer os.Remove(p.path + "/given")
		defer os.Remove(p.path + "/own")
		p.give("given")
		own := p.below("own")
		defer own.close()
		o := o
		o.Parent = p.path + "/given"
		p.set("cgroup.subtree_control", "+memory +pids")
		defer p.set("cgroup.subtree_control", "-memory -pids")
		m := own.maker(o, nobody).madeNone()
		if m.Kind != Denied || !strings.Contains(m.Error, "moved across") {
			t.Errorf("%+v", m)
		}
	})
}

func nobody(s *syscall.SysProcAttr) { s.Credential = &syscall.Credential{Uid: 65534, Gid: 65534} }

// give makes a directory below nobody's, as systemd delegates.
func (p *place) give(name string) {
	for _, file := range []string{"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"} {
		must.Do(p, os.Chown(p.path+"/"+name+file, 65534, 65534))
	}
}

func (p *place) below(name string) *place {
	d, err := openDir(p.path + "/" + name)
	must.Do(p, err)
	return &place{p.TB, d}
}

func TestADelegatedSubtreeOfAUser(t *testing.T) {
	p := newPlace(t)
	must.Do(t, os.Mkdir(p.path+"/user", 0o755))
	p.set("cgroup.subtree_control", "+memory +pids +cpu")
	p.give("user")
	user := p.below("user")
	defer user.close()
	maker := user.maker(limits, nobody)
	m := maker.made()
	if m.Source != WritableParent || !m.Holds {
		t.Fatalf("%+v", m)
	}
	must.Do(t, maker.in.Close())
	maker.made()
	must.Do(t, maker.Wait())
	if below, _ := user.children(); len(below) > 0 || user.read("cgroup.subtree_control") != "" {
		t.Errorf("left: %q, %q", below, user.read("cgroup.subtree_control"))
	}
}

func TestCloneIntoCgroup(t *testing.T) {
	p := newPlace(t)
	o := limits
	o.Parent = p.path
	g := mustMake(t, o)
	fd, procs := g.Join()
	if fd < 0 || len(procs) != 1 {
		t.Fatal(fd, procs)
	}
	c := sleeper()
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	start(t, c).expect("ready")
	if pids, err := g.dirs[0].processes(); err != nil || !slices.Equal(pids, []int{c.Process.Pid}) {
		t.Errorf("%v, %v", pids, err)
	}
	if s := g.Stat(); !s.Memory.Known || !s.OOMKills.Known || !s.Tasks.Known || !s.CPU.Known || !s.User.Known {
		t.Errorf("not all is known: %+v", s)
	}
}

// Whoever opened cgroup.procs is who may move: the target's own cgroup namespace,
// which doesn't show the group, and its ids don't matter.
func TestJoinFromAnotherNamespaceAndUser(t *testing.T) {
	p := newPlace(t)
	o := limits
	o.Parent = p.path
	g := mustMake(t, o)
	_, procs := g.Join()
	c := joining(1, "sleep")
	copied, err := unix.FcntlInt(uintptr(procs[0]), unix.F_DUPFD_CLOEXEC, 0)
	must.Do(t, err)
	f := os.NewFile(uintptr(copied), "cgroup.procs")
	defer f.Close()
	c.ExtraFiles = []*os.File{f}
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 65534, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 65534, Size: 1}}}
	start(t, c).expect("ready")
	if pids, err := g.dirs[0].processes(); err != nil || len(pids) != 1 {
		t.Errorf("%v, %v", pids, err)
	}
}

func TestMakeWithoutPermission(t *testing.T) {
	need(t, "cgroup1:memory", "root")
	text, err := json.Marshal(struct{ Limits Limits }{limits.Limits})
	must.Do(t, err)
	c := again("make " + string(text))
	c.SysProcAttr = &syscall.SysProcAttr{}
	nobody(c.SysProcAttr)
	m := start(t, c).made()
	if m.Kind != Denied || m.Errno != unix.EACCES || !strings.HasPrefix(m.Error, `cgroup_v1: mkdirat "/`) || !strings.HasSuffix(m.Error, `": permission denied`) {
		t.Errorf("%+v", m)
	}
}

func TestAParentInV1(t *testing.T) {
	need(t, "cgroup1:memory", "cgroup1:pids", "root")
	own := mustMake(t, limits)
	places := map[string]string{}
	for _, d := range own.dirs {
		places[d.parent.path] = d.parent.path
	}
	first := own.dirs[0] // of memory
	parent := first.path + "-parent"
	must.Do(t, os.Mkdir(parent, 0o755))
	t.Cleanup(func() { must.Do(t, os.Remove(parent)) })
	o := limits
	o.Parent = parent
	g := mustMake(t, o)
	if g.Source() != CgroupParent || g.Version() != 1 || path.Dir(g.Paths()[0]) != parent {
		t.Errorf("%s, %d, %s", g.Source(), g.Version(), g.Paths())
	}
	for _, p := range g.Paths()[1:] { // there is no such place in the others
		if places[path.Dir(p)] == "" {
			t.Errorf("%s is not in the own directory", p)
		}
	}
	if ok, err := g.Holds(Memory); !ok {
		t.Error(err)
	}
	if offer := Look(parent); offer.Err != nil || offer.Source != CgroupParent || offer.Version != 1 || offer.Path != parent || !offer.Has(Memory) {
		t.Errorf("%+v", offer)
	}
	if offer := Look(""); offer.Err != nil || offer.Source != CgroupV1 || !offer.Has(PIDs) {
		t.Errorf("%+v", offer)
	}
}

func TestAParentThatIsNoCgroup(t *testing.T) {
	file := path.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o644))
	for name, c := range map[string]struct {
		path  string
		kind  Kind
		errno syscall.Errno
	}{
		"a directory": {path.Dir(file), NotCgroup, unix.EINVAL},
		"a file":      {file, NotCgroup, unix.ENOTDIR},
		"nothing":     {file + "x", Absent, unix.ENOENT},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Make(Options{Parent: c.path, Limits: limits.Limits})
			e, ok := err.(*Error)
			if !ok || e.Kind != c.kind || e.Errno != c.errno || e.Source != CgroupParent || !strings.Contains(err.Error(), c.path) {
				t.Errorf("%+v", err)
			}
			if offer := Look(c.path); offer.Err == nil || offer.Err.Kind != c.kind {
				t.Errorf("%+v", offer)
			}
		})
	}
}

func TestControllersOfTheJVMAreShown(t *testing.T) {
	need(t, "cgroup1:memory", "root")
	g := mustMake(t, limits)
	dirs, e := thisProcess().places("self")
	if e != nil {
		t.Fatal(e)
	}
	views := g.Views()
	for _, c := range []Controller{Memory, CPU, CPUAcct, CPUSet} {
		if !slices.ContainsFunc(dirs, func(d hierarchy.Dir) bool { return slices.Contains(d.Controllers, string(c)) }) {
			continue // this kernel has none
		}
		at := slices.IndexFunc(views, func(v View) bool {
			return v.At == viewRoot+"/"+string(c) || slices.Contains(v.Links, viewRoot+"/"+string(c))
		})
		if at < 0 {
			t.Errorf("no %s: %+v", c, views)
			continue
		}
		var st unix.Stat_t
		must.Do(t, unix.Stat(views[at].Path, &st))
		if views[at].Dev != uint64(st.Dev) || views[at].Ino != st.Ino || path.Base(views[at].Path) != g.name {
			t.Errorf("%+v", views[at])
		}
	}
	if slices.ContainsFunc(views, func(v View) bool { return v.At == viewRoot+"/pids" }) {
		t.Error("nobody looks for pids")
	}
}

func TestACPUSetKeepsTheAffinity(t *testing.T) {
	need(t, "cgroup1:cpuset", "root")
	runtime.LockOSThread()
	var before, one unix.CPUSet
	must.Do(t, unix.SchedGetaffinity(0, &before))
	last := 0
	for cpu := range 1024 {
		if before.IsSet(cpu) {
			last = cpu
		}
	}
	one.Set(last)
	must.Do(t, unix.SchedSetaffinity(0, &one))
	g, err := Make(limits)
	must.Do(t, unix.SchedSetaffinity(0, &before))
	runtime.UnlockOSThread()
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, g.Remove()) })
	at := slices.IndexFunc(g.dirs, func(d *dir) bool { return slices.Contains(d.controllers, string(CPUSet)) })
	if at < 0 {
		t.Fatalf("none in %s", g.Paths())
	}
	for name, want := range map[string]string{"cpuset.cpus": strconv.Itoa(last), "cpuset.sched_load_balance": "0"} {
		if b, err := os.ReadFile(g.dirs[at].path + "/" + name); err != nil || strings.TrimSpace(string(b)) != want {
			t.Errorf("%s holds %q, %v, want %s", name, b, err, want)
		}
	}
}

// With CONFIG_RT_GROUP_SCHED the cpu hierarchy would refuse the target.
func TestARealTimeProcessIsNotPutUnderCPU(t *testing.T) {
	need(t, "cgroup1:memory", "cgroup1:cpu", "root")
	runtime.LockOSThread()
	must.Do(t, unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0))
	g, err := Make(limits)
	must.Do(t, unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}, 0))
	runtime.UnlockOSThread()
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, g.Remove()) })
	if g.in(CPU) != nil || g.in(Memory) == nil {
		t.Error(g.Paths())
	}
}
