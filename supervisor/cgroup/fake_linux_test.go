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
	"github.com/confine-run/confine/internal/must"
)

// fake is an ordinary directory with files that look like a cgroup's, for what
// no kernel does when asked.
func fake(t testing.TB, files map[string]string) *dir {
	t.Helper()
	name := t.TempDir()
	for file, text := range files {
		must.Do(t, os.WriteFile(path.Join(name, file), []byte(text), 0o644))
	}
	d, err := openDir(name)
	must.Do(t, err)
	t.Cleanup(d.close)
	return d
}

func kindAndErrno(t *testing.T, err error, kind Kind, errno unix.Errno, words string) {
	t.Helper()
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != kind || e.Errno != errno || !strings.Contains(err.Error(), words) {
		t.Errorf("%+v, want %s, %v, %q", err, kind, errno, words)
	}
}

func TestAMissingFileForALimit(t *testing.T) {
	swapped := "" // without accounting of swap a limit on memory holds where there is none
	if hasSwap() {
		swapped = "no such file"
	}
	for _, c := range []struct {
		files string
		limit func(*dir, Limits) error
		words string
	}{
		{"memory.max memory.swap.max", limitMemory, `memory.oom.group": no such file`},
		{"memory.max memory.oom.group", limitMemory, swapped},
		{"memory.limit_in_bytes", limitMemory1, swapped},
		{"memory.limit_in_bytes memory.swappiness", limitMemory1, ""},
		{"", limitMemory1, `memory.limit_in_bytes": no such file`},
		{"", limitCPU, `cpu.max": no such file`},
	} {
		files := map[string]string{}
		for _, name := range strings.Fields(c.files) {
			files[name] = ""
		}
		err := c.limit(fake(t, files), Limits{Memory: mib, CPUPercent: 50})
		if (err != nil) != (c.words != "") || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", c.files, err)
		}
	}
}

func TestAnEventThatNeverComesIsWaitedForNoLonger(t *testing.T) {
	kindAndErrno(t, fake(t, nil).await("frozen 1", time.Now()), Absent, unix.ENOENT, "cgroup.events")
	stuck := fake(t, map[string]string{"cgroup.events": "populated 1\nfrozen 0\n"})
	kindAndErrno(t, stuck.await("frozen 1", time.Now().Add(time.Millisecond)), TimedOut, unix.ETIMEDOUT, "cgroup.events")
	must.Do(t, stuck.await("populated 1", time.Now()))
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
	must.Do(t, g.kill(time.Now().Add(time.Minute)))
	if s := signalOf(<-ended); s != unix.SIGKILL {
		t.Error(s)
	}
	must.Do(t, os.WriteFile(d.path+"/cgroup.procs", []byte("1073741823\n"), 0o644)) // nobody
	kindAndErrno(t, g.kill(time.Now().Add(time.Millisecond)), TimedOut, unix.ETIMEDOUT, "cgroup.procs")
}

func TestRemoveReportsWhatItLeaves(t *testing.T) {
	parent := fake(t, nil)
	d, err := parent.make("full")
	must.Do(t, err)
	defer d.close()
	must.Do(t, os.WriteFile(d.path+"/cgroup.events", []byte("populated 1\n"), 0o644))
	kindAndErrno(t, d.removeTree(2, time.Now()), TimedOut, unix.ETIMEDOUT, "cgroup.events")
	if err := d.removeTree(1, time.Now()); err != unix.ENOTEMPTY {
		t.Error(err)
	}
	g := &Group{source: WritableParent, version: 2, dirs: []*dir{d}, undo: func() *Error { return &Error{Kind: Failed} }}
	kindAndErrno(t, g.Remove(), Failed, unix.ENOTEMPTY, "rmdir")
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
			must.Do(t, err)
		}
		if h.delegated(dir) != want {
			t.Errorf("user.delegate is %s", value)
		}
	}
}

func TestWhatLookOffersOfSystemd(t *testing.T) {
	h := thisProcess()
	h.run, h.owner.spaces = t.TempDir(), initialPIDNamespace<<32
	f := &facts{dirs: []hierarchy.Dir{{Controllers: []string{"cpu"}}, {Mount: "/cg", Path: "/cg/x", V2: true}},
		controllers: func(dir string) string {
			return map[string]string{"/cg": "io cpu rdma\n", userUnit: "memory pids\n"}[dir]
		}}
	h.euid = 0
	_, e := h.lookScope(f, Offer{Source: SystemdSystem})
	kindAndErrno(t, e, NoSystemd, unix.ENOENT, "system_bus_socket")
	must.Do(t, os.Mkdir(h.run+"/systemd", 0o755))
	must.Do(t, os.WriteFile(h.run+"/systemd/private", nil, 0o666))
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
		must.Do(t, os.Mkdir(h.proc+"/"+dir, 0o755))
	}
	where := t.TempDir()
	must.Do(t, os.WriteFile(h.proc+"/self/mountinfo", []byte("30 23 0:26 / "+where+" rw - cgroup2 cgroup2 rw\n"), 0o644))
	for cgroup, words := range map[string]string{
		"":               "in no hierarchy",
		"0::/a/y.scope":  "and not in x.scope",
		"0::/a/x.scope":  "open",
		"0::/../x.scope": "in no hierarchy",
	} {
		must.Do(t, os.WriteFile(h.proc+"/7/cgroup", []byte(cgroup+"\n"), 0o644))
		if _, e := h.scopeOf(7, "x.scope"); e == nil || !strings.Contains(e.Error(), words) {
			t.Errorf("%q: %v", cgroup, e)
		}
	}
	must.Do(t, os.MkdirAll(where+"/a/x.scope", 0o755))
	must.Do(t, os.WriteFile(h.proc+"/7/cgroup", []byte("0::/a/x.scope\n"), 0o644))
	d, e := h.scopeOf(7, "x.scope")
	if e != nil {
		t.Fatal(e)
	}
	// A directory in which nobody can be moved.
	_, e = h.makeInScope(SystemdUser, d, 7, &Options{})
	kindAndErrno(t, e, Absent, unix.ENOENT, "init/cgroup.procs")
	must.Do(t, os.Remove(where+"/a/x.scope/init"))
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
