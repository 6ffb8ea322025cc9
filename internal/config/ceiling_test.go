package config

import (
	"math"
	"reflect"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// ceilingTest is a ceiling that allows some of everything.
func ceilingTest() *Policy {
	p := Default()
	c := &p
	c.TimeLimit, c.CPUTime, c.MemoryLimit, c.CPULimit, c.CPUs, c.Processes, c.FileDescriptors = 10, 10, 10, 10, 10, 10, 10
	c.DiskLimit, c.MaxFileSize, c.MaxFiles, c.OutputLimit, c.Grace = 10, 10, 10, 10, 10
	c.Network = Network{Allow: []string{"a.test"}, Deny: []string{"b.test"}, Ports: []int{443}, BlockInternal: true, Log: true, MaxBytes: 10, MaxConnections: 10, Publish: []string{"80:80"}}
	c.Filesystem = Filesystem{AllowRead: []string{"/srv"}, AllowWrite: []string{"/var/work"}, Deny: []string{"*.key"}, Workdir: "ro",
		Mounts: []Mount{{Src: "/srv", Dst: "/data"}}, Virtual: true, Overlay: []string{"/opt"}, Landlock: true, Protect: []string{".git"}, Log: true}
	c.Seccomp, c.SeccompAction, c.Isolation, c.User = "default", "errno", "vm", &User{UID: 1, GID: 1}
	c.Deterministic = true
	c.AllowPartial, c.Require, c.CgroupParent = []string{"memory"}, []string{"pids"}, "/own"
	return c
}

func TestAPolicyIsWithinItself(t *testing.T) {
	for _, name := range Profiles() {
		p, err := Profile(name)
		must.Do(t, err)
		if option := p.Wider(&p); option != "" {
			t.Errorf("%s: %s", name, option)
		}
	}
	if option := ceilingTest().Wider(ceilingTest()); option != "" {
		t.Error(option)
	}
}

// Each field is made wider, alone, and is found. A field that nobody compares is found here, too.
func TestEachWiderOptionIsFound(t *testing.T) {
	c := ceilingTest()
	widen := func(v reflect.Value, name string) bool {
		switch v.Kind() {
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Slice:
			switch name {
			case "Deny", "Ports", "Protect", "Require": // these narrow
				v.SetZero()
			default:
				v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
			}
		case reflect.Pointer:
			v.SetZero()
		case reflect.String:
			switch name {
			case "Workdir":
				v.SetString("rw")
			case "Seccomp":
				v.SetString("off")
			case "SeccompAction":
				v.SetString("log")
			default:
				v.SetString("other")
			}
		default:
			return false
		}
		return true
	}
	free := map[string]bool{"Profile": true, "WorkdirAsked": true, "Chdir": true, "Env": true, "trusted": true, "TempDir": true}
	var each func(path []int, of reflect.Type)
	each = func(path []int, of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			at := append(path[:len(path):len(path)], i)
			if free[f.Name] {
				continue
			}
			if f.Type.Kind() == reflect.Struct {
				each(at, f.Type)
				continue
			}
			p := ceilingTest()
			if !widen(reflect.ValueOf(p).Elem().FieldByIndex(at), f.Name) {
				t.Errorf("%s is of a kind that nobody compares", f.Name)
			}
			if p.Wider(c) == "" {
				t.Errorf("%s is wider, and that is not seen", f.Name)
			}
		}
	}
	each(nil, reflect.TypeFor[Policy]())
}

func TestNarrowerPoliciesAreWithin(t *testing.T) {
	c := ceilingTest()
	for name, narrow := range map[string]func(p *Policy){
		"a lower limit":          func(p *Policy) { p.TimeLimit, p.MemoryLimit = 5, 1 },
		"a path below":           func(p *Policy) { p.Filesystem.AllowRead = []string{"/srv/a/b", "/var/work/x"} },
		"nothing of the workdir": func(p *Policy) { p.Filesystem.Workdir = "none" },
		"no network":             func(p *Policy) { p.Network.Allow = nil },
		"a port of a host, another denied with all below it": func(p *Policy) {
			p.Network.Allow, p.Network.Ports, p.Network.Deny = []string{"a.test:443"}, nil, []string{"*.test", "b.*"}
		},
		"a stricter filter": func(p *Policy) { p.Seccomp = "strict" },
		"more denied, and needed": func(p *Policy) {
			p.Filesystem.Deny = append(p.Filesystem.Deny, "x")
			p.Require = append(p.Require, "y")
		},
		"a private place in what is left of the disk limit": func(p *Policy) {
			p.DiskLimit, p.Filesystem.Mounts = 4, []Mount{{Dst: "/x", Size: 4}, {Dst: "/y", Size: 2}}
		},
	} {
		p := ceilingTest()
		narrow(p)
		if option := p.Wider(c); option != "" {
			t.Errorf("%s: %s", name, option)
		}
	}
	open := *c
	open.User, open.Seccomp, open.SeccompAction, open.Isolation = nil, "off", "kill", ""
	for name, change := range map[string]func(p *Policy){
		"a user, where the ceiling has none": func(p *Policy) { p.User = &User{UID: 2, GID: 2} },
		"a filter of a file":                 func(p *Policy) { p.Seccomp = "/etc/passwd" },
		"what is milder than to kill":        func(p *Policy) { p.SeccompAction = "errno" },
		"another isolation":                  func(p *Policy) { p.Isolation = "vm" },
	} {
		p := open
		if option := p.Wider(&open); option != "" {
			t.Fatal(option)
		}
		if change(&p); p.Wider(&open) == "" {
			t.Errorf("%s is within", name)
		}
	}
	for name, leave := range map[string]func(p *Policy){
		"a tree beside one of the same beginning": func(p *Policy) { p.Filesystem.AllowRead = []string{"/srv2"} },
		"a way out of it":                         func(p *Policy) { p.Filesystem.AllowRead = []string{"/srv/../etc"} },
		"readable made writable":                  func(p *Policy) { p.Filesystem.AllowWrite = []string{"/srv"} },
		"no limit":                                func(p *Policy) { p.MemoryLimit = 0 },
		"another port":                            func(p *Policy) { p.Network.Allow = []string{"a.test:80"} },
		"a host beside it":                        func(p *Policy) { p.Network.Allow = []string{"ba.test"} },
		"one of the denied ports open":            func(p *Policy) { p.Network.Deny = []string{"b.test:80"} },
		"any port":                                func(p *Policy) { p.Network.Ports = nil },
		"a private place beside the disk limit":   func(p *Policy) { p.Filesystem.Mounts = []Mount{{Dst: "/x", Size: 1}} },
		"places that are too large together": func(p *Policy) {
			p.DiskLimit, p.Filesystem.Mounts = 2, []Mount{{Dst: "/x", Size: 5}, {Dst: "/y", Size: 4}}
		},
		"places that are more than a number holds": func(p *Policy) {
			p.DiskLimit, p.Filesystem.Mounts = 1, []Mount{{Dst: "/x", Size: math.MaxInt64}, {Dst: "/y", Size: math.MaxInt64}}
		},
		"another user, where the ceiling has one": func(p *Policy) { p.User = &User{UID: 2, GID: 1} },
		"a filter of a file":                      func(p *Policy) { p.Seccomp = "/etc/passwd" },
		"a backend that compares no files":        func(p *Policy) { p.Isolation = "process" },
	} {
		p := ceilingTest()
		leave(p)
		if p.Wider(c) == "" {
			t.Errorf("%s is within", name)
		}
	}
}
