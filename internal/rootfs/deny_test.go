package rootfs

import (
	"testing"

	"github.com/confine-run/confine/internal/hide"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/internal/view"
)

func TestDeny(t *testing.T) {
	extra := []string{"/home/u/p/.env=1", "/home/u/p/a/.env=1", "/home/u/p/a/b/k.key=1", "/home/u/p/k.key=1", "/home/u/p/x y.key=1",
		"/home/u/p/secret/pub/f=1", "/home/u/p/secret/f=1", "/home/u/p/l -> a/b", "/data/k.key=1", "/data/s/pub/=", "/home/u/p/[x]=1",
		"/usr/share/k.key=1", "/data/shut/!"}
	for _, c := range []struct {
		name   string
		deny   []string
		change func(*view.Input)
		want   []string
	}{
		{"a path", []string{"/home/u/p/.env"}, nil, []string{"/home/u/p/.env", "mask"}},
		{"relative", []string{"a/b"}, nil, []string{"/home/u/p/a/b", "mask"}},
		{"through a link", []string{"l"}, nil, []string{"/home/u/p/a/b", "mask", "/home/u/p/l", ""}},
		{"a link is only a name", []string{"?"}, nil, []string{"/home/u/p/a", "mask", "/home/u/p/l", ""}},
		{"of the system", []string{"/usr/share/k.key"}, nil, []string{"/usr/share/k.key", "mask"}},
		{"by a link of the system's", []string{"/bin/true"}, nil, []string{"/usr/bin/true", "mask"}},
		{"not there", []string{"nope", "/data/k.key"}, nil, []string{"/home/u/p/nope", "", "/data/k.key", ""}},
		{"one level", []string{"*.key"}, nil, []string{"/home/u/p/k.key", "mask", "/home/u/p/x y.key", "mask", "/home/u/p/a/b/k.key", ""}},
		{"every level", []string{"**/.env"}, nil, []string{"/home/u/p/.env", "mask", "/home/u/p/a/.env", "mask"}},
		{"braces and classes", []string{"/home/u/p/{a/b,}/[j-l].key"}, nil, []string{"/home/u/p/a/b/k.key", "mask"}},
		{"not in the system", []string{"/**/*.key"}, nil, []string{"/usr/share/k.key", "", "/home/u/p/a/b/k.key", "mask"}},
		{"a name that looks like a pattern", []string{"[x]"}, nil, []string{"/home/u/p/[x]", "mask"}},
		{"at a tie", []string{"/data"}, func(in *view.Input) { in.AllowRead = []string{"/data"} }, []string{"/data", ""}},
		{"at a tie within a tree", []string{"a"}, func(in *view.Input) { in.AllowRead = []string{"a"} }, []string{"/home/u/p/a", "mask"}},
		{"more specific is what is allowed", []string{"secret"}, func(in *view.Input) { in.AllowRead = []string{"secret/pub"} },
			[]string{"/home/u/p/secret", "scratch", "/home/u/p/secret/pub", "ro /home/u/p/secret/pub"}},
		{"below what only the denied tree showed", []string{"/data"}, func(in *view.Input) { in.AllowRead = []string{"/data", "/data/s"} },
			[]string{"/data", "", "/data/s", "ro /data/s"}},
		{"a pattern beats what it matches below", []string{"secret/**"}, func(in *view.Input) { in.AllowRead = []string{"secret/pub"} },
			[]string{"/home/u/p/secret", "scratch", "/home/u/p/secret/pub", ""}},
		{"of the host, where a mount shows it", []string{"/data/k.key"}, func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/data", Dst: "/m", Mode: "ro"}} },
			[]string{"/m/k.key", "mask"}},
		{"inside, where a mount shows it", []string{"/m/*.key"}, func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/data", Dst: "/m", Mode: "ro"}} },
			[]string{"/m/k.key", "mask"}},
		{"what can't be listed", []string{"/data/**/*.key"}, func(in *view.Input) { in.AllowRead = []string{"/data"} },
			[]string{"/data/shut", "mask", "/data/k.key", "mask"}},
		{"a part, and then the tree that shows it", []string{"/home/u/p/a", "/home/u/p"}, nil, []string{"/home/u/p", "", "/home/u/p/a", ""}},
		{"a part, and then what is around it", []string{"/data/s/pub", "/data/s"}, func(in *view.Input) { in.AllowRead = []string{"/data"} },
			[]string{"/data/s", "mask", "/data/s/pub", ""}},
		{"the current directory", []string{"."}, nil, []string{"/home/u/p", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hosttest.Debian(t, extra...)
			h.Other = true
			r := compile(t, h, func(in *view.Input) {
				if c.change != nil {
					c.change(in)
				}
				in.Deny = c.deny
			})
			if c.name == "a pattern beats what it matches below" {
				if r.sees("/home/u/p/secret/pub/f") || r.sees("/home/u/p/secret/f") {
					t.Error("it is visible")
				}
				return
			}
			r.want(c.want...)
			if c.name == "the current directory" && r.Dir != "/tmp" {
				t.Errorf("starts in %s", r.Dir)
			}
		})
	}
}

func TestHomeIsReadableExceptSecrets(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/.aws/config=1", "/home/u/.bash_history=1", "/home/u/.config/gh/hosts.yml=1", "/home/u/.gnupg -> keys",
		"/home/u/keys/k=1", "/home/u/.cargo/credentials.toml=1", "/home/u/notes=1")
	r := compile(t, h, func(in *view.Input) { in.Home, in.Workdir = true, "rw" })
	r.want("/home/u", "scratch", "/home/u/p", "rw /home/u/p", "/home/u/notes", "ro /home/u/notes")
	for _, secret := range []string{".ssh/id", ".aws/config", "keys/k", ".config/gh/hosts.yml", ".bash_history", ".cargo/credentials.toml"} {
		if r.sees("/home/u/" + secret) {
			t.Errorf("%s is visible", secret)
		}
	}
	r = compile(t, h, func(in *view.Input) { in.Home, in.AllowRead = true, []string{"/home/u/.ssh", "/home/u/.aws/config"} })
	r.want("/home/u/.ssh", "ro /home/u/.ssh", "/home/u/.aws", "", "/home/u/.aws/config", "ro /home/u/.aws/config")
	if !r.sees("/home/u/.ssh/id") {
		t.Error("what was named is hidden")
	}
}

func TestDenies(t *testing.T) {
	t.Parallel()
	h := hosttest.Debian(t, "/data/d/sub/x.key=1", "/home/u/l -> /data/d", "/home/u/p/x.key=1", "/data/[d]/x.key=1")
	for _, c := range []struct {
		word, name string
		want       bool
	}{
		{"/data/d/sub/x.key", "/data/d/sub/x.key", true}, {"/data/d", "/data/d/sub/x.key", true}, {"/data/d/", "/data/d/sub/x.key", true},
		{"/data/d/**/*.key", "/data/d/sub/x.key", true}, {"/data/**", "/data/d/sub/x.key", true}, {"/data/*", "/data/d/sub/x.key", true},
		{"/home/u/l", "/data/d/sub/x.key", true}, {"/home/u/l/**/*.key", "/data/d/sub/x.key", true}, {"*.key", "/home/u/p/x.key", true}, {"/**/*.key", "/home/u/p/x.key", true},
		{"/data/[d]", "/data/[d]/x.key", true}, {"/data/[[]d]/*.key", "/data/[d]/x.key", true},
		{"*.key", "/data/d/sub/x.key", false}, {"/data/d/*.key", "/data/d/sub/x.key", false}, {"/data/e", "/data/d/sub/x.key", false},
		{"/data/d/sub/x", "/data/d/sub/x.key", false}, {secrets.Set, "/home/u/p/x.key", false},
	} {
		if got := hide.Denies(h, []string{"/nothing", c.word}, "/home/u/p", c.name); got != c.want {
			t.Errorf("--deny %s: %s: %v", c.word, c.name, got)
		}
	}
}

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
