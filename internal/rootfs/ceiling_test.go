package rootfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/explain"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/view"
)

// ceilingHost has what a ceiling allows below /home/u/srv, and more beside it.
func ceilingHost(t testing.TB, more ...string) *hosttest.Host {
	return hosttest.Debian(t, append([]string{"/home/u/srv/data/f=1", "/home/u/srv/data/sub/g=1", "/home/u/srv/deny/in/key=1", "/home/u/srv/read/f=1",
		"/home/u/srv/repo/.git/hooks/pre-push=1", "/home/u/srv/repo/.git/config=1", "/home/u/srv/repo/.git/HEAD=ref: refs/heads/x",
		"/home/u/srv/repo/.git/objects/", "/home/u/srv/repo/.git/refs/", "/home/u/srv/repo/a=1", "/home/u/srv/work/a=1", "/home/u/srv/read/tool*",
		"/home/u/secret/key=1", "/home/u/secret/tool*", "/dev/kvm#"}, more...)...)
}

func ceilingTest() Ceiling {
	return Ceiling{Base: "/home/u/srv", Filesystem: view.Filesystem{AllowRead: []string{"/home/u/srv", "/home/u/none"}, AllowWrite: []string{"/home/u/srv/data"},
		Deny: []string{"/home/u/srv/deny"}, Workdir: "rw", Protect: []string{".git/config", ".git/hooks", ".envrc"}}}
}

func below(h hostfs.Host, change func(*view.Input)) error {
	c := ceilingTest()
	_, err := c.Compile(hosttest.Input(h, func(in *view.Input) {
		in.Dir, in.Workdir, in.Protect, in.Deny = "/", "none", c.Protect, c.Deny
		change(in)
	}))
	return err
}

// Each attack has a control, which differs in what makes it one.
func TestNothingIsShownThatTheCeilingDoesNot(t *testing.T) {
	read := func(names ...string) func(*view.Input) { return func(in *view.Input) { in.AllowRead = names } }
	write := func(names ...string) func(*view.Input) { return func(in *view.Input) { in.AllowWrite = names } }
	dir := func(name, how string) func(*view.Input) {
		return func(in *view.Input) { in.Dir, in.Workdir, in.WorkdirAsked = name, how, true }
	}
	command := func(name string) func(*view.Input) { return func(in *view.Input) { in.Command = name } }
	mount := func(src, mode string) func(*view.Input) {
		return func(in *view.Input) { in.Mounts = []view.Mount{{Src: src, Dst: "/m", Mode: mode}} }
	}
	evil := []string{"/home/u/srv/data/evil -> /home/u/secret", "/home/u/srv/data/root -> /"}
	for _, c := range []struct {
		name   string
		host   []string
		change func(*view.Input)
		option string // empty: it is within
	}{
		{"nothing", nil, func(*view.Input) {}, ""},
		{"a tree to read", nil, read("/home/u/srv"), ""},
		{"a tree of a tree to read", nil, read("/home/u/srv/read"), ""},
		{"a tree to write", nil, write("/home/u/srv/data/sub"), ""},
		{"a tree to write, read", nil, read("/home/u/srv/data"), ""},
		{"another tree", nil, read("/home/u/secret"), "allow-read"},
		{"what is above", nil, read("/home/u"), "allow-read"},
		{"what is only read, written", nil, write("/home/u/srv/read"), "allow-write"},
		{"what is only read, as an overlay", nil, func(in *view.Input) { in.Overlay = []string{"/home/u/srv/read"} }, "overlay"},
		{"what is written, as an overlay", nil, func(in *view.Input) { in.Overlay = []string{"/home/u/srv/data"} }, ""},
		{"a mount", nil, mount("/home/u/srv/data", "rw"), ""},
		{"a mount that is written", nil, mount("/home/u/srv/read", "rw"), "mount"},
		{"a mount of something else", nil, mount("/home/u/secret", ""), "mount"},

		{"a link, read", evil, read("/home/u/srv/data/evil"), "allow-read"},
		{"a link, written", evil, write("/home/u/srv/data/evil"), "allow-write"},
		{"a link, as an overlay", evil, func(in *view.Input) { in.Overlay = []string{"/home/u/srv/data/evil"} }, "overlay"},
		{"a link, mounted", evil, mount("/home/u/srv/data/evil", ""), "mount"},
		{"a link to everything", evil, read("/home/u/srv/data/root"), "allow-read"},
		{"something below a link", evil, read("/home/u/srv/data/evil/key"), "allow-read"},
		{"nothing below a link, which isn't told", evil, read("/home/u/srv/data/evil/none"), "allow-read"},
		{"the tree that the link is in", evil, write("/home/u/srv/data"), ""},
		{"a link of the ceiling's own tree", []string{"/home/u/srv/out -> /home/u/secret"}, read("/home/u/srv/out"), "allow-read"},

		{"what is hidden", nil, read("/home/u/srv/deny/in/key"), "allow-read"},
		{"what is hidden, by a directory", nil, read("/home/u/srv/deny"), ""}, // hidden here, too
		{"what is around it, without the pattern", nil, func(in *view.Input) { in.AllowRead, in.Deny = []string{"/home/u/srv"}, nil }, "allow-read"},
		{"what is protected", []string{"/home/u/srv/data/.envrc=1"}, write("/home/u/srv/data/.envrc"), "allow-write"},
		{"what is around it, without protection", nil, func(in *view.Input) { in.AllowWrite, in.Protect = []string{"/home/u/srv/data"}, nil }, "allow-write"},

		{"a directory", nil, dir("/home/u/srv/work", "rw"), ""},
		{"a checkout", nil, dir("/home/u/srv/repo", "rw"), ""},
		{"hooks", nil, dir("/home/u/srv/repo/.git/hooks", "rw"), "workdir"},
		{"hooks, read", nil, dir("/home/u/srv/repo/.git/hooks", "ro"), ""},
		{"a directory elsewhere", nil, dir("/home/u/secret", "ro"), "dir"},
		{"a directory that is there by a link", evil, dir("/home/u/srv/data/evil", "ro"), "dir"},
		{"a directory beside", []string{"/home/u/srv2/a=1"}, dir("/home/u/srv2", "ro"), "dir"},

		{"a command of the system", nil, command("sh"), ""},
		{"a command that may be read", nil, command("/home/u/srv/read/tool"), ""},
		{"a command that may not", nil, command("/home/u/secret/tool"), "command"},
		{"a file for a command", nil, command("/home/u/secret/key"), "command"},
		{"a link for a command, which shows nothing", evil, command("/home/u/srv/data/evil/key"), ""},
		{"a device", nil, read("/dev/kvm"), "allow-read"},
		{"a device of a tree, in which it doesn't work", []string{"/home/u/srv/read/dev#"}, read("/home/u/srv/read/dev"), "allow-read"},
		{"the tree that the device is in", []string{"/home/u/srv/read/dev#"}, read("/home/u/srv/read"), ""},
	} {
		err := below(ceilingHost(t, c.host...), c.change)
		var wider *WiderError
		got := "error"
		switch {
		case err == nil:
			got = ""
		case errors.As(err, &wider):
			got = wider.Option
		}
		if got != c.option {
			t.Errorf("%s: %q (%v), want %q", c.name, got, err, c.option)
		}
	}
}

// What lies in a tree that runs may write to decides nothing, if the ceiling itself names it. What isn't there yet isn't shown, and is no mistake.
func TestNoNameOfTheCeilingLeadsThroughALinkOfARun(t *testing.T) {
	h := ceilingHost(t, "/home/u/srv/data/evil -> /home/u/secret")
	for name, add := range map[string]func(f *view.Filesystem, name string){
		"read":    func(f *view.Filesystem, name string) { f.AllowRead = append(f.AllowRead, name) },
		"write":   func(f *view.Filesystem, name string) { f.AllowWrite = append(f.AllowWrite, name) },
		"overlay": func(f *view.Filesystem, name string) { f.Overlay = append(f.Overlay, name) },
		"mount": func(f *view.Filesystem, name string) {
			f.Mounts = append(f.Mounts, view.Mount{Src: name, Dst: "/m", Mode: "ro"})
		},
	} {
		for at, want := range map[string]bool{"/home/u/srv/data/sub": true, "/home/u/srv/data/none": true, "/home/u/srv/data/evil": false} {
			c := ceilingTest()
			add(&c.Filesystem, at)
			for _, same := range []bool{true, false} { // if the request names it, too, or not
				_, err := c.Compile(hosttest.Input(h, func(in *view.Input) {
					in.Dir, in.Workdir, in.Protect, in.Deny = "/", "none", c.Protect, c.Deny
					if same && at != "/home/u/srv/data/none" {
						add(&in.Filesystem, at)
					}
				}))
				var wider *WiderError
				if got := err == nil; got != want || err != nil && !errors.As(err, &wider) {
					t.Errorf("%s %s, named %t: %v", name, at, same, err)
				}
			}
		}
	}
}

// In a directory that folds case, and where something is mounted twice, a place has names that no rule has.
func TestAnotherNameOfWhatIsHiddenIsHiddenToo(t *testing.T) {
	h := ceilingHost(t, "/home/u/srv/DENY/in/key=1", "/home/u/srv/Twice/deny/in/key=1")
	alias := func(a, b string) { h.Nodes[a].Ino = h.Nodes[b].Ino }
	read := func(name string) error { return below(h, func(in *view.Input) { in.AllowRead = []string{name} }) }
	for _, name := range []string{"/home/u/srv/DENY", "/home/u/srv/DENY/in", "/home/u/srv/DENY/in/key"} {
		if err := read(name); err != nil {
			t.Errorf("the control, of other files: %v", err)
		}
	}
	for _, below := range []string{"", "/in", "/in/key"} {
		alias("/home/u/srv/DENY"+below, "/home/u/srv/deny"+below)
	}
	for _, name := range []string{"/home/u/srv/DENY", "/home/u/srv/DENY/in", "/home/u/srv/DENY/in/key"} {
		var wider *WiderError
		if err := read(name); !errors.As(err, &wider) || wider.Option != "allow-read" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := read("/home/u/srv/Twice"); err != nil {
		t.Errorf("the control, of another tree: %v", err)
	}
	alias("/home/u/srv/Twice", "/home/u/srv")
	var wider *WiderError
	if err := read("/home/u/srv/Twice"); !errors.As(err, &wider) {
		t.Errorf("a tree that hides something, by another name: %v", err)
	}
}

// TestWhatTheEvaluatorGrantsTheCeilingsGrantsToo asks the evaluator, which knows nothing of how views are compared, of random trees
// and policies.
func TestWhatTheEvaluatorGrantsTheCeilingsGrantsToo(t *testing.T) {
	within, refused, itself, asked := 0, 0, 0, 0
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 17))
		lines := []string{"/usr/bin/sh*", "/etc/passwd=1"}
		dirs := []string{"/home/u/s"}
		for range 14 {
			dir := path.Join(dirs[r.IntN(len(dirs))], string("abcd"[r.IntN(4)]))
			if slices.Contains(dirs, dir) {
				continue
			}
			switch r.IntN(8) {
			case 0:
				lines = append(lines, dir+" -> "+dirs[r.IntN(len(dirs))])
			case 1:
				lines = append(lines, dir+" -> /home/u/x")
			default:
				dirs = append(dirs, dir)
				lines = append(lines, dir+"/", dir+"/f=1", dir+"/.envrc=1")
			}
		}
		dirs = append(dirs, "/home/u/x")
		h := hosttest.Debian(t, append(lines, "/home/u/x/f=1", "/home/u/s/f=1")...)
		some := func(n int) (names []string) {
			for range r.IntN(n) {
				names = append(names, dirs[r.IntN(len(dirs))])
			}
			return slices.Compact(names)
		}
		policy := func() view.Filesystem {
			f := view.Filesystem{AllowRead: some(4), AllowWrite: some(3), Overlay: some(2), Deny: some(2), Protect: []string{".envrc"}}
			f.Workdir = []string{"none", "ro", "rw", "overlay"}[r.IntN(4)]
			for _, m := range some(2) {
				f.Mounts = append(f.Mounts, view.Mount{Src: m, Dst: "/m", Mode: []string{"ro", "rw", "overlay"}[r.IntN(3)]})
			}
			return f
		}
		l := Ceiling{Base: "/home/u/s", Filesystem: policy()}
		request := policy()
		if r.IntN(2) == 0 { // as most are: they say what is denied
			request.Deny = append(request.Deny, l.Deny...)
		}
		in := hosttest.Input(h, func(in *view.Input) {
			in.Filesystem, in.Dir, in.Command = request, dirs[r.IntN(len(dirs))], "sh"
			if r.IntN(3) == 0 {
				in.Command = dirs[r.IntN(len(dirs))] + "/f"
			}
		})
		table, err := l.Compile(in)
		if err != nil {
			refused++
			continue
		}
		within++
		in.Work = l.Work()
		c, err := compiled(in, time.Now)
		must.Do(t, err)
		dir, err := l.dir(c)
		must.Do(t, err)
		most, err := compiled(l.input(in, dir), time.Now)
		must.Do(t, err)
		asked += compareByEvaluator(t, fmt.Sprintf("seed %d, ceiling %+v, request %+v", seed, l, in.Filesystem), h, table.View, &most.View)

		same := in
		same.Filesystem, same.Command = l.Filesystem, "sh"
		if same.Dir == dir {
			if _, err := l.Compile(same); err == nil {
				itself++
			} else if wider := new(WiderError); errors.As(err, &wider) {
				t.Errorf("seed %d: the ceiling is wider than itself: %v", seed, err)
			}
		}
	}
	t.Logf("%d within, %d refused, %d of the ceiling itself; %d files granted", within, refused, itself, asked)
	if within < 100 || refused < 100 || itself < 50 || asked < 1000 {
		t.Error("too few to prove anything")
	}
}

// compareByEvaluator asks of each file of the host's, wherever a view shows it.
func compareByEvaluator(t *testing.T, about string, h *hosttest.Host, some, most *view.View) (asked int) {
	granted := func(v *view.View) map[string]bool {
		all := map[string]bool{}
		by := explain.New(v, explain.Viewer{UID: 1000, GID: 1000, Host: h})
		for name := range h.Nodes {
			for i := range v.Grants {
				g := &v.Grants[i]
				if g.Access == view.Private || !hostfs.Under(name, g.Src.Path) || strings.HasPrefix(name, "/usr") {
					continue
				}
				for _, op := range []explain.Op{explain.Read, explain.Write} {
					s := by.Check(hostfs.Rebase(name, g.Src.Path, g.Dst), op)
					if !s.Granted || s.Source != name {
						continue
					}
					if op == explain.Write && v.Nearest(s.Path).Access == view.Overlay {
						op = "overlay"
					}
					all[string(op)+" "+name] = true
				}
			}
		}
		return all
	}
	have := granted(most)
	for what := range granted(some) {
		asked++
		if rest, ok := strings.CutPrefix(what, "overlay "); ok && have["write "+rest] {
			continue
		}
		if !have[what] {
			t.Errorf("%s: %s is granted, and not by the ceiling", about, what)
		}
	}
	return asked
}
