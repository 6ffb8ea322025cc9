package view_test

import (
	"io/fs"
	"testing"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/view"
)

// Each pair differs in one entry, which decides.
func TestWiderIsDecidedByEachKindOfEntry(t *testing.T) {
	h := hosttest.New(t, "/s/a/f=1", "/s/a/g=1", "/s/b/f=1", "/x/f=1", "/dev/null#")
	grant := func(dst, src string, a view.Access) view.Grant {
		f, err := h.Lstat(src)
		must.Do(t, err)
		return view.Grant{Dst: dst, Src: f, Access: a}
	}
	of := func(grants ...view.Grant) *view.View { return &view.View{Grants: grants} }
	with := func(v *view.View, change func(v *view.View)) *view.View {
		change(v)
		return v
	}
	kept := func(at string, keep view.Keep) func(v *view.View) {
		return func(v *view.View) {
			p := view.Protected{Dst: at, Keep: keep}
			if keep == view.Shown {
				p.Src = grant(at, "/x/f", view.Read).Src
			}
			v.Protected = append(v.Protected, p)
		}
	}
	hidden := func(at string) func(v *view.View) {
		return func(v *view.View) { v.Hidden = append(v.Hidden, view.Hidden{Dst: at}) }
	}
	made := func(m view.Made) func(v *view.View) { return func(v *view.View) { v.Made = append(v.Made, m) } }
	s := grant("/s", "/s", view.Write)
	read, elsewhere := grant("/s", "/s", view.Read), grant("/m", "/s", view.Write)
	file := view.Made{Kind: view.File, Dst: "/s/a/f"}
	device := view.Made{Kind: view.Device, Dst: "/dev/null", Src: hostfs.File{Path: "/dev/null", Mode: fs.ModeDevice}}
	for _, c := range []struct {
		name       string
		some, most *view.View
		wider      string // path
	}{
		{"nothing", of(), of(), ""},
		{"the same", of(s), of(s), ""},
		{"less access", of(read), of(s), ""},
		{"more access", of(s), of(read), "/s"},
		{"an overlay of what is read", of(grant("/s", "/s", view.Overlay)), of(read), "/s"},
		{"another place inside", of(elsewhere), of(s), ""},
		{"the same place, of something else", of(grant("/s", "/x", view.Read)), of(s), "/x"},
		{"below", of(grant("/s/a", "/s/a", view.Write)), of(s), ""},
		{"a tree in which less is shown", of(s), of(s, grant("/s/a", "/s/a", view.Read)), "/s/a"},
		{"a tree in which something else is shown", of(s), of(s, grant("/s/a", "/x", view.Write)), "/s/a"},
		{"a tree in which something private is", of(s), of(s, view.Grant{Dst: "/s/a"}), "/s/a"},
		{"a private place", of(s, view.Grant{Dst: "/s/a"}), of(s), ""},
		{"private where the other shows less", of(s, view.Grant{Dst: "/s/a"}), of(s, grant("/s/a", "/s/a", view.Read)), ""},

		{"hidden", of(s), with(of(s), hidden("/s/a/f")), "/s/a/f"},
		{"hidden in both", with(of(s), hidden("/s/a/f")), with(of(s), hidden("/s/a/f")), ""},
		{"hidden further up", with(of(s), hidden("/s/a")), with(of(s), hidden("/s/a/f")), ""},
		{"hidden, and named", with(of(s, grant("/s/a/f", "/s/a/f", view.Read)), hidden("/s/a")), with(of(s), hidden("/s/a")), "/s/a/f"},
		{"hidden, and named elsewhere", of(grant("/m", "/s/a/f", view.Read)), with(of(s), hidden("/s/a")), "/s/a/f"},
		{"hidden in one of two places", of(s), with(of(s, elsewhere), hidden("/m/a")), ""},
		{"absent", of(s), with(of(s), func(v *view.View) { v.Absent = []view.Hidden{{Dst: "/s/b"}} }), "/s/b"},

		{"protected", of(s), with(of(s), kept("/s/a/f", view.ReadOnly)), "/s/a/f"},
		{"protected in both", with(of(s), kept("/s/a", view.ReadOnly)), with(of(s), kept("/s/a/f", view.ReadOnly)), ""},
		{"protected, where nothing is written", of(read), with(of(s), kept("/s/a/f", view.ReadOnly)), ""},
		{"masked", of(read), with(of(s), kept("/s/a/f", view.Masked)), "/s/a/f"},
		{"shown in its place", of(s), with(of(s), kept("/s/a/f", view.Shown)), "/s/a/f"},
		{"something else shown in its place", with(of(s), kept("/s/a/f", view.Shown)), of(s), "/x/f"},
		{"pinned", of(s), with(of(s), kept("/s/a", view.Pinned)), "/s/a"},
		{"pinned in both", with(of(s), kept("/s/a", view.Pinned)), with(of(s), kept("/s/a", view.Pinned)), ""},
		{"pinned, where nothing is written", of(read), with(of(s), kept("/s/a", view.Pinned)), ""},
		{"pinned, and a grant of its own", of(grant("/s/a", "/s/a", view.Write)), with(of(s), kept("/s/a", view.Pinned)), ""},
		{"pinned in one of two places", of(s), with(of(s, elsewhere), kept("/m/a", view.Pinned)), ""},

		{"a file of the run's own", of(s), with(of(s), made(file)), "/s/a/f"},
		{"a file of the run's own in both", with(of(s), made(file)), with(of(s), made(file)), ""},
		{"a device", with(of(s), made(device)), of(s), "/dev/null"},
		{"a device in both", with(of(), made(device)), with(of(), made(device)), ""},
		{"a device of a tree", of(grant("/d", "/dev/null", view.Read)), of(grant("/dev", "/dev", view.Write)), "/dev/null"},
		{"a device by itself", of(grant("/d", "/dev/null", view.Read)), of(grant("/e", "/dev/null", view.Read)), ""},
	} {
		got := ""
		if x := c.some.Wider(c.most, h); x != nil {
			got = x.Path
		}
		if got != c.wider {
			t.Errorf("%s: %q, want %q", c.name, got, c.wider)
		}
	}
}
