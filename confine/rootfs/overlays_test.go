package rootfs

import (
	"errors"
	"testing"

	"github.com/confine-run/confine/confine/hostfs/hosttest"
	"github.com/confine-run/confine/confine/view"
)

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
