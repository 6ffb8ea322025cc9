package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// binaryVar names a binary to be soaked; it is built otherwise.
const binaryVar = "CONFINE_BIN"

func TestMain(m *testing.M) {
	host.ProbeMain() // a throw-away process of a condition never gets any further
	if len(os.Args) > 1 && os.Args[1] == insideWord {
		inside(os.Args[2:])
	}
	os.Exit(m.Run())
}

func opened(t *testing.T) *soak {
	t.Helper()
	if ok, err := host.Has("userns"); err != nil {
		t.Fatal(err)
	} else if !ok {
		must.Do(t, host.MustRun("userns"))
		t.Skip("this host has no user namespaces")
	}
	s, err := open(os.Getenv(binaryVar))
	must.Do(t, err)
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The short one: what is said of the long one must not rot.
func TestShortSoakLeavesNothing(t *testing.T) {
	s := opened(t)
	s.byFD = true
	before, err := s.traces()
	must.Do(t, err)
	p := s.soak(setups, &options{runs: 24, atOnce: 12, repeat: 1}, func(string) {})
	for _, w := range p.wrong() {
		t.Error(w)
	}
	if len(p.refused) > 0 {
		t.Errorf("refused: %v", p.refused)
	}
	left, err := s.settle(before)
	if err != nil || len(left) > 0 {
		t.Errorf("%v, left: %s", err, strings.Join(left, "\n"))
	}
	killed := 0
	for _, b := range p.batches {
		killed += b.killed
	}
	if killed == 0 {
		t.Error("no supervisor was killed: nothing was tried")
	}
	if testing.Verbose() {
		t.Logf("\n%s", p.text())
	}
}

// The control of all that is found to leave nothing.
func TestFileProcessAndDescriptorLeftAreFound(t *testing.T) {
	s := opened(t)
	before, err := s.traces()
	must.Do(t, err)
	must.Do(t, os.WriteFile(filepath.Join(s.scratch, "tmp", "left"), nil, 0o600))
	f, err := os.Open(os.DevNull)
	must.Do(t, err)
	defer f.Close()
	cmd := exec.Command("/bin/sleep", "60")
	must.Do(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	now, err := s.traces()
	must.Do(t, err)
	for _, want := range []string{
		"file " + filepath.Join(s.scratch, "tmp", "left"),
		fmt.Sprintf("process %d: /bin/sleep 60 ", cmd.Process.Pid),
		fmt.Sprintf("descriptor %d: /dev/null", f.Fd()),
	} {
		if !now[want] || before[want] {
			t.Errorf("not seen: %s", want)
		}
	}
}

func TestCgroupLeftIsFound(t *testing.T) {
	dir, self := "", statOf("/proc/self")[fieldStart]
	for _, parent := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		at := filepath.Join(parent, fmt.Sprintf("confine-%d-%s-0-control", os.Getpid(), self))
		if _, err := os.Stat(parent + "/cgroup.procs"); err == nil && os.Mkdir(at, 0o755) == nil {
			dir = at
			break
		}
	}
	if dir == "" {
		t.Skip("no cgroup v2 root to make one in")
	}
	defer os.Remove(dir)
	s := &soak{}
	for _, ours := range []bool{false, true} {
		if ours {
			s.own(os.Getpid())
		}
		now := traces{}
		if err := s.cgroups(now); err != nil || now["cgroup "+dir] != ours {
			t.Errorf("%s, ours %v: %v, %v", dir, ours, err, now)
		}
	}
}

func TestWrongEndingsAreCounted(t *testing.T) {
	b := &batch{setup: "s", flight: 1, mechanisms: map[string]int{"memory=a": 1}}
	l := &loads[0]
	b.add(l, &ending{status: l.status, rc: l.rc, mechanisms: "memory=a", took: time.Second}, nil)
	b.add(&victim, &ending{killed: true, rc: -1}, nil)
	good := &page{batches: []*batch{b}}
	if w := good.wrong(); len(w) != 0 {
		t.Errorf("nothing is wrong, but: %v", w)
	}
	b.add(l, &ending{status: l.status, rc: l.rc, mechanisms: "memory=b"}, nil)
	b.add(l, &ending{status: status.Failed, rc: 1}, nil)
	b.add(l, nil, os.ErrNotExist)
	if w := good.wrong(); len(w) != 3 {
		t.Errorf("%v", w)
	}
	r := &struck{strike: strikes[0], seen: map[string]int{}}
	r.add(&ending{status: status.Timeout, rc: 124, hits: []string{"wall_time"}}, nil)
	if len(r.wrong) != 0 {
		t.Errorf("%v", r.wrong)
	}
	r.add(&ending{status: status.MemLimit, rc: 137, hits: []string{"memory"}}, nil)
	r.add(&ending{status: status.Timeout, rc: 124}, nil)
	if len(r.wrong) != 2 {
		t.Errorf("%v", r.wrong)
	}
	if w := (&page{}).wrong(); len(w) != 1 {
		t.Errorf("nothing at all was run: %v", w)
	}
}
