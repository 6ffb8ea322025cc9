package rootfs

import (
	"errors"
	"testing"
)

func TestATreeIsAnOverlayOnce(t *testing.T) {
	h := host(t, "/srv/a/b/c/f=1", "/srv/z/f=1", "/link -> /srv/a")
	over := func(src, dst string) Mount { return Mount{Src: src, Dst: dst, Mode: "overlay"} }
	for _, c := range []struct {
		name   string
		change func(*Input)
		twice  bool
	}{
		{"two trees", func(in *Input) { in.Overlay = []string{"/srv/a", "/srv/z"} }, false},
		{"the same word twice", func(in *Input) { in.Overlay = []string{"/srv/a", "/srv/a", "/link"} }, false},
		{"one in the other", func(in *Input) { in.Overlay = []string{"/srv/a", "/srv/a/b"} }, false},
		{"one in the other, apart", func(in *Input) { in.Overlay, in.AllowRead = []string{"/srv/a", "/srv/a/b/c"}, []string{"/srv/a/b"} }, false},
		{"at its place and elsewhere", func(in *Input) { in.Overlay, in.Mounts = []string{"/srv/a"}, []Mount{over("/srv/a", "/m")} }, true},
		{"at two places", func(in *Input) { in.Mounts = []Mount{over("/srv/a", "/m"), over("/link", "/n")} }, true},
		{"a part of it elsewhere", func(in *Input) { in.Overlay, in.Mounts = []string{"/srv/a"}, []Mount{over("/srv/a/b", "/m")} }, true},
		{"what is around it elsewhere", func(in *Input) { in.Overlay, in.Mounts = []string{"/srv/a/b"}, []Mount{over("/srv/a", "/m")} }, true},
		{"the current directory", func(in *Input) { in.Workdir, in.Mounts = "overlay", []Mount{over("/home/u/p", "/m")} }, true},
		{"the home directory", func(in *Input) { in.EphemeralHome, in.Workdir = true, "overlay" }, false},
		{"read-only elsewhere", func(in *Input) {
			in.Overlay, in.Mounts = []string{"/srv/a"}, []Mount{{Src: "/srv/a", Dst: "/m", Mode: "ro"}}
		}, false},
		{"a part of it that the other doesn't show", func(in *Input) {
			in.Mounts = []Mount{over("/srv/a", "/m"), {Src: "/srv/z", Dst: "/m/b", Mode: "ro"}, over("/srv/a/b", "/n")}
		}, false},
	} {
		_, err := Compile(plain(h, c.change))
		if c.twice != errors.Is(err, ErrTwice) || !c.twice && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
