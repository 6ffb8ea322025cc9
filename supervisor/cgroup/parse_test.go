package cgroup

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/hierarchy"
)

func TestNumber(t *testing.T) {
	for text, want := range map[string]int64{
		"0\n": 0, "12\n": 12, "12 34": 12, "9223372036854771712\n": 9223372036854771712, "99999999999999999999\n": 1<<63 - 1,
		"": -1, "max\n": -1, "-1\n": -1, "\n": -1,
	} {
		if got, ok := number([]byte(text)); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
}

func TestFields(t *testing.T) {
	events := []byte("low 0\nhigh 1\nmax 22\noom 3\noom_kill 4\noom_group_kill 5\n")
	for key, want := range map[string]Count{
		"max": {22, true}, "oom": {3, true}, "oom_kill": {4, true}, "oom_group_kill": {5, true}, "o": {}, "kill": {}, "": {},
	} {
		if got := field(events, key); got != want {
			t.Errorf("%s: %+v", key, got)
		}
	}
	pressure := []byte("some avg10=0.00 avg60=1.50 avg300=0.33 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=56\n")
	if some, full := total(pressure, "some"), total(pressure, "full"); some.D != 1234*time.Microsecond || full.D != 56*time.Microsecond {
		t.Errorf("%+v, %+v", some, full)
	}
	if got := total([]byte("some avg10\nfull\n"), "some"); got.Known {
		t.Errorf("%+v", got)
	}
	if got := total(nil, "some"); got.Known {
		t.Errorf("%+v", got)
	}
	io := []byte("8:0 rbytes=100 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n253:0 rbytes=1 wbytes=2 rios=1 wios=2\n")
	if r, w := sums(io, " rbytes="), sums(io, " wbytes="); r != (Count{101, true}) || w != (Count{22, true}) {
		t.Errorf("%+v, %+v", r, w)
	}
	if got := sums(nil, " rbytes="); got != (Count{0, true}) {
		t.Errorf("%+v", got)
	}
	for word, want := range map[string]bool{"cpu": true, "memory": true, "pids": true, "cpuset": true, "mem": false, "": false} {
		if hasWord([]byte("cpuset cpu memory pids\n"), word) != want {
			t.Errorf("%q: %v", word, !want)
		}
	}
}

func TestNames(t *testing.T) {
	o := owner{pid: 12, start: 345, spaces: 0xeffffffceffffffa}
	name := o.name(0xbeef)
	if name != "confine-12-345-effffffceffffffa-beef" {
		t.Error(name)
	}
	for _, s := range []string{name, name + selfSuffix} {
		if got, ok := parseName(s); !ok || got != o {
			t.Errorf("%s: %+v, %v", s, got, ok)
		}
	}
	for _, s := range []string{
		"", "confine", "confine-", "confine-1-2-3", "confine-1-2-3-4-5", "confine-0-2-3-4", "confine--1-2-3-4", "confine-x-2-3-4",
		"confine-1-x-3-4", "confine-1-2-x-4", "confine-1-2-3-x", "confine-1-2-3-100000000", "Confine-1-2-3-4", "confine-12-3-4-5.scope",
	} {
		if got, ok := parseName(s); ok {
			t.Errorf("%s: %+v", s, got)
		}
	}
}

func TestStartOf(t *testing.T) {
	rest := " S 1 12 12 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 987 0 0\n"
	for _, comm := range []string{"(sh)", "(a) S 7 (b)", "(\n)"} {
		if ppid, start, ok := startOf("12 " + comm + rest); !ok || ppid != 1 || start != 987 {
			t.Errorf("%q: %d, %d, %v", comm, ppid, start, ok)
		}
	}
	for _, s := range []string{"", "12 (sh", "12 (sh) S 1", strings.Replace("12 (sh)"+rest, "987", "x", 1)} {
		if _, _, ok := startOf(s); ok {
			t.Errorf("%q", s)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("max 1\nsome avg10=0 total=12\n8:0 rbytes=1\n", "max")
	f.Fuzz(func(t *testing.T, text, key string) {
		b := []byte(text)
		if c := field(b, key); c.N < 0 || c.N != 0 && !c.Known {
			t.Errorf("%+v", c)
		}
		total(b, key)
		hasWord(b, key)
		if key != "" {
			sums(b, key)
		}
		if o, ok := parseName(text); ok && (o.pid <= 0 || o.start < 0) {
			t.Errorf("%+v", o)
		}
		startOf(text)
	})
}

func TestErrorsSayWhatWhereAndWhy(t *testing.T) {
	first := &Error{Source: SystemdUser, Kind: NoSystemd, Why: "not there"}
	err := first.and(&Error{Source: CgroupV1, Kind: Denied, Op: "mkdirat", Path: "/sys/fs/cgroup/memory", Errno: syscall.EACCES}).
		and(&Error{Path: "/x", Errno: syscall.EBUSY, Why: "so"})
	want := `systemd_user_scope: not there; cgroup_v1: mkdirat "/sys/fs/cgroup/memory": permission denied; "/x": device or resource busy: so`
	if err.Error() != want {
		t.Error(err)
	}
	for _, errno := range []error{syscall.EACCES, syscall.EBUSY} {
		if !errors.Is(err, errno) {
			t.Errorf("%v is lost", errno)
		}
	}
	if errors.Is(err, syscall.EPERM) || (*Error)(nil).and(first) != first {
		t.Error(err)
	}
	for errno, kind := range map[syscall.Errno]Kind{
		syscall.ENOENT: Absent, syscall.EROFS: ReadOnly, syscall.EPERM: Denied, syscall.EAGAIN: Full, syscall.EBUSY: Occupied,
		syscall.ETIMEDOUT: TimedOut, syscall.EIO: Failed,
	} {
		if got := kindOf(errno); got != kind {
			t.Errorf("%v: %s", errno, got)
		}
	}
}

func TestSites(t *testing.T) {
	const mount = "/sys/fs/cgroup"
	v2 := func(below string) hierarchy.Dir { return hierarchy.Dir{Path: mount + below, Mount: mount, V2: true} }
	v1 := hierarchy.Dir{Path: "/cg/memory/a", Mount: "/cg/memory", Controllers: []string{"memory"}}
	cpu := hierarchy.Dir{Path: "/cg/cpu/b", Mount: "/cg/cpu", Controllers: []string{"cpu"}}
	unit := "/user.slice/user-7.slice/user@7.service"
	for name, c := range map[string]struct {
		facts  facts
		parent string
		none   bool // the hierarchy of v2 has no controllers
		want   string
	}{
		"an ordinary user of systemd's": {facts{dirs: []hierarchy.Dir{v2(unit + "/app.slice/x.scope")}, systemd: true, anchor: true}, "", false,
			"systemd_user_scope writable_parent(managed)"},
		"as root": {facts{dirs: []hierarchy.Dir{v2("/system.slice/x.service")}, systemd: true, root: true, anchor: true}, "", false,
			"systemd_system_scope writable_parent(managed)"},
		"a delegated unit": {facts{dirs: []hierarchy.Dir{v2("/system.slice/x.service/in/it")}, systemd: true, root: true, anchor: true,
			delegated: func(unit string) bool { return unit == mount+"/system.slice/x.service" }}, "", false,
			"systemd_system_scope writable_parent"},
		"no process for a scope": {facts{dirs: []hierarchy.Dir{v2("/x.service")}, systemd: true}, "", false,
			"systemd_user_scope(no_systemd) writable_parent(managed)"},
		"a slice":              {facts{dirs: []hierarchy.Dir{v2("/a.slice")}, systemd: true, anchor: true}, "", false, "systemd_user_scope writable_parent(managed)"},
		"a container":          {facts{dirs: []hierarchy.Dir{v2("")}, anchor: true}, "", false, "writable_parent"},
		"v1":                   {facts{dirs: []hierarchy.Dir{v1}}, "", false, "cgroup_v1"},
		"both":                 {facts{dirs: []hierarchy.Dir{v1, v2("")}}, "", false, "writable_parent cgroup_v1"},
		"v2 bare, and v1":      {facts{dirs: []hierarchy.Dir{v1, v2("")}, systemd: true}, "", true, "cgroup_v1"},
		"v2 bare":              {facts{dirs: []hierarchy.Dir{v2("")}}, "", true, "writable_parent(no_controller)"},
		"nothing mounted":      {facts{}, "", false, "writable_parent(absent)"},
		"a parent":             {facts{dirs: []hierarchy.Dir{v1, v2("")}, systemd: true}, "/p", false, "cgroup_parent"},
		"a parent in v1":       {facts{dirs: []hierarchy.Dir{v1, cpu}}, "/cg/memory/p/q", false, "cgroup_parent /cg/memory/p/q /cg/cpu/p/q"},
		"the root of v1":       {facts{dirs: []hierarchy.Dir{v1, cpu}}, "/cg/cpu", false, "cgroup_parent /cg/memory /cg/cpu"},
		"a parent besides one": {facts{dirs: []hierarchy.Dir{v1, cpu}}, "/cg/cpuset/p", false, "cgroup_parent"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.facts.delegated == nil {
				c.facts.delegated = func(string) bool { return false }
			}
			c.facts.controllers = func(string) string { return map[bool]string{false: "cpu memory pids\n"}[c.none] }
			var words []string
			for _, s := range sites(&c.facts, c.parent, &Limits{}) {
				word := string(s.source)
				if s.err != nil {
					word += "(" + string(s.err.Kind) + ")"
				}
				words = append(words, word)
				if s.source == CgroupParent {
					for _, d := range s.v1 {
						words = append(words, d.Path)
					}
				}
			}
			if got := strings.Join(words, " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestUnits(t *testing.T) {
	for dir, want := range map[string]string{
		"/c": "", "/c/a.slice": "", "/c/a.slice/b.service": "/c/a.slice/b.service", "/c/a.service/init.scope/x/y": "/c/a.service/init.scope", "/d": "",
	} {
		if got := unitOf(dir, "/c"); got != want {
			t.Errorf("%s: %q", dir, got)
		}
	}
}

func TestWanted(t *testing.T) {
	for _, c := range []struct {
		l               Limits
		wanted, limited string
	}{
		{Limits{}, "memory pids ", ""},
		{Limits{CPUPercent: 1}, "memory pids cpu ", "cpu "},
		{Limits{Memory: 1, Tasks: 1}, "memory pids ", "memory pids "},
	} {
		wanted, limited := "", ""
		for _, o := range []Controller{Memory, PIDs, CPU, CPUAcct, CPUSet, IO} {
			if c.l.wanted(o) {
				wanted += string(o) + " "
			}
			if c.l.limited(o) {
				limited += string(o) + " "
			}
		}
		if wanted != c.wanted || limited != c.limited {
			t.Errorf("%+v: wanted %q, limited %q", c.l, wanted, limited)
		}
	}
	offer := Offer{Controllers: []Controller{CPU}}
	if !offer.Has(CPU) || offer.Has(Memory) {
		t.Error(offer)
	}
}

func TestViewsOfV1(t *testing.T) {
	for controllers, want := range map[string]string{
		"memory":      "/sys/fs/cgroup/memory [] true",
		"pids":        "/sys/fs/cgroup/pids [] false",
		"cpu,cpuacct": "/sys/fs/cgroup/cpu,cpuacct [/sys/fs/cgroup/cpu /sys/fs/cgroup/cpuacct] true",
	} {
		v, ok := view1("/x", strings.Split(controllers, ","))
		if got := fmt.Sprint(v.At, " ", v.Links, " ", ok); got != want || v.Path != "/x" {
			t.Errorf("%s, %+v, want %s", got, v, want)
		}
	}
}
