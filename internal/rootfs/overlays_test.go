package rootfs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/view"
)

func TestAnOverlayIsNoneOfWhatIsMountedBelow(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/m/f=1", "/home/u/p/m/deep/f=1", "/home/u/p/file=1", "/home/u/p/named/f=1", "/home/u/p/key.pem=1", "/home/u/p/m/key.pem=1")
	h.Put("/proc/self/mountinfo", 0, hosttest.Mountinfo("/home/u/p/m", "/home/u/p/file", "/home/u/p/named"))
	change := func(in *view.Input) {
		in.Workdir, in.AllowWrite, in.Deny = "overlay", []string{"named"}, []string{"**/*.pem"}
	}
	// Where they can be taken off, they are shown beside it; what was named is as it was.
	r := compile(t, h, change)
	r.want("/home/u/p", "overlay /home/u/p", "/home/u/p/m", "ro /home/u/p/m", "/home/u/p/file", "ro /home/u/p/file", "/home/u/p/named", "rw /home/u/p/named",
		"/home/u/p/m/key.pem", "mask", "/home/u/p/key.pem", "mask")
	if len(r.Overlays) != 1 || len(r.Nested) != 0 || len(r.Notices) != 0 || !slices.Equal(r.Beside, []string{"/home/u/p/file", "/home/u/p/m"}) {
		t.Errorf("%+v %+v %q %q", r.Overlays, r.Nested, r.Notices, r.Beside)
	}
	for _, m := range r.Mounts {
		if m.Dst == "/home/u/p/m" && !m.Optional {
			t.Error("one that went away meanwhile ends the run")
		}
	}
	// At another place, too.
	r = compile(t, h, func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/home/u/p", Dst: "/over", Mode: "overlay"}} })
	r.want("/over", "overlay /home/u/p", "/over/m", "ro /home/u/p/m", "/over/file", "ro /home/u/p/file", "/over/named", "ro /home/u/p/named")
	// Where they can't, the tree is read-only, with them in it.
	for _, held := range []bool{false, true} {
		h.Stuck = held
		r = compile(t, h, func(in *view.Input) { change(in); in.OwnUserns = !held })
		r.want("/home/u/p", "ro /home/u/p", "/home/u/p/m", "", "/home/u/p/named", "rw /home/u/p/named", "/home/u/p/m/key.pem", "mask")
		if len(r.Overlays) != 0 || len(r.Beside) != 0 || !slices.Equal(r.Nested, []Nested{{"/home/u/p", "/home/u/p/file", true}}) {
			t.Errorf("held %v: %+v %q %+v", held, r.Overlays, r.Beside, r.Nested)
		}
		if len(r.Notices) != 1 || !strings.Contains(r.Notices[0], `"/home/u/p" is read-only`) || !strings.Contains(r.Notices[0], `"/home/u/p/m"`) {
			t.Errorf("held %v: %q", held, r.Notices)
		}
		if i := slices.IndexFunc(r.Rules, func(x view.Rule) bool { return x.Path == "/home/u/p" }); i < 0 || r.Rules[i].Access != view.RuleRead || !strings.Contains(r.Rules[i].Why, "mounted below") {
			t.Errorf("held %v: %+v", held, r.Rules)
		}
	}
	// The control: nothing is mounted there, or no overlay was wanted.
	h.Put("/proc/self/mountinfo", 0, hosttest.Mountinfo("/home/u/px", "/home/u/p"))
	r = compile(t, h, func(in *view.Input) { change(in); in.OwnUserns = true })
	r.want("/home/u/p", "overlay /home/u/p")
	h.Put("/proc/self/mountinfo", 0, hosttest.Mountinfo("/home/u/p/m"))
	r = compile(t, h, func(in *view.Input) { in.Workdir, in.OwnUserns = "rw", true })
	r.want("/home/u/p", "rw /home/u/p")
	if len(r.Nested)+len(r.Notices) != 0 {
		t.Errorf("%+v %q", r.Nested, r.Notices)
	}
}

func TestARootIsNoneOfWhatIsMountedBelow(t *testing.T) {
	h := hosttest.Debian(t, "/img/bin/true*", "/img/m/f=1", "/img/proc/", "/img/dev/")
	h.Put("/proc/self/mountinfo", 0, hosttest.Mountinfo("/img/m"))
	root := func(own bool) run {
		return compile(t, h, func(in *view.Input) { in.Rootfs, in.OwnUserns = "/img", own })
	}
	r := root(true)
	if !r.Root.ReadOnly || r.Root.Kind != handoff.MountOverlay || len(r.Nested) != 1 || len(r.Notices) != 1 {
		t.Errorf("%+v %+v %q", r.Root, r.Nested, r.Notices)
	}
	if r = root(false); r.Root.ReadOnly || len(r.Nested) != 0 || len(r.Notices) != 1 || !strings.Contains(r.Notices[0], `isn't shown: "/img/m"`) {
		t.Errorf("%+v %+v %q", r.Root, r.Nested, r.Notices)
	}
	h.Put("/proc/self/mountinfo", 0, hosttest.Mountinfo())
	if r = root(true); r.Root.ReadOnly || len(r.Nested)+len(r.Notices) != 0 {
		t.Errorf("%+v %+v %q", r.Root, r.Nested, r.Notices)
	}
}

// What is mounted on what is mounted there goes with that.
func TestWhatIsMountedOnATree(t *testing.T) {
	table := hostfs.ParseMounts("20 1 8:1 / / rw - ext4 /dev/a rw\n" +
		"21 20 8:2 / /w rw shared:1 - ext4 /dev/b rw\n" +
		"22 21 0:9 / /w/a\\040b\\134 rw - tmpfs none rw\n" +
		"23 22 0:9 / /w/a\\040b\\134/c rw - tmpfs none rw\n" +
		"25 21 0:9 / /w/d rw - tmpfs none rw\n26 21 0:9 / /w/d rw - tmpfs none rw\n" +
		"24 20 0:9 / /wx rw - tmpfs none rw\n")
	for dir, want := range map[string][]string{"/w": {`/w/a b\`, "/w/d"}, "/w/a": nil, "/": {"/w", "/wx"}, `/w/a b\`: {`/w/a b\/c`}} {
		if got := table.Nested(dir); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
	if got := hostfs.Mounts(nil).Nested("/w"); got != nil {
		t.Errorf("%q", got)
	}
}

func TestATreeIsAnOverlayOnce(t *testing.T) {
	h := hosttest.Debian(t, "/srv/a/b/c/f=1", "/srv/z/f=1", "/link -> /srv/a")
	over := func(src, dst string) view.Mount { return view.Mount{Src: src, Dst: dst, Mode: "overlay"} }
	for _, c := range []struct {
		name   string
		change func(*view.Input)
		twice  bool
	}{
		{"two trees", func(in *view.Input) { in.Overlay = []string{"/srv/a", "/srv/z"} }, false},
		{"the same word twice", func(in *view.Input) { in.Overlay = []string{"/srv/a", "/srv/a", "/link"} }, false},
		{"one in the other", func(in *view.Input) { in.Overlay = []string{"/srv/a", "/srv/a/b"} }, false},
		{"one in the other, apart", func(in *view.Input) {
			in.Overlay, in.AllowRead = []string{"/srv/a", "/srv/a/b/c"}, []string{"/srv/a/b"}
		}, false},
		{"at its place and elsewhere", func(in *view.Input) { in.Overlay, in.Mounts = []string{"/srv/a"}, []view.Mount{over("/srv/a", "/m")} }, true},
		{"at two places", func(in *view.Input) { in.Mounts = []view.Mount{over("/srv/a", "/m"), over("/link", "/n")} }, true},
		{"a part of it elsewhere", func(in *view.Input) { in.Overlay, in.Mounts = []string{"/srv/a"}, []view.Mount{over("/srv/a/b", "/m")} }, true},
		{"what is around it elsewhere", func(in *view.Input) { in.Overlay, in.Mounts = []string{"/srv/a/b"}, []view.Mount{over("/srv/a", "/m")} }, true},
		{"the current directory", func(in *view.Input) { in.Workdir, in.Mounts = "overlay", []view.Mount{over("/home/u/p", "/m")} }, true},
		{"the home directory", func(in *view.Input) { in.EphemeralHome, in.Workdir = true, "overlay" }, false},
		{"read-only elsewhere", func(in *view.Input) {
			in.Overlay, in.Mounts = []string{"/srv/a"}, []view.Mount{{Src: "/srv/a", Dst: "/m", Mode: "ro"}}
		}, false},
		{"a part of it that the other doesn't show", func(in *view.Input) {
			in.Mounts = []view.Mount{over("/srv/a", "/m"), {Src: "/srv/z", Dst: "/m/b", Mode: "ro"}, over("/srv/a/b", "/n")}
		}, false},
	} {
		_, err := Compile(hosttest.Input(h, c.change))
		if c.twice != errors.Is(err, view.ErrTwice) || !c.twice && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
