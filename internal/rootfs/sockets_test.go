package rootfs

import (
	"strconv"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/hide"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/internal/view"
)

func TestSocketsOfTheHostAreHidden(t *testing.T) {
	list := "Num       RefCount Protocol Flags    Type St Inode Path\n" +
		"00000000803d1080: 00000003 00000000 00000000 0001 03   130\n" +
		"00000000803d1081: 00000002 00000000 00010000 0001 01 12345 /home/u/p/app.sock\n" +
		"00000000803d1082: 00000002 00000000 00010000 0001 01 12346 /home/u/p/a dir/named.sock\n" +
		"00000000803d1083: 00000002 00000000 00010000 0001 01 12347 @abstract\n" +
		"00000000803d1084: 00000002 00000000 00010000 0001 01 12348 relative.sock\n" +
		"00000000803d1085: 00000002 00000000 00010000 0001 01 12349 /link/s.sock\n" +
		"00000000803d1086: 00000002 00000000 00010000 0001 01 12350 /elsewhere/x.sock\n" +
		"00000000803d1087: 00000002 00000000 00010000 0001 01 12351 /srv/tree/y.sock\n" +
		"00000000803d1088: 00000002 00000000 00010000 0001 01 12352 in.sock\n" +
		"00000000803d1089: 00000002 00000000 00010000 0001 01 12353 plain.sock\n" +
		"00000000803d108a: 00000002 00000000 00010000 0001 01 12354 /home/u/p/a\nb.sock\n"
	h := hosttest.Debian(t, "/proc/self/net/unix="+list, "/home/u/p/app.sock=", "/home/u/p/a dir/named.sock=", "/home/u/p/s.sock=",
		"/link -> /home/u/p", "/elsewhere/x.sock=", "/srv/tree/y.sock=", "/srv/tree/f=1",
		"/home/u/p/relative.sock|", "/home/u/p/run/in.sock|", "/home/u/p/run/plain.sock=", "/proc/77/cwd -> /home/u/p/run", "/proc/78/", "/proc/sys/",
		"/home/u/p/lying.sock|", "/srv/tree/lying.sock|", "/home/u/p/a\nb.sock|")
	for _, c := range []struct {
		name   string
		change func(*view.Input)
		want   []string
	}{
		{"in the current directory", func(*view.Input) {}, []string{"/home/u/p/app.sock", "mask", "/home/u/p/a dir/named.sock", "mask",
			"/home/u/p/s.sock", "mask", "/elsewhere/x.sock", "", "/home/u/p/a\nb.sock", "mask"}},
		{"by a relative name", func(*view.Input) {}, []string{"/home/u/p/relative.sock", "mask", "/home/u/p/run/in.sock", "mask",
			"/home/u/p/run/plain.sock", "", "/home/u/p/lying.sock", ""}},
		{"come across, read-only", func(in *view.Input) { in.Deny = []string{"/**/nothing"} }, []string{"/home/u/p/lying.sock", "mask", "/home/u/p/run/plain.sock", ""}},
		{"come across among secrets", func(in *view.Input) { in.Deny, in.AllowRead = []string{secrets.Set}, []string{"/srv/tree"} }, []string{"/srv/tree/lying.sock", "mask"}},
		{"come across, writable", func(in *view.Input) { in.Deny, in.Workdir = []string{"/**/nothing"}, "rw" },
			[]string{"/home/u/p/lying.sock", "", "/home/u/p/relative.sock", "mask"}},
		{"come across, and named", func(in *view.Input) {
			in.Deny, in.AllowRead = []string{"/**/nothing"}, []string{"/home/u/p/lying.sock"}
		}, []string{"/home/u/p/lying.sock", "ro /home/u/p/lying.sock"}},
		{"named", func(in *view.Input) { in.AllowRead = []string{"/home/u/p/app.sock"} }, []string{"/home/u/p/app.sock", "", "/home/u/p/s.sock", "mask"}},
		{"in a writable tree", func(in *view.Input) { in.Workdir = "rw" }, []string{"/home/u/p/app.sock", "mask"}},
		{"in an overlay", func(in *view.Input) { in.Workdir = "overlay" }, []string{"/home/u/p/app.sock", ""}},
		{"by a mount", func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/srv/tree", Dst: "/m", Mode: "ro"}} }, []string{"/m/y.sock", "mask"}},
		{"a mount of its own", func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/srv/tree/y.sock", Dst: "/m", Mode: "ro"}} }, []string{"/m", "ro /srv/tree/y.sock"}},
		{"where nothing is mounted", func(in *view.Input) { in.Bare = true }, []string{"/home/u/p/app.sock", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			compile(t, h, func(in *view.Input) { in.Workdir = "ro"; c.change(in) }).want(c.want...)
		})
	}
}

func TestWhereSocketsMayComeToBe(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/f=1", "/srv/tree/f=1")
	for _, c := range []struct {
		name   string
		change func(*view.Input)
		want   bool
	}{
		{"nothing but the system", func(in *view.Input) { in.Workdir = "none" }, false},
		{"an overlay", func(in *view.Input) { in.Workdir = "overlay" }, false},
		{"a file", func(in *view.Input) { in.Workdir, in.AllowRead = "none", []string{"/srv/tree/f"} }, false},
		{"read-only", func(in *view.Input) { in.Workdir = "ro" }, true},
		{"writable", func(in *view.Input) { in.Workdir, in.AllowWrite = "none", []string{"/srv/tree"} }, true},
	} {
		if got := compile(t, h, c.change).SocketsLater; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// numbered is a host whose kernel tells the numbers of files, in lines "NAME PATH": what it was
// bound to, and where the file is now. A path alone is its own name.
func numberedHost(t *testing.T, sockets []string, lines ...string) *hosttest.Host {
	t.Helper()
	h := hosttest.Debian(t, lines...)
	h.Put("/proc/self/mountinfo", 0o444, "21 1 0:7 / / rw - ext4 /dev/a rw\n22 21 0:9 / /run rw - tmpfs t rw\n"+
		"23 21 0:7 /srv/tree/kept /home/u/p/bound\\040here rw - ext4 /dev/a rw\n")
	for _, line := range sockets {
		line, another := strings.CutSuffix(line, " by another")
		name, at, two := strings.Cut(line, " ")
		if !two {
			at = name
		}
		one := hostfs.Socket{Name: name, Dev: 7, Ino: 1 << 30, UID: 1000}
		if another {
			one.UID = 1001
		}
		if n := h.Nodes[at]; n != nil {
			one.Ino = uint32(n.Ino)
		}
		if strings.HasPrefix(at, "/run/") {
			one.Dev = 9
		}
		h.Bound = append(h.Bound, one)
	}
	return h
}

func TestSocketsAreFoundByTheirNumbers(t *testing.T) {
	bound := func(in *view.Input) { in.Workdir = "ro" }
	writable := func(in *view.Input) { in.Workdir = "rw" }
	for _, c := range []struct {
		name    string
		sockets []string
		lines   []string
		change  func(*view.Input)
		want    []string
		lists   int // directories that are searched
	}{
		{"where it was bound", []string{"/home/u/p/s"}, []string{"/home/u/p/s|", "/home/u/p/far/"}, writable, []string{"/home/u/p/s", "mask"}, 0},
		{"with an end of line", []string{"/home/u/p/a\nb"}, []string{"/home/u/p/a\nb|"}, bound, []string{"/home/u/p/a\nb", "mask"}, 0},
		{"renamed", []string{"/home/u/p/old /home/u/p/sub/new"}, []string{"/home/u/p/sub/new|", "/home/u/p/other|"}, writable,
			[]string{"/home/u/p/sub/new", "mask", "/home/u/p/other", ""}, 5},
		{"renamed in its directory", []string{"/home/u/p/sub/old /home/u/p/sub/new"}, []string{"/home/u/p/sub/new|", "/home/u/p/sub/other|"}, writable,
			[]string{"/home/u/p/sub/new", "mask", "/home/u/p/sub/other", ""}, 1},
		{"renamed in its directory, which isn't shown", []string{"/srv/old /srv/new"}, []string{"/srv/new|"}, writable, nil, 1},
		{"renamed by another", []string{"/home/u/p/old /home/u/p/new by another"}, []string{"/home/u/p/new|"}, writable, []string{"/home/u/p/new", "mask"}, 1},
		{"renamed to elsewhere by another", []string{"/home/u/p/old /home/u/p/sub/new by another"}, []string{"/home/u/p/sub/new|"}, writable, []string{"/home/u/p/sub/new", ""}, 1},
		{"renamed from elsewhere", []string{"/srv/old /home/u/p/new"}, []string{"/home/u/p/new|"}, bound, []string{"/home/u/p/new", "mask"}, 1},
		{"renamed, and another in its place", []string{"/home/u/p/s /home/u/p/moved"}, []string{"/home/u/p/s|", "/home/u/p/moved|"}, writable,
			[]string{"/home/u/p/s", "mask", "/home/u/p/moved", "mask"}, 1},
		{"linked", []string{"/home/u/p/s"}, []string{"/home/u/p/s|", "/home/u/p/t => /home/u/p/s"}, writable, []string{"/home/u/p/s", "mask", "/home/u/p/t", "mask"}, 1},
		{"relative to a directory of somebody's", []string{"s /home/u/p/sub/s"}, []string{"/home/u/p/sub/s|", "/proc/77/cwd -> /home/u/p/sub"}, writable,
			[]string{"/home/u/p/sub/s", "mask"}, 1},
		{"relative to where nobody is", []string{"s /home/u/p/sub/s"}, []string{"/home/u/p/sub/s|", "/proc/77/cwd -> /home"}, writable,
			[]string{"/home/u/p/sub/s", "mask"}, 5},
		{"by way of proc", []string{"/proc/self/fd/9/s /home/u/p/s"}, []string{"/home/u/p/s|"}, bound, []string{"/home/u/p/s", "mask"}, 1},
		{"elsewhere, on the same device", []string{"/srv/s"}, []string{"/srv/s|"}, bound, nil, 0},
		{"gone, on another device", []string{"/run/s"}, []string{"/home/u/p/f=1"}, bound, nil, 0},
		{"gone, on the same device", []string{"/home/u/p/s"}, []string{"/home/u/p/sub/f=1"}, writable, nil, 5},
		{"where Landlock holds it", []string{"/home/u/p/s /home/u/p/t"}, []string{"/home/u/p/t|"}, func(in *view.Input) { in.SocketsHeld = true }, nil, 0},
		{"named", []string{"/home/u/p/s /home/u/p/t"}, []string{"/home/u/p/t|"}, func(in *view.Input) { in.AllowRead = []string{"/home/u/p/t"} },
			[]string{"/home/u/p/t", "ro /home/u/p/t"}, 1},
		{"of another network, in a tree that is read-only and searched", []string{"/home/u/p/s"}, []string{"/home/u/p/t|"}, bound, []string{"/home/u/p/t", "mask"}, 4},
		{"by a mount elsewhere", []string{"/srv/tree/kept/s"}, []string{"/srv/tree/kept/s|", "/home/u/p/bound here/s => /srv/tree/kept/s"}, writable,
			[]string{"/home/u/p/bound here/s", "mask"}, 0},
		{"in a directory of root's", []string{"/var/lib/d/s"}, []string{"/var/lib/d/!", "/var/lib/d/s|"}, bound, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := numberedHost(t, nil, c.lines...)
			h.Other = true
			for _, l := range c.lines {
				if at, to, linked := strings.Cut(l, " => "); linked {
					delete(h.Nodes, l)
					h.Put(at, 0, "")
					h.Nodes[at] = h.Nodes[to]
					if !strings.Contains(at, "bound here") { // which is another mount of it
						h.Nodes[to].Names = 2
					}
				}
			}
			none := *h
			compile(t, &none, c.change)
			h.Bound = numberedHost(t, c.sockets, c.lines...).Bound
			h.Lists = 0
			compile(t, h, c.change).want(c.want...)
			if n := h.Lists - none.Lists; n != c.lists {
				t.Errorf("%d directories were searched, not %d", n, c.lists)
			}
		})
	}
}

// A search that can't be whole is told.
func TestASearchForSocketsHasBounds(t *testing.T) {
	lines := []string{"/home/u/p/sub/s|"}
	for i := range hide.MaxSocketSearch {
		lines = append(lines, "/home/u/p/f"+strconv.Itoa(i)+"=")
	}
	for _, c := range []struct {
		name, socket string
		lines        []string
		missed       bool
	}{
		{"too many", "/home/u/p/old /home/u/p/sub/s", lines, true},
		{"unreadable", "/home/u/p/old /home/u/p/sub/s", []string{"/home/u/p/sub/!", "/home/u/p/sub/s|"}, true},
		{"where it was bound", "/home/u/p/sub/s", lines, false},
		{"found nowhere", "/home/u/p/gone", lines[:3], false},
		{"another's", "/home/u/p/gone by another", lines[:3], true},
	} {
		h := numberedHost(t, []string{c.socket}, c.lines...)
		h.Other = true
		if got := compile(t, h, nil).SocketsMissed; (got != "") != c.missed {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	if got := compile(t, hosttest.Debian(t, "/proc/self/net/unix=0: 0 0 0 0 0 1 /home/u/p/s\n"), nil).SocketsMissed; got == "" {
		t.Error("by names alone, and it isn't told")
	}
}
