package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/golden"
	"github.com/confine-run/confine/internal/must"
)

// What each profile says, and the digest of it: one that shipped stays as it is.
func TestShippedProfilesAreUnchanged(t *testing.T) {
	var digests strings.Builder
	for _, name := range Profiles() {
		p, err := Profile(name)
		must.Do(t, err)
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var b strings.Builder
		for _, o := range Options() {
			if !o.Run {
				b.WriteString(o.Name + ": " + cmp.Or(strings.Join(o.words(&Resolved{Policy: p}), ", "), "none") + "\n")
			}
		}
		golden.Check(t, "testdata/profile_"+name+".golden", b.String())
		digests.WriteString(name + " " + p.Digest() + "\n")
	}
	golden.Check(t, "testdata/profile_digests.golden", digests.String())
}

func TestUnknownProfile(t *testing.T) {
	for _, name := range []string{"", "none", "Strikt", "testin"} {
		if _, err := Profile(name); err == nil || !strings.Contains(err.Error(), "unknown profile") {
			t.Errorf("Profile(%q): %v", name, err)
		}
		if _, err := ProfileTOML(name); err == nil {
			t.Errorf("ProfileTOML(%q) gives no error", name)
		}
		if _, err := ShowProfile(Sources{}, name); err == nil {
			t.Errorf("ShowProfile(%q) gives no error", name)
		}
	}
}

// A profile as TOML, pasted under its own name or another, gives the same policy,
// whatever the profile of that name says.
func TestProfileTOMLCanBePasted(t *testing.T) {
	for _, name := range Profiles() {
		want, err := Profile(name)
		must.Do(t, err)
		text, err := ProfileTOML(name)
		must.Do(t, err)
		for _, as := range []string{name, "mine", "development"} {
			pasted := strings.ReplaceAll(text, "sandbox.profiles."+name, "sandbox.profiles."+as)
			r := resolve(t, Sources{Dir: "/", SystemFile: tempFile(t, pasted), Flags: []Setting{{Option: "profile", Values: []string{as}}}})
			got := r.Policy
			got.Profile = name
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s pasted as %s:\n%+v\nwant\n%+v", name, as, got, want)
			}
		}
	}
}

// A policy with everything in it survives TOML too, strange names included.
func TestPolicyTOML(t *testing.T) {
	src := Sources{Dir: "/", Flags: []Setting{{Option: "env", Values: []string{"Q=\"\\\n\x01\x7fä\u2028"}}, {Option: "allow-read", Values: []string{"/a \"b\"\\c"}}}}
	for _, o := range Options() {
		if !o.Run && !o.FileOnly {
			src.Flags = append(src.Flags, Setting{Option: o.Name, Values: []string{samples[o.Name].flag}})
		}
	}
	want := resolve(t, src).Policy
	text := want.TOML("every thing")
	got := resolve(t, Sources{Dir: "/", SystemFile: tempFile(t, strings.ReplaceAll(text, `"every thing"`, "mine")), Flags: []Setting{{Option: "profile", Values: []string{"mine"}}}}).Policy
	if got.Digest() != want.Digest() {
		t.Errorf("%s\ngives %+v\nwant %+v", text, got, want)
	}
	if empty := (&Policy{}).TOML("x"); !strings.Contains(empty, "set = {}") {
		t.Errorf("the empty policy is\n%s", empty)
	}
}

func TestProfilesOfFiles(t *testing.T) {
	system := tempFile(t, `
[sandbox.profiles.ci]
extends = "testing"
time_limit = "5m"
allow_network = ["a.example"]
[sandbox.profiles.ci.env.set]
CI = "1"
[sandbox.profiles.nightly]
extends = "ci"
time_limit = "none"
network = { allow_domains = ["b.example"] }
[sandbox.profiles.small]
memory_limit = "10M"
[sandbox.profiles.bare]
extends = "none"
[sandbox.profiles.strict]
time_limit = "1s"
[sandbox.profiles.testing]
extends = "testing"
processes = 7
[test]
sandbox_time_limit = "5s"
`)
	config := tempFile(t, `
[sandbox.profiles.ci]
processes = 11
[sandbox.profiles.over]
extends = "strict"
`)
	at := func(profile string) Policy {
		t.Helper()
		return resolve(t, Sources{Dir: "/", SystemFile: system, Flags: []Setting{
			{Option: "config", Values: []string{config}}, {Option: "profile", Values: []string{profile}},
		}}).Policy
	}
	if p := at("ci"); p.TimeLimit.Minutes() != 5 || p.Processes != 11 || p.MemoryLimit != 500<<20 || p.Filesystem.Workdir != "overlay" || p.Env.Set["CI"] != "1" || p.Env.Set["TZ"] != "UTC" {
		t.Errorf("ci: %+v", p)
	}
	if p := at("nightly"); p.TimeLimit != 0 || p.Processes != 11 || !slices.Equal(p.Network.Allow, []string{"a.example", "b.example"}) {
		t.Errorf("nightly: %+v", p)
	}
	if p := at("small"); p.MemoryLimit != 10<<20 || p.TimeLimit.Seconds() != 30 || p.Processes != 32 {
		t.Errorf("a profile that extends nothing by name has not the limits of default: %+v", p)
	}
	if p := at("bare"); p.TimeLimit != 0 || p.Filesystem.Workdir != "none" || p.Seccomp != "default" || !p.Network.BlockInternal || len(p.Env.Pass) > 0 {
		t.Errorf("bare: %+v", p)
	}
	if p := at("strict"); p.TimeLimit.Seconds() != 1 || p.Seccomp != "strict" || p.MemoryLimit != 256<<20 {
		t.Errorf("a shipped profile with something laid over it: %+v", p)
	}
	if p := at("over"); p.TimeLimit.Seconds() != 1 || p.Seccomp != "strict" {
		t.Errorf("extending that one: %+v", p)
	}
	if p := at("testing"); p.TimeLimit.Seconds() != 5 || p.Processes != 7 {
		t.Errorf("testing with [test]: %+v", p)
	}
}

func TestTestTableSwitchedOff(t *testing.T) {
	path := tempFile(t, "[test]\nsandbox = false\nsandbox_time_limit = 5\n")
	r := resolve(t, Sources{Dir: "/", SystemFile: path, Flags: []Setting{{Option: "profile", Values: []string{"testing"}}}})
	if r.Policy.TimeLimit.Seconds() != 30 || len(r.Notices) != 1 || !strings.Contains(r.Notices[0], "sandbox = false") {
		t.Errorf("%v, notices %q", r.Policy.TimeLimit, r.Notices)
	}
	write(t, path, "[test]\nsandbox_time_limit = 5\n")
	if r = resolve(t, Sources{Dir: "/", SystemFile: path}); r.Policy.TimeLimit.Seconds() != 30 {
		t.Errorf("limits of tests hold for everything: %v", r.Policy.TimeLimit)
	}
}

func TestErrorsOfExtends(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"itself", "[sandbox.profiles.a]\nextends = 'a'\n", `confine.toml:2:11: profile "a" extends itself: a → a`},
		{"in a circle", "[sandbox.profiles.a]\nextends = 'b'\n[sandbox.profiles.b]\nextends = 'c'\n[sandbox.profiles.c]\nextends = 'a'\n", `extends itself: a → b → c → a`},
		{"a circle further down", "[sandbox.profiles.a]\nextends = 'b'\n[sandbox.profiles.b]\nextends = 'b'\n", `extends itself: a → b → b`},
		{"over a shipped one", "[sandbox.profiles.a]\nextends = 'strict'\n[sandbox.profiles.strict]\nextends = 'a'\n", `a → strict → a`},
		{"nobody", "[sandbox.profiles.a]\nextends = 'testin'\n", `confine.toml:2:11: unknown profile "testin", did you mean "testing"?`},
	} {
		_, err := Resolve(Sources{Dir: "/", SystemFile: tempFile(t, c.text), Flags: []Setting{{Option: "profile", Values: []string{"a"}}}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestListProfiles(t *testing.T) {
	path := tempFile(t, "[sandbox.profiles.mine]\ntime_limit = 3\n[sandbox.profiles.strict]\ntime_limit = 4\n")
	src := Sources{Dir: "/", SystemFile: path}
	list, notices, err := ListProfiles(src)
	if err != nil || len(notices) > 0 || len(list) != len(builtins)+1 {
		t.Fatalf("%v, %q, %v", list, notices, err)
	}
	for _, p := range list {
		want := "built in"
		switch p.Name {
		case "mine":
			want = path
		case "strict":
			want = "built in, " + path
		}
		if p.Source != want || (p.About == "") != (p.Name == "mine") {
			t.Errorf("%+v, want source %q", p, want)
		}
		text, err := ShowProfile(src, p.Name)
		if err != nil || !strings.Contains(text, "[sandbox.profiles."+p.Name+"]") {
			t.Errorf("%s: %v\n%s", p.Name, err, text)
		}
		if (p.Name == "mine") != strings.Contains(text, `time_limit = "3s"`) || (p.Name == "strict") != strings.Contains(text, `time_limit = "4s"`) {
			t.Errorf("%s is shown as\n%s", p.Name, text)
		}
	}
	write(t, path, "broken")
	if _, _, err := ListProfiles(src); err == nil {
		t.Error("a broken file is no error")
	}
	if _, err := ShowProfile(src, "default"); err == nil {
		t.Error("a broken file is no error")
	}
}

// A profile that ships is not changed by who uses it.
func TestProfileSharesNothing(t *testing.T) {
	a := Default()
	a.Env.Pass[0], a.Filesystem.Protect[0], a.Env.Set["TZ"] = "x", "x", "x"
	if b := Default(); b.Env.Pass[0] == "x" || b.Filesystem.Protect[0] == "x" || b.Env.Set["TZ"] == "x" {
		t.Error("changing one policy changed the profile")
	}
}
