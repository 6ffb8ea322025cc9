package rootfs

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/view"
)

func TestAllowedPaths(t *testing.T) {
	for _, c := range []struct {
		name        string
		extra       []string
		read, write []string
		want        []string
	}{
		{"relative to the current directory", nil, nil, []string{"src"}, []string{"/home/u/p/src", "rw /home/u/p/src"}},
		{"upwards", []string{"/home/u/lib/x=1"}, []string{"../lib"}, nil, []string{"/home/u/lib", "ro /home/u/lib"}},
		{"upwards from a link, as the kernel sees it", []string{"/d/e/f/", "/d/g/", "/home/u/l -> /d/e/f"}, []string{"../l/../../g"}, nil,
			[]string{"/d/g", "ro /d/g"}},
		{"with spaces and odd characters", []string{"/a b/c,d:e\nf/"}, []string{"/a b/c,d:e\nf"}, nil, []string{"/a b/c,d:e\nf", "ro /a b/c,d:e\nf"}},
		{"with trailing slashes", []string{"/data/x/"}, []string{"/data//x///"}, nil, []string{"/data/x", "ro /data/x"}},
		{"twice", []string{"/data/"}, []string{"/data", "/data/", "/data/."}, nil, []string{"/data", "ro /data"}},
		{"a file", []string{"/data/f=1"}, []string{"/data/f"}, nil, []string{"/data/f", "ro /data/f", "/data", ""}},
		{"a socket, when named", nil, []string{"/run/docker.sock"}, nil, []string{"/run/docker.sock", "ro /run/docker.sock"}},
		{"a FIFO", []string{"/data/fifo%"}, nil, []string{"/data/fifo"}, []string{"/data/fifo", "ro /data/fifo"}},
		{"a device", nil, nil, []string{"/dev/kvm"}, []string{"/dev/kvm", "ro /dev/kvm"}},
		{"through links", []string{"/mnt/big/", "/data -> /m/l", "/m -> mnt", "/mnt/l -> big"}, []string{"/data"}, nil,
			[]string{"/data", "link /m/l", "/m", "link mnt", "/mnt/l", "link big", "/mnt/big", "ro /mnt/big"}},
		{"already visible", []string{"/usr/share/x/"}, []string{"/usr/share/x"}, nil, []string{"/usr/share/x", ""}},
		{"nested, read in write", []string{"/w/a/b/"}, []string{"/w/a/b"}, []string{"/w"}, []string{"/w", "rw /w", "/w/a", "pin", "/w/a/b", "ro /w/a/b"}},
		{"nested, write in read", []string{"/w/a/b/"}, []string{"/w"}, []string{"/w/a/b"}, []string{"/w", "ro /w", "/w/a", "", "/w/a/b", "rw /w/a/b"}},
		{"nested, the same", []string{"/w/a/b/"}, []string{"/w", "/w/a/b"}, nil, []string{"/w", "ro /w", "/w/a/b", ""}},
		{"write beats read", []string{"/w/"}, []string{"/w"}, []string{"/w"}, []string{"/w", "rw /w"}},
		{"a sibling with the same beginning", []string{"/w/", "/w2/", "/w.x/"}, []string{"/w", "/w2", "/w.x"}, nil,
			[]string{"/w", "ro /w", "/w2", "ro /w2", "/w.x", "ro /w.x"}},
		{"write around the current directory", nil, nil, []string{"/home/u"}, []string{"/home/u", "rw /home/u", "/home/u/p", ""}},
		{"the home directory", nil, []string{"/home/u"}, nil, []string{"/home/u", "ro /home/u", "/home/u/p", ""}},
		{"/tmp", nil, []string{"/tmp"}, nil, []string{"/tmp", "ro /tmp", "/var/tmp", "scratch"}},
		{"in /tmp", []string{"/tmp/x/"}, nil, []string{"/tmp/x"}, []string{"/tmp", "scratch", "/tmp/x", "rw /tmp/x"}},
		{"in /var/tmp", []string{"/var/tmp/x/"}, []string{"/var/tmp/x"}, nil, []string{"/var/tmp", "scratch", "/var/tmp/x", "ro /var/tmp/x"}},
		{"all of /etc", nil, []string{"/etc"}, nil, []string{"/etc", "ro /etc", "/etc/passwd", "", "/etc/ssl/certs", ""}},
		{"/sys", nil, []string{"/sys"}, nil, []string{"/sys", "ro /sys"}},
		{"everything", []string{"/data/x=1"}, []string{"/"}, nil, []string{"/data", "ro /data", "/home", "ro /home", "/home/u", "", "/proc", "proc",
			"/bin", "link usr/bin", "/run", "dir", "/tmp", "scratch", "/etc", "ro /etc"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			compile(t, hosttest.Debian(t, c.extra...), func(in *view.Input) { in.AllowRead, in.AllowWrite = c.read, c.write }).want(c.want...)
		})
	}
}

func TestRefusedPolicies(t *testing.T) {
	extra := []string{"/data/f=1", "/loop -> /loop2", "/loop2 -> /loop", "/dangling -> /nowhere", "/shut/!", "/shut/x/"}
	for _, c := range []struct {
		name    string
		change  func(*view.Input)
		is      error
		message string // part of it
	}{
		{"missing", func(in *view.Input) { in.AllowRead = []string{"/data/no/such"} }, fs.ErrNotExist, `--allow-read "/data/no/such": no such file or directory
hint: "/data" exists and has no "no"`},
		{"below a file", func(in *view.Input) { in.AllowRead = []string{"/data/f/x"} }, syscall.ENOTDIR, "--allow-read"},
		{"a loop", func(in *view.Input) { in.AllowWrite = []string{"/loop"} }, syscall.ELOOP, "--allow-write"},
		{"dangling", func(in *view.Input) { in.AllowWrite = []string{"/dangling"} }, fs.ErrNotExist, `symbolic link to "/nowhere"`},
		{"out of reach", func(in *view.Input) { in.AllowRead = []string{"/shut/x"} }, fs.ErrPermission, "uid 1000 can't reach it"},
		{"empty", func(in *view.Input) { in.AllowRead = []string{""} }, view.ErrInvalid, "empty"},
		{"NUL", func(in *view.Input) { in.AllowRead = []string{"a\x00b"} }, view.ErrInvalid, "NUL"},
		{"writing everywhere", func(in *view.Input) { in.AllowWrite = []string{"/"} }, view.ErrTooBroad, "--allow-write"},
		{"writing everywhere by another name", func(in *view.Input) { in.AllowWrite = []string{"../../.."} }, view.ErrTooBroad, "--allow-write"},
		{"/proc", func(in *view.Input) { in.AllowRead = []string{"/proc/sys"} }, view.ErrReserved, "/proc"},
		{"/dev", func(in *view.Input) { in.AllowRead = []string{"/dev"} }, view.ErrReserved, "/dev/kvm"},
		{"writing to /sys", func(in *view.Input) { in.AllowWrite = []string{"/sys/class"} }, view.ErrReserved, "read-only"},
		{"overlay over a file", func(in *view.Input) { in.Overlay = []string{"/data/f"} }, view.ErrInvalid, "directory"},
		{"relative without a current directory", func(in *view.Input) { in.Dir, in.Workdir, in.AllowRead = "", "none", []string{"x"} }, nil, "current directory"},
		{"no current directory", func(in *view.Input) { in.Dir = "/home/u/gone" }, fs.ErrNotExist, "current directory"},
		{"a current directory out of reach", func(in *view.Input) { in.Dir = "/shut/x" }, fs.ErrPermission, "current directory"},
		{"workdir asked for at home", func(in *view.Input) { in.Dir, in.WorkdirAsked = "/home/u", true }, view.ErrTooBroad, "--allow-read /home/u"},
		{"an overlay asked for at home", func(in *view.Input) { in.Dir, in.WorkdirAsked, in.Workdir = "/home/u", true, "overlay" }, view.ErrTooBroad, "--overlay /home/u"},
		{"more asked for at home than is named", func(in *view.Input) {
			in.Dir, in.WorkdirAsked, in.Workdir, in.AllowRead = "/home/u", true, "rw", []string{"."}
		}, view.ErrTooBroad, "--allow-write /home/u"},
		{"more asked for at home than above it", func(in *view.Input) {
			in.Dir, in.WorkdirAsked, in.AllowRead = "/home/u", true, []string{"/home"}
		}, view.ErrTooBroad, "--allow-read /home/u"},
		{"workdir asked for above home", func(in *view.Input) { in.Dir, in.WorkdirAsked, in.Workdir = "/home", true, "rw" }, view.ErrTooBroad, "--allow-write"},
		{"workdir asked for in /proc", func(in *view.Input) { in.Dir, in.WorkdirAsked = "/proc/sys", true }, view.ErrTooBroad, "project"},
		{"an unknown workdir", func(in *view.Input) { in.Workdir = "rx" }, view.ErrInvalid, "none, ro, rw, overlay"},
		{"start where nothing is", func(in *view.Input) { in.Chdir = "/data" }, view.ErrNotVisible, "--allow-read"},
		{"start in a file", func(in *view.Input) { in.Chdir = "src/a" }, view.ErrInvalid, "not a directory"},
		{"mount to a relative place", func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/data", Dst: "d", Mode: "ro"}} }, view.ErrInvalid, "absolute"},
		{"mount in an odd mode", func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/data", Dst: "/d", Mode: "rx"}} }, view.ErrInvalid, "ro, rw or overlay"},
		{"mount to /", func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/data", Dst: "/", Mode: "ro"}} }, view.ErrReserved, "--rootfs"},
		{"mount of /", func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/", Dst: "/host", Mode: "ro"}} }, view.ErrTooBroad, "--allow-read"},
		{"mount into /proc", func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/data", Dst: "/proc/x", Mode: "ro"}} }, view.ErrReserved, "another place"},
		{"two mounts in one place", func(in *view.Input) {
			in.Mounts = []view.Mount{{Src: "/data", Dst: "/d", Mode: "ro"}, {Src: "/usr", Dst: "/d/", Mode: "ro"}}
		}, view.ErrInvalid, "already"},
		{"a mount point in the caller's tree", func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/data", Dst: "/home/u/p/new", Mode: "ro"}} }, view.ErrNoTarget, `make "/home/u/p/new" yourself`},
		{"an empty place in the caller's tree", func(in *view.Input) { in.Mounts = []view.Mount{{Dst: "/home/u/p/new", Size: 1}} }, view.ErrNoTarget, "make"},
		{"an empty place over /proc", func(in *view.Input) { in.Mounts = []view.Mount{{Dst: "/proc", Size: 1}} }, view.ErrReserved, "another place"},
		{"a directory over a file", func(in *view.Input) { in.Mounts = []view.Mount{{Src: "/data", Dst: "/home/u/p/src/a", Mode: "ro"}} }, view.ErrNoTarget, "--mount"},
		{"virtual, and more", func(in *view.Input) { in.Virtual, in.AllowRead = true, []string{"/data"} }, view.ErrConflict, "--mount /data:/DST"},
		{"virtual, and the workdir", func(in *view.Input) { in.Virtual, in.WorkdirAsked = true, true }, view.ErrConflict, "--mount"},
		{"an open bracket", func(in *view.Input) { in.Deny = []string{"/home/u/p/[a"} }, view.ErrInvalid, "bracket"},
		{"deny everything", func(in *view.Input) { in.Deny = []string{"/"} }, view.ErrTooBroad, "--deny"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hosttest.Debian(t, extra...)
			h.Other = true
			_, err := Compile(hosttest.Input(h, c.change))
			if _, ok := errors.AsType[*view.Error](err); !ok {
				t.Fatalf("error %v is not of usage", err)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
			if !strings.Contains(err.Error(), c.message) {
				t.Errorf("%q lacks %q", err, c.message)
			}
		})
	}
}

func TestMounts(t *testing.T) {
	for _, c := range []struct {
		name  string
		mount view.Mount
		want  []string
	}{
		{"in the private root", view.Mount{Src: "/data", Dst: "/srv/x/y", Mode: "ro"}, []string{"/srv/x/y", "ro /data"}},
		{"writable", view.Mount{Src: "/data", Dst: "/srv", Mode: "rw"}, []string{"/srv", "rw /data"}},
		{"overlay", view.Mount{Src: "/data", Dst: "/srv", Mode: "overlay"}, []string{"/srv", "overlay /data"}},
		{"mode left out", view.Mount{Src: "/data", Dst: "/srv", Mode: ""}, []string{"/srv", "ro /data"}},
		{"relative source", view.Mount{Src: "src", Dst: "/srv", Mode: ""}, []string{"/srv", "ro /home/u/p/src"}},
		{"in a private place", view.Mount{Src: "/data", Dst: "/tmp/a/b", Mode: ""}, []string{"/tmp/a/b", "ro /data"}},
		{"in the private home", view.Mount{Src: "/data", Dst: "/home/u/x", Mode: ""}, []string{"/home/u/x", "ro /data"}},
		{"on a directory of the caller's", view.Mount{Src: "/data", Dst: "/home/u/p/src", Mode: "rw"}, []string{"/home/u/p/src", "rw /data"}},
		{"an empty place", view.Mount{Dst: "/srv/x", Size: 4096}, []string{"/srv/x", "tmpfs"}},
		{"an empty place in the caller's tree", view.Mount{Dst: "/home/u/p/src", Size: 4096}, []string{"/home/u/p/src", "tmpfs"}},
		{"a sized /tmp", view.Mount{Dst: "/tmp", Size: 4096}, []string{"/tmp", "tmpfs"}},
		{"of a file", view.Mount{Src: "/data/f", Dst: "/home/u/p/src/a", Mode: ""}, []string{"/home/u/p/src/a", "ro /data/f"}},
		{"through a link inside", view.Mount{Src: "/data", Dst: "/bin/../share/d", Mode: ""}, []string{"/usr/share/d", "ro /data", "/share", ""}},
		{"over a tool of the system", view.Mount{Src: "/data/f", Dst: "/bin/true", Mode: ""}, []string{"/usr/bin/true", "ro /data/f", "/bin", "link usr/bin"}},
		{"over generated /etc", view.Mount{Src: "/data/f", Dst: "/etc/hosts", Mode: ""}, []string{"/etc/hosts", "ro /data/f"}},
		{"in place of /tmp", view.Mount{Src: "/data", Dst: "/tmp", Mode: "rw"}, []string{"/tmp", "rw /data"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			compile(t, hosttest.Debian(t, "/data/f=1", "/usr/share/d/"), func(in *view.Input) { in.Mounts = []view.Mount{c.mount} }).want(c.want...)
		})
	}
}

func TestVirtualShowsOnlySystemAndMounts(t *testing.T) {
	r := compile(t, hosttest.Debian(t, "/opt/tool/bin/x*", "/opt/tool/lib/"), func(in *view.Input) {
		in.Virtual, in.Mounts = true, []view.Mount{{Src: "src", Dst: "/data", Mode: "ro"}}
		in.Env = environ("PATH=/opt/tool/bin:/usr/bin:/data")
		in.Command = "/home/u/p/src/a"
	})
	r.want("/data", "ro /home/u/p/src", "/usr", "ro /usr", "/home/u/p", "", "/opt/tool", "", "/home/u", "scratch")
	if r.Dir != "/tmp" || r.Env["PATH"] != "/usr/bin:/data" {
		t.Errorf("dir %s, PATH %s", r.Dir, r.Env["PATH"])
	}
}

func TestWorkdir(t *testing.T) {
	for _, c := range []struct {
		name, mode, dir string
		asked           bool
		at, want, start string
		notices         int
	}{
		{"read-only", "ro", "/home/u/p", false, "/home/u/p", "ro /home/u/p", "/home/u/p", 0},
		{"writable", "rw", "/home/u/p", true, "/home/u/p", "rw /home/u/p", "/home/u/p", 0},
		{"overlay", "overlay", "/home/u/p", true, "/home/u/p", "overlay /home/u/p", "/home/u/p", 0},
		{"none", "none", "/home/u/p", true, "/home/u/p", "", "/tmp", 0},
		{"none, in the system", "none", "/usr/bin", false, "/usr/bin", "", "/usr/bin", 0},
		{"in the system", "ro", "/usr/bin", false, "/usr/bin", "", "/usr/bin", 0},
		{"in /tmp", "ro", "/tmp/x", false, "/tmp/x", "ro /tmp/x", "/tmp/x", 0},
		{"through a link", "ro", "/l", false, "/home/u/p", "ro /home/u/p", "/home/u/p", 0},
		{"home", "ro", "/home/u", false, "/home/u", "scratch", "/tmp", 1},
		{"above home", "overlay", "/home", false, "/home", "", "/tmp", 1},
		{"/", "ro", "/", false, "/home", "", "/tmp", 1},
		{"/tmp itself", "rw", "/tmp", false, "/tmp", "scratch", "/tmp", 1},
		{"/proc", "ro", "/proc/sys", false, "/proc/sys", "", "/tmp", 1},
		{"/usr, read-only", "ro", "/usr", false, "/usr", "ro /usr", "/usr", 0},
		{"/usr, writable", "rw", "/usr", false, "/usr", "ro /usr", "/usr", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := compile(t, hosttest.Debian(t, "/tmp/x/", "/l -> home/u/p"), func(in *view.Input) { in.Workdir, in.Dir, in.WorkdirAsked = c.mode, c.dir, c.asked })
			r.want(c.at, c.want)
			if r.Dir != c.start || len(r.Notices) != c.notices {
				t.Errorf("starts in %s, notices %q", r.Dir, r.Notices)
			}
		})
	}
}

func TestStartDirectory(t *testing.T) {
	for _, c := range []struct{ chdir, want string }{
		{"src", "/home/u/p/src"}, {"/usr/bin", "/usr/bin"}, {"/bin", "/usr/bin"}, {"/tmp", "/tmp"}, {"/", "/"},
		{"/home", "/home"}, {"/home/u", "/home/u"}, {"/m/src", "/m/src"}, {"..", "/home/u"}, {"/proc", "/proc"}, {"/dev/shm", "/dev/shm"},
	} {
		r := compile(t, hosttest.Debian(t), func(in *view.Input) { in.Chdir, in.Mounts = c.chdir, []view.Mount{{Src: ".", Dst: "/m", Mode: ""}} })
		if r.Dir != c.want {
			t.Errorf("--chdir %s starts in %s, want %s", c.chdir, r.Dir, c.want)
		}
	}
}

func TestOptionsBeatWhatAProfileAdds(t *testing.T) {
	h := hosttest.Debian(t)
	for _, c := range []struct {
		name   string
		change func(*view.Input)
		want   string
	}{
		{"a profile's overlay in a tree named writable", func(in *view.Input) { in.Workdir, in.AllowWrite = "overlay", []string{"/home/u"} }, ""},
		{"a workdir asked for in it", func(in *view.Input) {
			in.Workdir, in.WorkdirAsked, in.AllowWrite = "overlay", true, []string{"/home/u"}
		}, "overlay /home/u/p"},
		{"a profile's overlay in a tree named readable", func(in *view.Input) { in.Workdir, in.AllowRead = "overlay", []string{"/home/u"} }, "overlay /home/u/p"},
		{"writable by name", func(in *view.Input) { in.Workdir, in.AllowWrite = "overlay", []string{"."} }, "rw /home/u/p"},
		{"overlay by name", func(in *view.Input) { in.Overlay = []string{"."} }, "overlay /home/u/p"},
	} {
		t.Run(c.name, func(t *testing.T) { compile(t, h, c.change).want("/home/u/p", c.want) })
	}
}

// With a resolver, the run's own names stand in an /etc that is shown; everything else of
// it is the caller's.
func TestRootWithResolver(t *testing.T) {
	h := hosttest.Debian(t, "/etc/nsswitch.conf=hosts: db\n", "/etc/other=1", "/etc/mtab -> /proc/mounts", "/proc/mounts=")
	for _, resolver := range []string{"", "198.18.0.1"} {
		r := compile(t, h, func(in *view.Input) { in.AllowRead, in.Resolver = []string{"/"}, resolver })
		own := map[string]bool{}
		shown := map[string]bool{}
		for _, m := range r.Mounts {
			own[m.Dst] = own[m.Dst] || m.Kind == handoff.MountFile
			shown[m.Dst] = shown[m.Dst] || m.Kind == handoff.MountBind
		}
		for _, name := range []string{"/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf"} {
			if own[name] != (resolver != "") || shown[name] {
				t.Errorf("resolver %q: %s is the run's own: %v", resolver, name, own[name])
			}
		}
		if all := shown["/etc"]; all != (resolver == "") || shown["/etc/other"] == all || shown["/etc/mtab"] {
			t.Errorf("resolver %q: the rest of /etc", resolver)
		}
	}
}
