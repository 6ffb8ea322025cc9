package cgroup

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAUserIsToldWhy(t *testing.T) {
	need(t, "cgroup1:memory", "root")
	text, err := json.Marshal(struct{ Limits Limits }{limits.Limits})
	must(t, err)
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
	for _, p := range own.parents {
		places[p.path] = p.path
	}
	first := own.dirs[0] // of memory
	parent := first.path + "-parent"
	must(t, os.Mkdir(parent, 0o755))
	t.Cleanup(func() { must(t, os.Remove(parent)) })
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
	if _, ok := g.Holds(Memory); !ok {
		t.Error(g.WhyNot(Memory))
	}
	if offer := Look(parent); offer.Err != nil || offer.Source != CgroupParent || offer.Version != 1 || offer.Path != parent || !offer.Has(Memory) || !offer.Has(Freezer) {
		t.Errorf("%+v", offer)
	}
	if offer := Look(""); offer.Err != nil || offer.Source != CgroupV1 || !offer.Has(PIDs) {
		t.Errorf("%+v", offer)
	}
}

func TestAParentThatIsNoCgroup(t *testing.T) {
	file := path.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o644))
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

func TestEightProgramsAtOnce(t *testing.T) {
	need(t, anyMemory, "root")
	text, err := json.Marshal(struct{ Limits Limits }{limits.Limits})
	must(t, err)
	var all []*process
	for range 8 {
		all = append(all, start(t, again("make "+string(text))))
	}
	for _, p := range all {
		if m := p.made(); m.Error != "" || m.Memory == "" {
			t.Errorf("%+v", m)
		}
	}
	for _, p := range all {
		must(t, p.in.Close())
		p.made()
		if err := p.Wait(); err != nil {
			t.Error(err.(*exec.ExitError))
		}
	}
}
