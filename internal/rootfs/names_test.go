package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/view"
)

// planted are links that a run, or a clone, has left in /home/u/p, which is the current directory.
var planted = []string{
	"/home/u/p/build -> ../.ssh", "/home/u/p/abs -> /home/u/.ssh", "/home/u/p/hooks -> .git/hooks", "/home/u/p/git -> .git",
	"/home/u/p/d/up -> ../../.ssh", "/home/u/p/chain -> d/up", "/home/u/p/file -> ../.bashrc", "/home/u/p/cwd -> /proc/self/cwd/../.ssh",
	"/home/u/p/in -> src", "/home/u/p/loop -> loop", "/home/u/p/env -> .env", "/home/u/p/back -> /outside/back", "/outside/back -> /home/u/p/src",
	"/proc/self -> 7", "/proc/7/cwd -> /home/u/p", "/home/u/.bashrc=1", "/home/u/p/.git/hooks/", "/home/u/p/.git/config=1", "/home/u/p/.env=1",
}

// options says a name as each option that shows, writes or starts in what it leads to.
var optionsOf = map[string]func(in *view.Input, name string){
	"--allow-read":      func(in *view.Input, name string) { in.AllowRead = []string{name} },
	"--allow-write":     func(in *view.Input, name string) { in.AllowWrite = []string{name} },
	"--overlay":         func(in *view.Input, name string) { in.Overlay = []string{name} },
	"--mount :ro":       func(in *view.Input, name string) { in.Mounts = []view.Mount{{Src: name, Dst: "/x"}} },
	"--mount :rw":       func(in *view.Input, name string) { in.Mounts = []view.Mount{{Src: name, Dst: "/x", Mode: "rw"}} },
	"--mount :overlay":  func(in *view.Input, name string) { in.Mounts = []view.Mount{{Src: name, Dst: "/x", Mode: "overlay"}} },
	"--rootfs":          func(in *view.Input, name string) { in.Rootfs, in.Workdir = name, "none" },
	"--workdir none -w": func(in *view.Input, name string) { in.AllowWrite, in.Workdir = []string{name}, "none" },
}

func TestNoNameIsFollowedThroughALinkOfATreeOfWork(t *testing.T) {
	for _, name := range []string{"build", "abs", "hooks", "git", "d/up", "chain", "cwd", "in", "back", "./build/", "d/../build/.",
		"/home/u/p/build", "/home/u/p/in", "/link/build", "/proc/self/cwd/build", "../p/build", "in/../../.ssh"} {
		for option, say := range optionsOf {
			h := hosttest.Debian(t, append(planted, "/link -> /home/u/p")...)
			_, err := Compile(hosttest.Input(h, func(in *view.Input) { say(in, name); in.Protect = []string{".git/hooks"} }))
			if !errors.Is(err, view.ErrThroughLink) {
				t.Errorf("%s %s: %v", option, name, err)
				continue
			}
			real, _, _ := h.Walk(path.Join("/home/u/p", name), true)
			if path.IsAbs(name) || strings.Contains(name, "..") {
				at := name
				if !path.IsAbs(name) {
					at = "/home/u/p/" + name
				}
				real, _, _ = h.Walk(at, true)
			}
			if e, ok := errors.AsType[*view.Error](err); !ok || !strings.HasSuffix(e.Hint, ": "+real) || e.Path != name {
				t.Errorf("%s %s: %v, want the hint to end in %s", option, name, err, real)
			}
			// The control: the real name is one that can be said.
			if _, err := Compile(hosttest.Input(h, func(in *view.Input) { say(in, real) })); err != nil {
				t.Errorf("%s %s: %v", option, real, err)
			}
		}
	}
}

func TestNamesOfFilesAndNamesThatLeadNowhere(t *testing.T) {
	for _, name := range []string{"file", "env"} {
		for _, option := range []string{"--allow-read", "--allow-write", "--mount :rw"} {
			if _, err := Compile(hosttest.Input(hosttest.Debian(t, planted...), func(in *view.Input) { optionsOf[option](in, name) })); !errors.Is(err, view.ErrThroughLink) {
				t.Errorf("%s %s: %v", option, name, err)
			}
		}
	}
	for _, name := range []string{"loop", "nothing"} {
		if _, err := Compile(hosttest.Input(hosttest.Debian(t, planted...), func(in *view.Input) { in.AllowRead = []string{name} })); err == nil {
			t.Errorf("%s is shown", name)
		}
	}
}

// What takes away, and where to start, may lead about in the tree, and not out of it.
func TestNamesThatShowNothingStayInTheTree(t *testing.T) {
	for _, c := range []struct {
		name string
		out  bool
	}{{"build", true}, {"abs", true}, {"chain", true}, {"in", false}, {"src", false}} {
		for option, say := range map[string]func(*view.Input){
			"--deny":    func(in *view.Input) { in.Deny = []string{c.name} },
			"--deny /x": func(in *view.Input) { in.Deny = []string{c.name + "/x"} },
			"--deny /*": func(in *view.Input) { in.Deny = []string{c.name + "/**"} },
			"--chdir":   func(in *view.Input) { in.Chdir = c.name },
		} {
			_, err := Compile(hosttest.Input(hosttest.Debian(t, planted...), func(in *view.Input) { in.AllowRead = []string{"/home/u"}; say(in) }))
			if errors.Is(err, view.ErrThroughLink) != c.out || !c.out && err != nil {
				t.Errorf("%s %s: %v", option, c.name, err)
			}
		}
	}
	// The links of another root lead about in that.
	h := hosttest.Debian(t, "/img/app -> /srv", "/img/srv/", "/img/proc/", "/img/dev/", "/home/u/p/app -> ../.ssh")
	if r := compile(t, h, func(in *view.Input) { in.Rootfs, in.Chdir = "/img", "/app" }); r.Dir != "/srv" {
		t.Errorf("starts in %s", r.Dir)
	}
}

// Whatever is filled by somebody else is a tree of work.
func TestTreesOfWork(t *testing.T) {
	const link = "/data/w/build -> /data/other"
	for _, c := range []struct {
		name    string
		lines   []string
		say     func(*view.Input)
		refused bool
	}{
		{"nobody's", nil, nil, false},
		{"named to be read", nil, func(in *view.Input) { in.AllowRead = []string{"/data/w"} }, true},
		{"named to be written", nil, func(in *view.Input) { in.AllowWrite = append(in.AllowWrite, "/data/w") }, true},
		{"named by a link", []string{"/l -> data/w"}, func(in *view.Input) { in.AllowRead = []string{"/l"} }, true},
		{"an overlay", nil, func(in *view.Input) { in.Overlay = []string{"/data/w"} }, true},
		{"mounted", nil, func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/data/w", Dst: "/x"}} }, true},
		{"around it", nil, func(in *view.Input) { in.AllowRead = []string{"/data"} }, true},
		{"beside it", nil, func(in *view.Input) { in.AllowRead = []string{"/data/other"} }, false},
		{"the policy file's", nil, func(in *view.Input) { in.ConfigFiles = []string{"/data/w/confine.toml"} }, true},
		{"the current directory", nil, func(in *view.Input) { in.Dir = "/data/w" }, true},
		{"below the current directory", nil, func(in *view.Input) { in.Dir = "/data" }, true},
		{"above the current directory", []string{"/data/w/sub/"}, func(in *view.Input) { in.Dir = "/data/w/sub" }, false},
		{"a checkout around the current directory", []string{"/data/w/sub/", "/data/w/.git/"}, func(in *view.Input) { in.Dir = "/data/w/sub" }, true},
		{"a worktree", []string{"/data/w/.git=gitdir: x"}, nil, true},
		{"a checkout of another kind", []string{"/data/w/.hg/"}, nil, true},
		{"a home that a link of it says is around it", []string{"/data/w/h -> ."}, func(in *view.Input) { in.Dir, in.HomeDir = "/data/w", "/data/w/h" }, true},
		{"everything to be read", nil, func(in *view.Input) { in.AllowRead = []string{"/"} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hosttest.Debian(t, append(c.lines, link, "/data/other/", "/data/w/confine.toml=")...)
			_, err := Compile(hosttest.Input(h, func(in *view.Input) {
				in.AllowWrite = []string{"/data/w/build"}
				if c.say != nil {
					c.say(in)
				}
			}))
			if errors.Is(err, view.ErrThroughLink) != c.refused || !c.refused && err != nil {
				t.Errorf("%v", err)
			}
		})
	}
	// A home directory is a tree of work where it is writable, and else it has the caller's own links.
	for _, c := range []struct {
		say     func(*view.Input)
		refused bool
	}{
		{func(in *view.Input) {}, false},
		{func(in *view.Input) { in.Dir = "/home/u" }, false},
		{func(in *view.Input) { in.AllowRead = []string{"/home/u"} }, false},
		{func(in *view.Input) { in.AllowWrite = append(in.AllowWrite, "/home/u") }, true},
	} {
		h := hosttest.Debian(t, "/home/u/project -> /data/project", "/data/project/")
		in := hosttest.Input(h, func(in *view.Input) { in.AllowWrite = []string{"/home/u/project"}; c.say(in) })
		if _, err := Compile(in); errors.Is(err, view.ErrThroughLink) != c.refused || !c.refused && err != nil {
			t.Errorf("%v", err)
		}
	}
}

// What lies in a directory for temporary files somebody made there, but for a home directory.
func TestADirectoryForTemporaryFilesHasTreesOfWork(t *testing.T) {
	for home, refused := range map[string]bool{"/home/u": true, "/tmp/t/home": false, "/tmp/other": true} {
		h := hosttest.Debian(t, "/tmp/t/l -> d", "/tmp/t/d/", "/tmp/t/home/", "/tmp/other/")
		_, err := Compile(hosttest.Input(h, func(in *view.Input) { in.AllowWrite, in.HomeDir = []string{"/tmp/t/l"}, home }))
		if errors.Is(err, view.ErrThroughLink) != refused || !refused && err != nil {
			t.Errorf("HOME=%s: %v", home, err)
		}
	}
}

// The system's links, and the caller's own, go on working.
func TestLinksOutsideOfTreesOfWorkAreFollowed(t *testing.T) {
	for _, c := range []struct{ name, real string }{
		{"/bin", "/usr/bin"}, {"/lib64/x", "/usr/lib/x"}, {"/var/run/x", "/run/x"}, {"/home/u/project", "/data/project"}, {"/home/u/project/sub", "/data/project/sub"},
		{"../project", "/data/project"}, {"/people/u/other", "/home/u/other"}, {"/usr/lib/jvm", "/usr/lib/java/17"},
	} {
		h := hosttest.Debian(t, "/lib64 -> usr/lib", "/usr/lib/x/", "/var/run -> /run", "/run/x/", "/home/u/project -> /data/project", "/data/project/sub/",
			"/people -> home", "/home/u/other/", "/usr/lib/jvm -> /etc/alternatives/jvm", "/etc/alternatives/jvm -> /usr/lib/java/17", "/usr/lib/java/17/")
		r := compile(t, h, func(in *view.Input) { in.AllowRead = []string{c.name} })
		if !r.sees(c.real + "/f") {
			t.Errorf("%s doesn't show %s", c.name, c.real)
		}
	}
}

// What is secret, or protected, has to be called by its own name.
func TestALinkDoesNotLiftProtection(t *testing.T) {
	lines := []string{"/keys -> home/u/.ssh", "/id -> /home/u/.ssh/id", "/k2 -> /keys", "/cfg -> /home/u/other", "/gh -> /home/u/other/.github", "/gw -> /gh/workflows",
		"/h -> /home/u/other/.git/hooks", "/g -> /home/u/other/.git", "/home/u/other/.git/hooks/", "/home/u/other/.github/workflows/", "/e -> /home/u/other/.env",
		"/home/u/other/.env=1", "/tools -> /home/u/bin", "/home/u/bin/", "/own -> /home/u/.config/confine", "/home/u/.config/confine/", "/people -> home",
		"/home/u/.gnupg -> dot/gnupg", "/home/u/dot/gnupg/", "/dotgnupg -> home/u/dot/gnupg", "/v -> /home/v/.aws", "/home/v/.aws/config=1", "/src -> home/u/other/src", "/home/u/other/src/"}
	protect := []string{".github/workflows", ".git/hooks", "~/bin"}
	for _, c := range []struct {
		name        string
		read, write bool // may be
	}{
		{"/keys", false, false}, {"/id", false, false}, {"/k2/id", false, false}, {"/e", false, false}, {"/v", false, false}, {"/dotgnupg", false, false},
		{"/gh", true, false}, {"/gw", true, false}, {"/h", true, false}, {"/g", true, false}, {"/tools", true, false}, {"/own", true, false},
		{"/cfg", true, true}, {"/src", true, true},
		// These say so.
		{"/home/u/.ssh", true, true}, {"/people/u/.ssh/id", true, true}, {"/home/u/.gnupg", true, true}, {"/cfg/.env", true, true},
		{"/cfg/.github/workflows", true, true}, {"/people/u/bin", true, true}, {"/cfg/.git/hooks", true, true},
	} {
		for _, writes := range []bool{false, true} {
			h := hosttest.Debian(t, lines...)
			_, err := Compile(hosttest.Input(h, func(in *view.Input) {
				in.Protect = protect
				if in.AllowRead = []string{c.name}; writes {
					in.AllowRead, in.AllowWrite = nil, in.AllowRead
				}
			}))
			may := c.read
			if writes {
				may = c.write
			}
			if errors.Is(err, view.ErrThroughLink) == may || may && err != nil {
				t.Errorf("%s, writable %v: %v", c.name, writes, err)
			}
		}
	}
}

// swapping is a host on which somebody exchanges a directory and a link all the time.
type swapping struct {
	*hosttest.Host
	at        string
	as        [2]hosttest.Node
	since, on int
}

func (s *swapping) turn() {
	if s.since++; s.since == s.on {
		n := s.as[1]
		s.Nodes[s.at] = &n
		return
	}
	n := s.as[0]
	s.Nodes[s.at] = &n
}

func (s *swapping) Resolve(name string) (hostfs.File, error) { s.turn(); return s.Host.Resolve(name) }
func (s *swapping) Readlink(name string) (string, error) {
	s.turn()
	return s.Host.Readlink(name)
}

// Whenever a link to somewhere else takes a directory's place, for a moment: what is shown is
// never what that leads to.
func TestASwapWhileNamesAreResolved(t *testing.T) {
	const secret = "/home/u/.ssh"
	shown := false
	for on := 1; on < 400; on++ {
		for _, other := range []bool{false, true} { // a link that is a directory for a moment, and the reverse
			h := hosttest.Debian(t, "/home/u/p/build/sub/=", "/home/u/.ssh/sub/")
			s := &swapping{Host: h, at: "/home/u/p/build", on: on}
			s.as[0], s.as[1] = *h.Nodes[s.at], hosttest.Node{Ino: 9e5, Mode: fs.ModeSymlink | 0o777, Text: "../.ssh"}
			if other {
				s.as[0], s.as[1] = s.as[1], s.as[0]
			}
			table, err := Compile(hosttest.Input(s, func(in *view.Input) { in.AllowWrite, in.Workdir = []string{"build/sub"}, "none" }))
			if err != nil {
				continue
			}
			for _, m := range table.Mounts {
				if hostfs.Under(m.Src, secret) {
					t.Fatalf("at step %d: %+v", on, m)
				}
				shown = shown || m.Src == "/home/u/p/build/sub"
			}
		}
	}
	if !shown {
		t.Error("not even the directory was shown")
	}
}

// In random trees of links, no name of the policy shows anything outside of the tree that it
// begins in.
func TestRandomLinksNeverLeadAGrantOutOfTheTree(t *testing.T) {
	const top = "/home/u/p"
	escapes, stays, plainNames := 0, 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 15))
		h := hosttest.Debian(t, "/home/u/.ssh/a/b/", "/data/a/b/", "/proc/self -> 7", "/proc/7/cwd -> "+top)
		names := []string{"a", "b", "c"}
		pick := func() string { return names[r.IntN(len(names))] }
		some := func() string {
			p := pick()
			for range r.IntN(3) {
				p += "/" + pick()
			}
			return p
		}
		for range 12 {
			at := top + "/" + some()
			if _, _, err := h.Walk(path.Dir(at), true); err == nil && h.Nodes[path.Dir(at)] == nil || h.Nodes[at] != nil {
				continue // its directory has another path
			}
			if r.IntN(2) == 0 {
				h.Put(at, fs.ModeDir|0o755, "")
				continue
			}
			target := []string{some(), "../" + some(), "../../" + some(), "../../../.ssh", "/home/u/.ssh/" + some(), "/data", top + "/" + some(),
				"/proc/self/cwd/" + some(), "/proc/self/cwd/../.ssh", some() + "/../../" + some()}[r.IntN(10)]
			h.Put(at, fs.ModeSymlink|0o777, target)
		}
		name := some()
		real, n, err := h.Walk(top+"/"+name, true)
		if err != nil || !n.Mode.IsDir() {
			continue
		}
		for option, say := range optionsOf {
			table, err := Compile(hosttest.Input(h, func(in *view.Input) { in.Workdir = "none"; say(in, name) }))
			switch {
			case !hostfs.Under(real, top):
				escapes++
			case real != path.Join(top, name):
				stays++
			default:
				plainNames++
				if err != nil {
					t.Fatalf("seed %d: %s %s, no link: %v", seed, option, name, err)
				}
			}
			if err != nil {
				if !errors.Is(err, view.ErrThroughLink) {
					t.Fatalf("seed %d: %s %s: %v", seed, option, name, err)
				}
				continue
			}
			for _, m := range append(table.Mounts, table.Root) {
				if hostfs.Under(m.Src, "/home/u") && m.Src != path.Join(top, name) || hostfs.Under(m.Src, "/data") {
					t.Fatalf("seed %d: %s %s shows %s at %s", seed, option, name, m.Src, m.Dst)
				}
			}
		}
	}
	if escapes < 500 || stays < 500 || plainNames < 500 {
		t.Error("the trees are too tame: ", fmt.Sprint(escapes, stays, plainNames))
	}
}
