package rootfs

import (
	"slices"
	"strconv"
	"testing"

	"github.com/confine-run/confine/confine/hostfs/hosttest"
	"github.com/confine-run/confine/confine/protect"
	"github.com/confine-run/confine/confine/view"
)

// What is a program's own at the top of a project is what a shell runs in a home directory.
func TestWhatIsProtectedAtHomeOnly(t *testing.T) {
	const home, p = "/home/u/", "/home/u/p/"
	h := hosttest.Debian(t, home+"bin/tool -> ../src/tool", home+"src/tool=1", home+"src/other=1", home+".cargo/env=1", home+".aws/config=1",
		p+"bin/x=1", p+".cargo/env=1", p+".kube/config=1")
	both := func(in *view.Input) { defaults(in); in.AllowWrite = []string{"/home/u"} }
	r := compile(t, h, both)
	r.want(home+"bin", "readonly", home+"src/tool", "readonly", home+"src/other", "", home+".cargo", "pin", home+".cargo/env", "readonly",
		home+".aws/config", "readonly", p+"bin", "", p+".cargo/env", "", p+".kube/config", "")
	for _, at := range []string{home + ".local/lib", home + ".cargo/bin", home + ".kube/config"} {
		if !slices.Contains(r.KeepAbsent, at) {
			t.Errorf("%s is not kept absent: %q", at, r.KeepAbsent)
		}
	}
	// A project alone, with and without them.
	for _, h := range []*hosttest.Host{h, hosttest.Debian(t, p+"x=1")} {
		r = compile(t, h, defaults)
		r.want(p+"bin", "", p+".cargo/env", "", p+".kube/config", "")
		for _, name := range []string{"bin", ".cargo/bin", ".cargo/env", ".local/lib", ".kube/config", "~/bin", "~"} {
			if slices.Contains(r.KeepAbsent, p+name) {
				t.Errorf("%s is kept absent", p+name)
			}
		}
	}
	// The tree begins on the way, or is the place itself.
	r = compile(t, h, func(in *view.Input) {
		in.Protect, in.AllowWrite = []string{"~/.cargo/env", "~/bin"}, []string{"/home/u/.cargo", "/home/u/bin"}
	})
	r.want(home+".cargo/env", "readonly")
	if r.at(home+"bin") == "readonly" {
		t.Error("what was named as writable isn't")
	}
	// Nothing has its home at the root.
	r = compile(t, h, func(in *view.Input) { both(in); in.HomeDir = "/" })
	r.want(home+"bin", "")
	// Libraries are too large to be searched for links.
	for i := range protect.MaxLinksBelow + 1 {
		h.Put(home+".local/lib/python3.12/site-packages/f"+strconv.Itoa(i), 0o644, "")
	}
	r = compile(t, h, both)
	r.want(home+".local/lib", "readonly", home+"src/tool", "readonly")
	if r.ProtectsLess {
		t.Errorf("notices %q", r.Notices)
	}
}

func TestWhatIsObeyedAtHomeOnly(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/.cargo -> /big/cargo", "/big/cargo/env=1", "/home/u/bin/x -> ../src/x", "/home/u/src/x=1")
	o := protect.NewTrusted(h, []string{".envrc", "~/bin", "~/.cargo/env", "~/none"}, "/home/u", func(string) string { return "" })
	if got, want := o.AtHome(), []string{"/home/u/bin", "/home/u/.cargo", "/big/cargo/env", "/home/u/none"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if found, complete := o.In("/home/u", true); !slices.Contains(found, "/home/u/src/x") || !complete {
		t.Errorf("%q, %v", found, complete)
	}
	if found, _ := o.In("/home/u/src", false); len(found) > 0 {
		t.Errorf("%q", found)
	}
	for _, home := range []string{"", "/", "relative"} {
		if got := protect.NewTrusted(h, []string{"~/bin"}, home, func(string) string { return "" }).AtHome(); len(got) > 0 {
			t.Errorf("%q: %q", home, got)
		}
	}
}
