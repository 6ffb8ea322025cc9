package confine

import (
	"strings"
	"testing"
)

func TestConflicts(t *testing.T) {
	for _, c := range []struct {
		name, want string
		flags      []Setting
	}{
		{"deny on the caller's network", "deny-network", []Setting{flag("allow-network", "all"), flag("deny-network", "x")}},
		{"ports on the caller's network", "allow-port", []Setting{flag("allow-network", "all"), flag("allow-port", "80")}},
		{"bytes on the caller's network", "network-bytes can't", []Setting{flag("allow-network", "all"), flag("network-bytes", "1M")}},
		{"connections on the caller's network", "--network-connections none", []Setting{flag("allow-network", "all"), flag("network-connections", "4")}},
		{"a virtual tree of nothing", "virtual-fs", []Setting{flag("virtual-fs")}},
		{"two mounts at one place", "same destination", []Setting{flag("mount", "/a:/x"), flag("mount", "/b:/x/")}},
		{"one port published twice", "same port", []Setting{flag("publish", "80:1"), flag("publish", "80:2")}},
		{"required and given up", `"memory"`, []Setting{flag("require", "memory=x"), flag("allow-partial", "mem")}},
		{"captured and on a terminal", "--tty always", []Setting{flag("json"), flag("tty", "always")}},
		{"two reports in one file", "two places", []Setting{flag("report", "/x"), flag("events", "/x")}},
	} {
		_, err := Resolve(Sources{Dir: "/", Flags: c.flags})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, flags := range [][]Setting{
		{flag("allow-network", "all"), flag("allow-partial", "all"), flag("require", "memory")},
		{flag("allow-network", "all"), flag("network-bytes", "none"), flag("network-connections", "none")},
		{flag("virtual-fs"), flag("mount", "/a:/b"), flag("mount", "/a:/c"), flag("publish", "1:1,2:2")},
	} {
		if _, err := Resolve(Sources{Dir: "/", Flags: flags}); err != nil {
			t.Errorf("%v: %v", flags, err)
		}
	}
}

func TestSurprisesAreNoted(t *testing.T) {
	for _, c := range []struct {
		want  string
		flags []Setting
	}{
		{"", nil},
		{"narrows nothing", []Setting{flag("allow-network", "all,example.com")}},
		{"nothing to keep", []Setting{flag("keep")}},
		{"", []Setting{flag("keep"), flag("workdir", "overlay")}},
		{"", []Setting{flag("keep"), flag("overlay", "/o")}},
		{"", []Setting{flag("keep"), flag("mount", "/a:/b:overlay")}},
	} {
		r := resolve(t, Sources{Dir: "/", Flags: c.flags})
		if got := strings.Join(r.Notices, "\n"); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v: notices %q", c.flags, r.Notices)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, spoil := range map[string]func(*Policy){
		"time-limit":    func(p *Policy) { p.TimeLimit = -1 },
		"memory-limit":  func(p *Policy) { p.MemoryLimit = -5 },
		"cpus":          func(p *Policy) { p.CPUs = -1 },
		"allow-network": func(p *Policy) { p.Network.Allow = []string{"a b"} },
		"allow-port":    func(p *Policy) { p.Network.Ports = []int{0} },
		"allow-read":    func(p *Policy) { p.Filesystem.AllowRead = []string{"relative"} },
		"workdir":       func(p *Policy) { p.Filesystem.Workdir = "rx" },
		"mount":         func(p *Policy) { p.Filesystem.Mounts = []Mount{{Src: "/a", Dst: "b"}} },
		"env ":          func(p *Policy) { p.Env.Pass = []string{"A=B"} },
		"env-set":       func(p *Policy) { p.Env.Set = map[string]string{"": "x"} },
		"user":          func(p *Policy) { p.User = &User{UID: 1<<32 - 1} },
		"require":       func(p *Policy) { p.Require = []string{"x"} },
		"same destination": func(p *Policy) {
			p.Filesystem.Mounts = []Mount{{Src: "/a", Dst: "/b"}, {Src: "/c", Dst: "/b"}}
		},
	} {
		p := Default()
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		spoil(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Policy{}).Validate(); err != nil {
		t.Errorf("the zero policy: %v", err)
	}
}
