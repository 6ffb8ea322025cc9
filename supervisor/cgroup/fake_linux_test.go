package cgroup

import (
	"errors"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/hierarchy"
)

// fake is an ordinary directory with files that look like a cgroup's, for what
// no kernel does when asked.
func fake(t testing.TB, files map[string]string) *dir {
	t.Helper()
	name := t.TempDir()
	for file, text := range files {
		must(t, os.WriteFile(path.Join(name, file), []byte(text), 0o644))
	}
	d, err := openDir(name)
	must(t, err)
	t.Cleanup(d.close)
	return d
}

func kindAndErrno(t *testing.T, err error, kind Kind, errno unix.Errno, words string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != kind || e.Errno != errno || !strings.Contains(err.Error(), words) {
		t.Errorf("%+v, want %s, %v, %q", err, kind, errno, words)
	}
}

// A file that keeps the end of what it held before stands for a limit that the kernel changed.
const other = "99999999999999999999999999\n"

func TestALimitThatReadsBackDifferentlyDoesNotHold(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		limit func(*dir) hold
		words string
	}{
		"memory": {map[string]string{"memory.max": other}, func(d *dir) hold { return limitMemory(d, mib) }, `memory.max": reads back as "1048576`},
		"swap": {map[string]string{"memory.max": "", "memory.swap.max": other}, func(d *dir) hold { return limitMemory(d, mib) },
			`memory.swap.max": reads back as "0999`},
		"the group": {map[string]string{"memory.max": "", "memory.swap.max": ""}, func(d *dir) hold { return limitMemory(d, mib) },
			`memory.oom.group": no such file`},
		"cpu":        {map[string]string{"cpu.max": other}, func(d *dir) hold { return limitCPU(d, 50) }, `cpu.max": reads back as "50000 100000999`},
		"no cpu":     {nil, func(d *dir) hold { return limitCPU(d, 50) }, `cpu.max": no such file`},
		"memory, v1": {nil, func(d *dir) hold { return limitMemory1(d, mib) }, `memory.limit_in_bytes": no such file`},
		"period, v1": {nil, func(d *dir) hold { return limitCPU1(d, 50) }, `cpu.cfs_period_us": no such file`},
	} {
		t.Run(name, func(t *testing.T) {
			h := c.limit(fake(t, c.files))
			if h.err == nil || !strings.Contains(h.err.Error(), c.words) {
				t.Errorf("%+v", h)
			}
		})
	}
}

func TestMemoryWithoutAccountingOfSwap(t *testing.T) {
	h := limitMemory1(fake(t, map[string]string{"memory.limit_in_bytes": "", "memory.swappiness": ""}), mib)
	if h.err != nil || h.mechanism != "memory.limit_in_bytes" {
		t.Errorf("v1, swappiness 0: %+v", h)
	}
	h = limitMemory1(fake(t, map[string]string{"memory.limit_in_bytes": ""}), mib)
	if (h.err != nil) != hasSwap() {
		t.Errorf("v1, with swap %v: %+v", hasSwap(), h)
	}
	h = limitMemory(fake(t, map[string]string{"memory.max": "", "memory.oom.group": ""}), mib)
	if (h.err != nil) != hasSwap() {
		t.Errorf("v2, with swap %v: %+v", hasSwap(), h)
	}
}

func TestFreezersThatAreNotThereOrStuck(t *testing.T) {
	g := &Group{source: CgroupV1, version: 1}
	kindAndErrno(t, g.Freeze(), NoController, unix.EOPNOTSUPP, "no freezer hierarchy")
	kindAndErrno(t, g.Thaw(), NoController, unix.EOPNOTSUPP, "no freezer hierarchy")
	g.freezer = fake(t, nil)
	kindAndErrno(t, g.Freeze(), Absent, unix.ENOENT, "freezer.state")
	kindAndErrno(t, g.Thaw(), Absent, unix.ENOENT, "freezer.state")
	kindAndErrno(t, g.freezer.frozen1(time.Now()), Absent, unix.ENOENT, "freezer.state")
	g.freezer = fake(t, map[string]string{"freezer.state": "FREEZING\n"})
	kindAndErrno(t, g.freezer.frozen1(time.Now().Add(time.Millisecond)), TimedOut, unix.ETIMEDOUT, "freezer.state")

	g = &Group{version: 2, dirs: []*dir{fake(t, nil)}}
	kindAndErrno(t, g.Freeze(), Absent, unix.ENOENT, "cgroup.freeze")
	kindAndErrno(t, g.Thaw(), Absent, unix.ENOENT, "cgroup.freeze")
	kindAndErrno(t, g.dirs[0].await("frozen 1", time.Now()), Absent, unix.ENOENT, "cgroup.events")
	stuck := fake(t, map[string]string{"cgroup.events": "populated 1\nfrozen 0\n"})
	kindAndErrno(t, stuck.await("frozen 1", time.Now().Add(time.Millisecond)), TimedOut, unix.ETIMEDOUT, "cgroup.events")
	must(t, stuck.await("populated 1", time.Now()))
}

func TestKillWithoutTheFileForIt(t *testing.T) {
	p := start(t, sleeper())
	p.expect("ready")
	d := fake(t, map[string]string{"cgroup.procs": strconv.Itoa(p.Process.Pid) + "\n0\n", "cgroup.freeze": "", "cgroup.events": "frozen 1\n"})
	g := &Group{version: 2, dirs: []*dir{d}}
	ended := make(chan error)
	go func() {
		err := p.Wait()
		_ = os.WriteFile(d.path+"/cgroup.procs", nil, 0o644)
		ended <- err
	}()
	// Until the list says so it is killed again, which does nothing to the dead.
	must(t, g.kill(time.Now().Add(time.Minute)))
	if s := signalOf(<-ended); s != unix.SIGKILL {
		t.Error(s)
	}
	must(t, os.WriteFile(d.path+"/cgroup.procs", []byte("1073741823\n"), 0o644)) // nobody
	kindAndErrno(t, g.kill(time.Now().Add(time.Millisecond)), TimedOut, unix.ETIMEDOUT, "cgroup.procs")
	must(t, os.Remove(d.path+"/cgroup.procs"))
	must(t, os.Mkdir(d.path+"/cgroup.procs", 0o755))
	if err := g.kill(time.Now().Add(time.Millisecond)); !errors.Is(err, unix.EISDIR) {
		t.Error(err)
	}
}

func TestWhatCanNotBeRemovedIsTold(t *testing.T) {
	parent := fake(t, nil)
	d, err := parent.make("full")
	must(t, err)
	defer d.close()
	must(t, os.WriteFile(d.path+"/cgroup.events", []byte("populated 1\n"), 0o644))
	kindAndErrno(t, d.removeTree(2, time.Now()), TimedOut, unix.ETIMEDOUT, "cgroup.events")
	if err := d.removeTree(1, time.Now()); err != unix.ENOTEMPTY {
		t.Error(err)
	}
	if e := asError(CgroupV1, "rmdir", "/x", unix.EBUSY); e.Source != CgroupV1 || e.Kind != Occupied {
		t.Errorf("%+v", e)
	}
	if e := asError(CgroupV1, "", "", &Error{Source: CgroupParent}); e.Source != CgroupParent {
		t.Errorf("%+v", e)
	}
	if e := asError(CgroupV1, "", "", &Error{}); e.Source != CgroupV1 {
		t.Errorf("%+v", e)
	}
	g := &Group{source: WritableParent, version: 2, dirs: []*dir{d}, undo: func() *Error { return &Error{Kind: Failed} }}
	kindAndErrno(t, g.Remove(), Failed, unix.ENOTEMPTY, "rmdir")
}

func TestHierarchiesThatAreNotWhatTheySay(t *testing.T) {
	h := thisProcess()
	o := &Options{Limits: Limits{Memory: mib, CPUPercent: 50}}
	_, e := h.make1(o, nil)
	kindAndErrno(t, e, NoController, 0, "no hierarchy with the controller memory")
	_, e = h.make1(o, []hierarchy.Dir{{Path: "/nowhere", Controllers: []string{"memory"}}})
	kindAndErrno(t, e, Absent, unix.ENOENT, `cgroup_v1: open "/nowhere"`)
	d := fake(t, nil)
	_, e = h.make1(o, []hierarchy.Dir{{Path: d.path, Controllers: []string{"memory", "cpu"}}})
	kindAndErrno(t, e, Absent, unix.ENOENT, "cgroup_v1: open")
	if left, err := d.children(); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	_, e = h.make1(&Options{}, nil)
	kindAndErrno(t, e, NoController, 0, "cgroup_v1: no hierarchy")

	_, e = look1(Offer{Source: CgroupV1}, nil)
	kindAndErrno(t, e, NoController, 0, "no hierarchy")
	_, e = look1(Offer{Source: CgroupV1}, []hierarchy.Dir{{Path: "/nowhere", Controllers: []string{"memory"}}})
	kindAndErrno(t, e, Absent, unix.ENOENT, `access "/nowhere"`)
}

func TestUnifiedHierarchiesThatAreNotWhatTheySay(t *testing.T) {
	h := thisProcess()
	h.euid = 0
	o := &Options{Limits: Limits{Memory: mib}}
	_, e := h.make2(WritableParent, "/nowhere", o)
	kindAndErrno(t, e, Absent, unix.ENOENT, `writable_parent: open "/nowhere"`)
	for name, c := range map[string]struct {
		files map[string]string
		kind  Kind
		words string
	}{
		"bare":            {nil, Absent, "cgroup.controllers"},
		"no control":      {map[string]string{"cgroup.controllers": "memory\n"}, Absent, "cgroup.subtree_control"},
		"no controller":   {map[string]string{"cgroup.controllers": "cpu\n", "cgroup.subtree_control": ""}, NoController, "is given to this cgroup"},
		"no processes":    {map[string]string{"cgroup.controllers": "memory\n", "cgroup.subtree_control": ""}, Absent, "cgroup.procs"},
		"already enabled": {map[string]string{"cgroup.controllers": "memory\n", "cgroup.subtree_control": "memory\n"}, Absent, "cgroup.procs"},
	} {
		t.Run(name, func(t *testing.T) {
			d := fake(t, c.files)
			_, e := h.make2(WritableParent, d.path, o)
			kindAndErrno(t, e, c.kind, e.Errno, c.words)
			if left, err := d.children(); err != nil || len(left) > 0 {
				t.Errorf("left: %q, %v", left, err)
			}
		})
	}
}

func TestDelegationByMarkOrOwner(t *testing.T) {
	h := thisProcess()
	dir := t.TempDir()
	h.euid = os.Geteuid() + 1
	if h.delegated(dir) {
		t.Error("somebody else's")
	}
	if h.euid = os.Geteuid(); h.delegated(dir) != (h.euid != 0) {
		t.Error("the own directory, uid ", h.euid)
	}
	for value, want := range map[string]bool{"1": true, "0": false} {
		if err := unix.Setxattr(dir, "user.delegate", []byte(value), 0); err == unix.ENOTSUP {
			t.Skip("no extended attributes on this file system")
		} else {
			must(t, err)
		}
		if h.delegated(dir) != want {
			t.Errorf("user.delegate is %s", value)
		}
	}
}

func TestWhatAScopeCouldHave(t *testing.T) {
	h := thisProcess()
	h.run, h.owner.spaces = t.TempDir(), initialPIDNamespace<<32
	f := &facts{dirs: []hierarchy.Dir{{Controllers: []string{"cpu"}}, {Mount: "/cg", Path: "/cg/x", V2: true}},
		controllers: func(dir string) string {
			return map[string]string{"/cg": "io cpu rdma\n", userUnit: "memory pids\n"}[dir]
		}}
	h.euid = 0
	_, e := h.lookScope(f, Offer{Source: SystemdSystem})
	kindAndErrno(t, e, NoSystemd, unix.ENOENT, "system_bus_socket")
	must(t, os.Mkdir(h.run+"/systemd", 0o755))
	must(t, os.WriteFile(h.run+"/systemd/private", nil, 0o666))
	o, e := h.lookScope(f, Offer{Source: SystemdSystem})
	if e != nil || o.Path != "/cg" || !o.Has(CPU) || !o.Has(IO) || len(o.Controllers) != 2 {
		t.Errorf("%+v, %v", o, e)
	}
	h.euid = 7
	t.Setenv("XDG_RUNTIME_DIR", h.run)
	o, e = h.lookScope(f, Offer{Source: SystemdUser})
	if e != nil || o.Path != userUnit || !o.Has(Memory) || !o.Has(PIDs) {
		t.Errorf("%+v, %v", o, e)
	}
}

const userUnit = "/cg/user.slice/user-7.slice/user@7.service"

func TestTheInitHasToBeInTheScope(t *testing.T) {
	h := thisProcess()
	h.proc = t.TempDir()
	_, e := h.scopeOf(7, "x.scope")
	kindAndErrno(t, e, Absent, unix.ENOENT, "/7/cgroup")
	for _, dir := range []string{"7", "self"} {
		must(t, os.Mkdir(h.proc+"/"+dir, 0o755))
	}
	where := t.TempDir()
	must(t, os.WriteFile(h.proc+"/self/mountinfo", []byte("30 23 0:26 / "+where+" rw - cgroup2 cgroup2 rw\n"), 0o644))
	for cgroup, words := range map[string]string{
		"":               "in no hierarchy",
		"0::/a/y.scope":  "and not in x.scope",
		"0::/a/x.scope":  "open",
		"0::/../x.scope": "in no hierarchy",
	} {
		must(t, os.WriteFile(h.proc+"/7/cgroup", []byte(cgroup+"\n"), 0o644))
		if _, e := h.scopeOf(7, "x.scope"); e == nil || !strings.Contains(e.Error(), words) {
			t.Errorf("%q: %v", cgroup, e)
		}
	}
	must(t, os.MkdirAll(where+"/a/x.scope", 0o755))
	must(t, os.WriteFile(h.proc+"/7/cgroup", []byte("0::/a/x.scope\n"), 0o644))
	d, e := h.scopeOf(7, "x.scope")
	if e != nil {
		t.Fatal(e)
	}
	// A directory in which nobody can be moved.
	_, e = h.makeInScope(SystemdUser, d, 7, &Options{})
	kindAndErrno(t, e, Absent, unix.ENOENT, "init/cgroup.procs")
	must(t, os.Remove(where+"/a/x.scope/init"))
}

func TestCommonDirectories(t *testing.T) {
	for _, c := range [][3]string{
		{"/a/b", "/a/c", "/a"}, {"/a/b", "/a/bc", "/a"}, {"/a/b", "/a/b/c", "/a/b"}, {"/a", "/a", "/a"}, {"/x", "/y", ""}, {"/a/b/c", "/a/b", "/a/b"},
	} {
		if got := common(c[0], c[1]); got != c[2] {
			t.Errorf("%s and %s: %q", c[0], c[1], got)
		}
	}
}

func TestDirectoriesAreRead(t *testing.T) {
	d := fake(t, map[string]string{"file": ""})
	for i := range 1000 { // more than one piece, and ext4's first one may be of "." alone
		must(t, os.Mkdir(d.path+"/"+strconv.Itoa(i), 0o755))
	}
	names, err := d.children()
	if err != nil || len(names) != 1000 {
		t.Errorf("%d, %v", len(names), err)
	}
	if _, err := (&dir{fd: -1, path: "/x"}).children(); err == nil {
		t.Error("no error")
	}
}
