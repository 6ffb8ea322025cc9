package rootfs

import (
	"testing"

	"github.com/confine-run/confine/confine/hostfs/hosttest"
	"github.com/confine-run/confine/confine/view"
)

// Who can make what a name of --deny would hide is told of, and nobody else.
func TestWhatIsMadeLaterIsntHidden(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/there=1", "/data/f=1", "/link -> /data")
	for _, c := range []struct {
		name   string
		deny   string
		change func(*view.Input)
		told   bool
	}{
		{"a pattern in a writable tree", "*.late", func(in *view.Input) { in.Workdir = "rw" }, true},
		{"a pattern in an overlay", "*.late", func(in *view.Input) { in.Workdir = "overlay" }, true},
		{"an overlay that Landlock makes read-only", "*.late", func(in *view.Input) { in.Workdir, in.Bare = "overlay", true }, false},
		{"a writable tree under Landlock", "*.late", func(in *view.Input) { in.Workdir, in.Bare = "rw", true }, true},
		{"a pattern in a tree that can't be written to", "*.late", nil, false},
		{"a pattern that leads elsewhere", "/data/*.late", func(in *view.Input) { in.Workdir = "rw" }, false},
		{"a path that isn't there", "late", func(in *view.Input) { in.Workdir = "rw" }, true},
		{"a path that isn't there, nor its directory", "new/dir/late", func(in *view.Input) { in.Workdir = "overlay" }, true},
		{"a path that isn't there, by a link", "/link/late", func(in *view.Input) { in.AllowWrite = []string{"/data"} }, true},
		{"a path that isn't there, elsewhere inside", "/m/late", func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/data", Dst: "/m", Mode: "rw"}} }, true},
		{"a path that isn't there, shown elsewhere", "/data/late", func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/data", Dst: "/m", Mode: "rw"}} }, true},
		{"a path that isn't there, and can't be", "late", nil, false},
		{"a path that isn't there, in another tree", "/data/late", func(in *view.Input) { in.Workdir = "rw" }, false},
		{"a path that is there", "there", func(in *view.Input) { in.Workdir = "rw" }, false},
	} {
		r := compile(t, h, func(in *view.Input) {
			in.Deny = []string{c.deny}
			if c.change != nil {
				c.change(in)
			}
		})
		if r.DenyAtStart != c.told {
			t.Errorf("%s: told %v, want %v", c.name, r.DenyAtStart, c.told)
		}
	}
}
