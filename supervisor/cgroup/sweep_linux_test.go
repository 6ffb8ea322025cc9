package cgroup

import (
	"encoding/json"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// killedMaker makes a group with a member, is killed, and leaves it behind.
func killedMaker(t *testing.T, o Options) (m made, member int) {
	t.Helper()
	t.Setenv("WITH_MEMBER", "1")
	text, err := json.Marshal(struct {
		Parent  string
		Limits  Limits
		Freezer bool
	}{o.Parent, o.Limits, o.Freezer})
	must(t, err)
	maker := start(t, again("make "+string(text)))
	member, err = strconv.Atoi(maker.line())
	must(t, err)
	m = maker.made()
	if m.Error != "" || len(m.Paths) == 0 {
		t.Fatalf("%+v", m)
	}
	must(t, maker.Process.Kill())
	_ = maker.Wait()
	for _, p := range m.Paths {
		if !exists(p) {
			t.Fatal("nothing is left to be swept: ", p)
		}
	}
	return m, member
}

func TestWhatAKilledOneLeftIsSwept(t *testing.T) {
	need(t, anyMemory, anyPIDs)
	m, member := killedMaker(t, limits)
	swept(t, limits, m.Paths)
	eventually(t, "the member is gone", func() bool {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(member) + "/stat")
		return err != nil || strings.Contains(string(b), ") Z ") // whoever adopted it may take its time
	})
}

func TestFrozenLeftoversAreSwept(t *testing.T) {
	need(t, "cgroup1:freezer|cgroup2:memory", anyMemory)
	o := limits
	o.Freezer = true
	m, _ := killedMaker(t, o)
	for _, p := range m.Paths {
		_ = os.WriteFile(p+"/freezer.state", []byte("FROZEN"), 0)
		_ = os.WriteFile(p+"/cgroup.freeze", []byte("1"), 0)
	}
	swept(t, o, m.Paths)
}

// swept makes groups until the directories are gone: mostly one will do, but it
// waits only so long for what it has killed.
func swept(t *testing.T, o Options, dirs []string) {
	t.Helper()
	for _, dir := range dirs {
		eventually(t, "removed: "+dir, func() bool {
			g, err := Make(o)
			must(t, err)
			must(t, g.Remove())
			return !exists(dir)
		})
	}
}

func TestOnlyTheDeadOfTheOwnNamespacesAreSwept(t *testing.T) {
	need(t, anyMemory)
	g := mustMake(t, limits)
	parent := g.parents[0]
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
		dir   string
		swept bool
	}{
		"gone":                   {gone.name(1), true},
		"gone, the leaf":         {gone.name(2) + selfSuffix, true},
		"the number used again":  {reused.name(1), true},
		"alive":                  {alive.name(1), false},
		"this process":           {me.name(1), false},
		"another pid namespace":  {elsewhere.name(1), false},
		"another time namespace": {otherTime.name(1), false},
		"no name of ours":        {"confine-1-2", false},
		"somebody else's":        {"somebody-" + gone.name(1), false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := path.Join(parent.path, c.dir)
			must(t, os.Mkdir(dir, 0o755))
			defer os.Remove(dir)
			mustMake(t, limits)
			if exists(dir) == c.swept {
				t.Errorf("swept: %v", c.swept)
			}
		})
	}
}

func deadPID(t *testing.T) int {
	c := again("nothing")
	must(t, c.Run())
	return c.Process.Pid
}

func TestManySweepAtOnce(t *testing.T) {
	need(t, anyMemory, anyPIDs)
	var left []string
	for range 5 {
		m, _ := killedMaker(t, limits)
		left = append(left, m.Paths...)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			g, err := Make(limits)
			if err != nil {
				t.Error(err)
				return
			}
			if err := g.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	swept(t, limits, left)
}

// In a pid namespace whose proc is the outer one's, no owner can be judged by it.
func TestNothingIsJudgedByAnotherProc(t *testing.T) {
	h := thisProcess()
	h.proc = t.TempDir()
	must(t, os.Symlink("1", h.proc+"/self"))
	if _, _, ok := h.process(os.Getpid()); ok {
		t.Error("a process was seen in another proc")
	}
	reused := thisOwner()
	reused.pid, reused.start = os.Getppid(), 1<<40
	if h.dead(reused) {
		t.Error("one that lives was taken for dead")
	}
	if h = thisProcess(); !h.dead(reused) {
		t.Error("the control: its number is used by another")
	}
	h.owner.spaces = 0
	if h.dead(reused) {
		t.Error("judged without knowing the own namespaces")
	}
}
