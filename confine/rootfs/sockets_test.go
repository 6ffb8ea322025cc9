package rootfs

import (
	"strings"
	"testing"
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
		"00000000803d1089: 00000002 00000000 00010000 0001 01 12353 plain.sock\n"
	h := host(t, "/proc/self/net/unix="+list, "/home/u/p/app.sock=", "/home/u/p/a dir/named.sock=", "/home/u/p/s.sock=",
		"/link -> /home/u/p", "/elsewhere/x.sock=", "/srv/tree/y.sock=", "/srv/tree/f=1",
		"/home/u/p/relative.sock|", "/home/u/p/run/in.sock|", "/home/u/p/run/plain.sock=", "/proc/77/cwd -> /home/u/p/run", "/proc/78/", "/proc/sys/",
		"/home/u/p/lying.sock|", "/srv/tree/lying.sock|")
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   []string
	}{
		{"in the current directory", func(*Input) {}, []string{"/home/u/p/app.sock", "mask", "/home/u/p/a dir/named.sock", "mask",
			"/home/u/p/s.sock", "mask", "/elsewhere/x.sock", ""}},
		{"by a relative name", func(*Input) {}, []string{"/home/u/p/relative.sock", "mask", "/home/u/p/run/in.sock", "mask",
			"/home/u/p/run/plain.sock", "", "/home/u/p/lying.sock", ""}},
		{"come across, read-only", func(in *Input) { in.Deny = []string{"/**/nothing"} }, []string{"/home/u/p/lying.sock", "mask", "/home/u/p/run/plain.sock", ""}},
		{"come across among secrets", func(in *Input) { in.Deny, in.AllowRead = []string{SetSecrets}, []string{"/srv/tree"} }, []string{"/srv/tree/lying.sock", "mask"}},
		{"come across, writable", func(in *Input) { in.Deny, in.Workdir = []string{"/**/nothing"}, "rw" },
			[]string{"/home/u/p/lying.sock", "", "/home/u/p/relative.sock", "mask"}},
		{"come across, and named", func(in *Input) {
			in.Deny, in.AllowRead = []string{"/**/nothing"}, []string{"/home/u/p/lying.sock"}
		}, []string{"/home/u/p/lying.sock", "ro /home/u/p/lying.sock"}},
		{"named", func(in *Input) { in.AllowRead = []string{"/home/u/p/app.sock"} }, []string{"/home/u/p/app.sock", "", "/home/u/p/s.sock", "mask"}},
		{"in a writable tree", func(in *Input) { in.Workdir = "rw" }, []string{"/home/u/p/app.sock", "mask"}},
		{"in an overlay", func(in *Input) { in.Workdir = "overlay" }, []string{"/home/u/p/app.sock", ""}},
		{"by a mount", func(in *Input) { in.Mounts = []Mount{{Src: "/srv/tree", Dst: "/m", Mode: "ro"}} }, []string{"/m/y.sock", "mask"}},
		{"a mount of its own", func(in *Input) { in.Mounts = []Mount{{Src: "/srv/tree/y.sock", Dst: "/m", Mode: "ro"}} }, []string{"/m", "ro /srv/tree/y.sock"}},
		{"where nothing is mounted", func(in *Input) { in.Bare = true }, []string{"/home/u/p/app.sock", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			compile(t, h, func(in *Input) { in.Workdir = "ro"; c.change(in) }).want(c.want...)
		})
	}
}

func TestWhereSocketsMayComeToBe(t *testing.T) {
	h := host(t, "/home/u/p/f=1", "/srv/tree/f=1")
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   bool
	}{
		{"nothing but the system", func(in *Input) { in.Workdir = "none" }, false},
		{"an overlay", func(in *Input) { in.Workdir = "overlay" }, false},
		{"a file", func(in *Input) { in.Workdir, in.AllowRead = "none", []string{"/srv/tree/f"} }, false},
		{"read-only", func(in *Input) { in.Workdir = "ro" }, true},
		{"writable", func(in *Input) { in.Workdir, in.AllowWrite = "none", []string{"/srv/tree"} }, true},
	} {
		if got := compile(t, h, c.change).SocketsLater; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func FuzzBoundTo(f *testing.F) {
	f.Add("00000000803d1081: 00000002 00000000 00010000 0001 01 12345 /home/u/p/app.sock\n")
	f.Fuzz(func(t *testing.T, line string) {
		if name := boundTo(line); strings.HasPrefix(name, "@") {
			t.Errorf("%q of %q", name, line)
		}
	})
}
