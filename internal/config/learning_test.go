package config

import (
	"reflect"
	"slices"
	"testing"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// What somebody said stays; what only the profile says is lifted; and nothing makes the
// overlays something that can be done without.
func TestPermissive(t *testing.T) {
	strict := Setting{Option: "profile", Values: []string{"strict"}}
	resolve := func(more ...Setting) Policy {
		t.Helper()
		r, err := Resolve(Sources{Flags: append([]Setting{strict}, more...), Dir: "/", Home: "/home/u"})
		must.Do(t, err)
		r.Permissive(nil, []string{"/home/u", "/tmp"})
		return r.Policy
	}
	p := resolve()
	f := &p.Filesystem
	if p.TimeLimit != 0 || p.MemoryLimit != 0 || p.CPULimit != 0 || p.CPUs != 0 || p.OutputLimit != 0 || p.Processes == 0 || p.DiskLimit == 0 ||
		p.Seccomp != "default" || p.SeccompAction != "errno" || f.Landlock || f.Keep || f.Workdir != "overlay" || f.WorkdirAsked || p.Network.BlockInternal ||
		!slices.Equal(f.AllowRead, []string{"/"}) || !slices.Equal(f.Overlay, []string{"/home/u", "/tmp"}) || f.AllowWrite != nil || p.Network.All {
		t.Errorf("%+v", p)
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	own, err := Profile("strict")
	if err != nil || !reflect.DeepEqual(p.Env, own.Env) {
		t.Errorf("another environment than strict gives: %+v", p.Env)
	}
	p = resolve(Setting{Option: "time-limit", Values: []string{"7s"}}, Setting{Option: "allow-network", Values: []string{"example.com"}}, Setting{Option: "deny", Values: []string{"/home/u/x"}},
		Setting{Option: "workdir", Values: []string{"ro"}}, Setting{Option: "keep"}, Setting{Option: "allow-partial", Values: []string{"all"}}, Setting{Option: "allow-write", Values: []string{"/tmp"}})
	f = &p.Filesystem
	if p.TimeLimit.Seconds() != 7 || !slices.Equal(p.Network.Allow, []string{"example.com"}) || !p.Network.BlockInternal || f.Workdir != "ro" || !f.Keep || len(f.Deny) != 1 || !slices.Equal(f.Overlay, []string{"/home/u"}) {
		t.Errorf("%+v", p)
	}
	for _, c := range p.AllowPartial {
		if c == WordAll || c == string(status.Overlay) || c == string(status.Filesystem) {
			t.Errorf("%q may be done without", c)
		}
	}
	if !slices.Contains(p.AllowPartial, string(status.CPURate)) {
		t.Errorf("%q", p.AllowPartial)
	}
}
