package seatbelt

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/explain"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/seatbelt/seatbelttest"
	"github.com/confine-run/confine/internal/view"
)

// read is the text of a profile, as the kernel reads it.
func read(t testing.TB, p *Profile) *seatbelttest.Profile {
	t.Helper()
	text, params := p.Text("", "own")
	values := map[string]string{}
	for _, one := range params {
		if _, twice := values[one.Name]; twice {
			t.Fatalf("the parameter %s has two values", one.Name)
		}
		values[one.Name] = one.Value
	}
	read, err := seatbelttest.Parse(text, values)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return read
}

// leaves are an operation of the kernel's for each thing that can be done.
var leaves = map[Do]string{Stat: "file-read-metadata", Read: "file-read-data", Exec: "process-exec", Data: "file-write-data", Write: "file-write-create", Unlink: "file-write-unlink"}

func grant(at string, a view.Access) view.Grant {
	return view.Grant{Dst: at, Src: hostfs.File{Path: at, Mode: fs.ModeDir}, Access: a}
}

func TestTheLastAndDeepestRuleCounts(t *testing.T) {
	const work, home = "/Users/u/p", "/Users/u"
	v := &view.View{
		Grants: []view.Grant{
			grant("/usr/bin", view.Read), grant(home, view.Private), grant(work, view.Write), grant(work+"/vendor", view.Read),
			grant(work+"/vendor/out", view.Write), grant(work+"/over", view.Overlay), {Dst: "/mnt/d", Src: hostfs.File{Path: "/data"}, Access: view.Write},
			{Dst: "/dev/cu.x", Src: hostfs.File{Path: "/dev/cu.x", Mode: fs.ModeDevice | fs.ModeCharDevice}, Access: view.Read},
		},
		Links:  []hostfs.Link{{At: "/tmp", Target: "private/tmp"}, {At: home + "/link", Target: "p"}},
		Hidden: []view.Hidden{{Dst: work + "/.env"}, {Dst: work + "/s", Open: true}},
		Protected: []view.Protected{
			{Dst: work + "/.git/config", Keep: view.ReadOnly}, {Dst: work + "/kept", Keep: view.Pinned}, {Dst: work + "/shown", Keep: view.Shown},
			{Dst: work + "/masked", Keep: view.Masked},
		},
	}
	v.Grants = append(v.Grants, grant(work+"/s/pub", view.Read))
	p := Compile(Input{View: v, Absent: []string{work + "/.vscode/tasks.json"}, Place: "/private/var/folders/x/T/confine-1", Programs: []string{"/opt/confine"}, Mark: "m"})
	text := read(t, p)
	for _, c := range []struct {
		at  string
		may Do
	}{
		{"/usr/bin/true", reads}, {"/usr/bin", reads}, {"/usr", Stat}, {"/usr/lib", 0}, {"/usr/binary", 0}, {"/etc/passwd", 0},
		{home, Stat}, {home + "/.ssh/id", 0}, {home + "/link", Stat | Read}, {home + "/link/x", 0}, {"/Users", Stat}, {"/Users/v", 0},
		{work, reads | writes&^Unlink}, {work + "/a/b", reads | writes}, {work + "/vendor", reads}, {work + "/vendor/x", reads},
		{work + "/vendor/out/x", reads | writes}, {work + "/vendor/out", reads | writes&^Unlink}, {work + "/over/x", reads},
		{work + "/.env", 0}, {work + "/.env/x", 0}, {work + "/.envrc", reads | writes}, {work + "/s", Stat}, {work + "/s/x", 0}, {work + "/s/pub/x", reads},
		{work + "/.git", reads | writes&^Unlink}, {work + "/.git/config", reads}, {work + "/.git/HEAD", reads | writes},
		{work + "/kept", reads | writes&^Unlink}, {work + "/kept/x", reads | writes}, {work + "/shown", reads}, {work + "/masked", 0},
		{work + "/.vscode", reads | writes&^Unlink}, {work + "/.vscode/tasks.json", reads}, {work + "/.vscode/x", reads | writes},
		{"/mnt/d/x", 0}, {"/data/x", 0}, {"/dev/cu.x", Stat | Read | Data}, {"/opt/confine", reads}, {"/opt", Stat},
		{"/private/var/folders/x/T/confine-1/home", reads | writes}, {"/private/var/folders/x/T", Stat}, {"/private/var/folders/x/T/other", 0},
	} {
		for do, op := range leaves {
			want := c.may&do != 0
			if p.Allows(c.at, do) != want {
				t.Errorf("%s %s: decided %v", op, c.at, !want)
			}
			for _, strict := range []bool{false, true} {
				if text.Strict = strict; text.Allows(seatbelttest.Query{Op: op, Path: c.at}) != want {
					t.Errorf("%s %s: the text says %v (a path is no subpath of itself: %v)", op, c.at, !want, strict)
				}
			}
		}
	}
}

// TestNoPathIsText: nobody who makes files can write rules by their names.
func TestNoPathIsText(t *testing.T) {
	const evil = `/a") (allow file-write* (subpath "/`
	p := Compile(Input{View: &view.View{Grants: []view.Grant{grant(evil, view.Read)}}, Mark: "m"})
	text, params := p.Text(evil, "own")
	if strings.Contains(text, "/a\"") {
		t.Errorf("the name is in the text:\n%s", text)
	}
	if !slices.ContainsFunc(params, func(p Param) bool { return p.Value == evil }) {
		t.Errorf("and in no parameter: %q", params)
	}
	if read(t, p).Allows(seatbelttest.Query{Op: "file-write-data", Path: "/etc/passwd"}) {
		t.Error("it has become a rule")
	}
}

func TestNetworks(t *testing.T) {
	for _, c := range []struct {
		name               string
		in                 Input
		proxy, other, away bool
		socket             bool
	}{
		{name: "none"},
		{name: "a gateway", in: Input{Proxy: 1234}, proxy: true},
		{name: "the caller's", in: Input{Network: true}, proxy: true, other: true, away: true},
	} {
		c.in.View, c.in.Mark, c.in.Place = &view.View{}, "m", "/place"
		p := read(t, Compile(c.in))
		for _, q := range []struct {
			host string
			port int
			want bool
		}{{"localhost", 1234, c.proxy}, {"localhost", 22, c.other}, {"example.com", 1234, c.away}} {
			if got := p.Allows(seatbelttest.Query{Op: "network-outbound", Host: q.host, Port: q.port}); got != q.want {
				t.Errorf("%s: %s:%d: %v", c.name, q.host, q.port, got)
			}
		}
		if p.Allows(seatbelttest.Query{Op: "network-outbound", Path: "/Users/u/.docker/run/docker.sock"}) {
			t.Errorf("%s: a socket of the user's can be connected to", c.name)
		}
		if !p.Allows(seatbelttest.Query{Op: "network-outbound", Path: "/place/s"}) || !p.Allows(seatbelttest.Query{Op: "network-bind", Path: "/place/s"}) {
			t.Errorf("%s: a socket of its own can't be", c.name)
		}
	}
}

// TestWhatNobodyMay is about base.sbpl: nothing of another program's, and no service that acts for whoever asks.
func TestWhatNobodyMay(t *testing.T) {
	p := read(t, Compile(Input{View: &view.View{Grants: []view.Grant{grant("/w", view.Write)}}, Network: true, Mark: "run.1"}))
	for _, q := range []seatbelttest.Query{
		{Op: "file-link", Path: "/w/x"}, {Op: "file-clone", Path: "/w/x"}, {Op: "file-read-data", Path: "/Users/u/Library/Keychains/x"},
		{Op: "sysctl-read", Name: "kern.procargs2"}, {Op: "mach-lookup", Name: "com.apple.coreservices.launchservicesd"},
		{Op: "mach-lookup", Name: "com.apple.pasteboard.1"}, {Op: "mach-lookup", Name: "com.apple.securityd.xpc"}, {Op: "mach-lookup", Name: "run.2"},
		{Op: "file-write-data", Path: "/dev/disk0"}, {Op: "file-write-data", Path: "/dev/ttys001"}, {Op: "file-read-data", Path: "/dev/ttys001"}, {Op: "signal"},
	} {
		if p.Allows(q) {
			t.Errorf("%+v is allowed", q)
		}
	}
	for _, q := range []seatbelttest.Query{
		{Op: "mach-lookup", Name: "run.1"}, {Op: "mach-lookup", Name: "own"}, {Op: "process-fork"}, {Op: "file-read-data", Path: "/"}, {Op: "file-write-data", Path: "/dev/null"},
		{Op: "sysctl-read", Name: "hw.ncpu"}, {Op: "mach-lookup", Name: "com.apple.system.opendirectoryd.libinfo"},
	} {
		if !p.Allows(q) {
			t.Errorf("%+v is refused", q)
		}
	}
}

// TestAgainstExplain holds the text against what explain says of the same view, of random ones, for each path that there is and some that
// aren't.
func TestAgainstExplain(t *testing.T) {
	granted, refused := 0, 0
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		host, v := randomView(t, rnd)
		var absent []string
		for _, at := range slices.Sorted(maps.Keys(host.Nodes)) {
			if host.Nodes[at].Mode.IsDir() && rnd.IntN(8) == 0 {
				absent = append(absent, path.Join(at, "absent/file"))
			}
		}
		p := Compile(Input{View: v, Absent: absent, Mark: "m"})
		text := read(t, p)
		text.Strict = seed%2 == 0
		by := explain.New(v, explain.Viewer{UID: 1000, GID: 1000, Host: host})
		ask := func(op string, at string) bool { return text.Allows(seatbelttest.Query{Op: op, Path: at}) }
		complain := func(at, op string, said explain.Decision, is bool) {
			t.Helper()
			written, params := p.Text("", "own")
			_, written, _ = strings.Cut(written, "(global-name (param \"OWN\")))\n")
			t.Fatalf("seed %d: %s %s: explain says %+v, and the text %v\n%s\n%s%q", seed, op, at, said, is, show(v), written, params)
		}
		for at, n := range host.Nodes {
			if !n.Mode.IsRegular() {
				continue
			}
			for do, op := range map[explain.Op]string{explain.Read: "file-read-data", explain.Write: "file-write-data"} {
				said, is := by.Check(at, do), ask(op, at)
				if said.Granted != is {
					complain(at, op, said, is)
				}
				if is {
					granted++
				} else {
					refused++
				}
			}
		}
		for range 10 { // names that aren't there, in directories that are
			dir := "/"
			for at, n := range host.Nodes {
				if n.Mode.IsDir() && rnd.IntN(3) == 0 {
					dir = at
				}
			}
			at := path.Join(dir, "new")
			if said, is := by.Check(at, explain.Create), ask("file-write-create", at); said.Granted != is {
				complain(at, "file-write-create", said, is)
			}
		}
		moved(t, seed, host, v, ask)
		for _, at := range absent {
			if ask("file-write-create", at) || ask("file-write-data", at+"/below") || ask("file-write-unlink", path.Dir(at)) || ask("file-write-unlink", path.Dir(path.Dir(at))) {
				t.Fatalf("seed %d: %s can come to be\n%s", seed, at, show(v))
			}
		}
	}
	if granted < 2000 || refused < 2000 {
		t.Errorf("%d granted and %d refused: the views are too simple to show anything", granted, refused)
	}
}

// moved: whatever may be renamed leads to no path at which more could be done, or to something that has to stay.
func moved(t *testing.T, seed uint64, host *hosttest.Host, v *view.View, ask func(op, at string) bool) {
	for at, n := range host.Nodes {
		if !n.Mode.IsDir() || !ask("file-write-unlink", at) {
			continue
		}
		for below := range host.Nodes {
			if hostfs.Under(below, at) && (!ask("file-read-data", below) || !ask("file-write-data", below)) {
				t.Fatalf("seed %d: %s can be moved, and %s in it can't be read and written\n%s", seed, at, below, show(v))
			}
		}
		for _, p := range v.Protected {
			if hostfs.Under(p.Dst, at) {
				t.Fatalf("seed %d: %s can be moved, and %s in it has to stay\n%s", seed, at, p.Dst, show(v))
			}
		}
	}
}

// randomView is a small tree, and a view of it.
func randomView(t *testing.T, rnd *rand.Rand) (*hosttest.Host, *view.View) {
	host := hosttest.New(t, "/a/")
	for range 30 {
		at := ""
		for range 1 + rnd.IntN(5) {
			at += "/" + string(rune('a'+rnd.IntN(3)))
			if n := host.Nodes[at]; n != nil && !n.Mode.IsDir() {
				break
			}
		}
		if host.Nodes[at] == nil {
			mode := fs.ModeDir | 0o755
			if rnd.IntN(2) == 0 {
				mode = 0o644
			}
			host.Put(at, mode, "")
		}
	}
	v := &view.View{}
	taken := map[string]bool{}
	for _, at := range slices.Sorted(func(yield func(string) bool) {
		for at := range host.Nodes {
			if at != "/" && !yield(at) {
				return
			}
		}
	}) {
		if taken[at] {
			continue
		}
		n := host.Nodes[at]
		src := hostfs.File{Path: at, Dev: 7, Ino: n.Ino, Mode: n.Mode}
		switch g := (view.Grant{Dst: at, Src: src}); rnd.IntN(9) {
		case 0, 1:
			g.Access = view.Read
			v.Grants = append(v.Grants, g)
		case 2, 3:
			g.Access = view.Write
			v.Grants = append(v.Grants, g)
		case 4:
			v.Hidden = append(v.Hidden, view.Hidden{Dst: at})
			// Nothing is shown in what is hidden, unless it says so.
			for below := range host.Nodes {
				taken[below] = taken[below] || hostfs.Under(below, at)
			}
		case 5:
			v.Protected = append(v.Protected, view.Protected{Dst: at, Keep: view.ReadOnly})
			for below := range host.Nodes { // nor in what is protected
				taken[below] = taken[below] || hostfs.Under(below, at)
			}
		case 6:
			v.Protected = append(v.Protected, view.Protected{Dst: at, Keep: view.Pinned})
		}
	}
	return host, v
}

func show(v *view.View) string {
	var b strings.Builder
	for _, g := range v.Grants {
		fmt.Fprintf(&b, "%s %s\n", g.Access, g.Dst)
	}
	for _, h := range v.Hidden {
		fmt.Fprintf(&b, "hidden %s\n", h.Dst)
	}
	for _, p := range v.Protected {
		fmt.Fprintf(&b, "protected %d %s\n", p.Keep, p.Dst)
	}
	return b.String()
}
