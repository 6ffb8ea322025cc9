package rootfs

import (
	"path"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/view"
)

func cleanAbsolute(p string) bool { return path.IsAbs(p) && path.Clean(p) == p }

func TestSystemIsShownAndNothingElseOfTheHost(t *testing.T) {
	r := compile(t, hosttest.Debian(t), nil)
	r.want("/usr", "ro /usr", "/bin", "link usr/bin", "/lib64", "link usr/lib64", "/lib32", "",
		"/etc/ssl/certs", "ro /etc/ssl/certs", "/etc/ld.so.cache", "ro /etc/ld.so.cache",
		"/etc/localtime", "link /usr/share/zoneinfo/UTC", "/etc/passwd", "file",
		"/proc", "proc", "/dev", "dir", "/dev/null", "ro /dev/null", "/dev/kvm", "", "/dev/shm", "scratch", "/dev/pts", "devpts",
		"/dev/ptmx", "link pts/ptmx", "/tmp", "scratch", "/home/u", "scratch", "/var/tmp", "link ../tmp", "/run", "dir",
		"/home/u/p", "ro /home/u/p")
	for _, p := range []string{"/etc/shadow", "/etc/ssl/private/key", "/etc/machine-id", "/etc/gitconfig", "/run/docker.sock", "/home/u/.ssh/id", "/sys/class"} {
		if r.sees(p) {
			t.Errorf("%s is visible", p)
		}
	}
	if !r.sees("/home/u/p/src/a") { // the control
		t.Error("sees() sees nothing")
	}
	if r.Dir != "/home/u/p" || r.Env["HOME"] != "/home/u" || r.Env["TMPDIR"] != "/tmp" || r.Env["PATH"] != "/usr/local/bin:/usr/bin:/bin" {
		t.Errorf("dir %q, env %q", r.Dir, r.Env)
	}
}

func TestHostWithoutMergedUsr(t *testing.T) {
	r := compile(t, hosttest.New(t, "/usr/bin/", "/bin/sh*", "/lib/libc.so=x", "/lib64 -> lib", "/tmp/", "/home/u/p/"), nil)
	r.want("/bin", "ro /bin", "/lib", "ro /lib", "/lib64", "link lib")
}

func TestOnlyRootsProcIsHeldReadOnly(t *testing.T) {
	user := compile(t, hosttest.Debian(t), nil)
	user.want("/proc/sys", "", "/proc/keys", "mask")
	for _, in := range []func(*view.Input){
		func(in *view.Input) { in.UID, in.AccessUID = 0, 0 },
		func(in *view.Input) { in.UID = 0 },
	} {
		compile(t, hosttest.Debian(t), in).want("/proc/sys", "readonly", "/proc/sysrq-trigger", "readonly", "/proc/kcore", "mask", "/proc/keys", "mask")
	}
}

func TestEtcOfItsOwn(t *testing.T) {
	r := compile(t, hosttest.Debian(t), func(in *view.Input) { in.UserName = "u:0:0\nroot"; in.Hostname = "box" })
	if got := r.text("/etc/passwd"); got != "root:x:0:0::/root:/bin/sh\nu00root:x:1000:1000::/home/u:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n" {
		t.Errorf("passwd %q", got)
	}
	if got := r.text("/etc/hostname"); got != "box\n" {
		t.Errorf("hostname %q", got)
	}
	if r.text("/etc/resolv.conf") != "" || strings.Contains(r.text("/etc/hosts"), "printer") {
		t.Error("without a network, names of the caller's are known")
	}
	r = compile(t, hosttest.Debian(t), func(in *view.Input) { in.NetworkAll = true; in.UID, in.GID = 0, 0 })
	if !strings.Contains(r.text("/etc/resolv.conf"), "10.0.0.1") || !strings.Contains(r.text("/etc/hosts"), "printer") {
		t.Error("with the caller's network, its names are not known")
	}
	if got := r.text("/etc/passwd"); !strings.HasPrefix(got, "root:x:0:0::/home/u:/bin/sh\nnobody") {
		t.Errorf("passwd of root %q", got)
	}
}

func TestHomes(t *testing.T) {
	for _, c := range []struct{ name, home, env, at, want string }{
		{"missing on the host", "/home/new", "/home/new", "/home/new", "scratch"},
		{"of a service", "/", "/tmp", "/home/u", ""},
		{"in the system", "/usr/sbin", "/tmp", "/usr/sbin", ""},
		{"none", "", "/tmp", "/home/u", ""},
		{"through a link", "/h/u", "/h/u", "/home/u", "scratch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := compile(t, hosttest.Debian(t, "/h -> home"), func(in *view.Input) { in.HomeDir, in.Dir = c.home, "/home/u/p" })
			r.want(c.at, c.want)
			if r.Env["HOME"] != c.env {
				t.Errorf("HOME=%s", r.Env["HOME"])
			}
			if c.home == "/h/u" {
				r.want("/h", "link home")
			}
		})
	}
}

func TestWithoutTemporaryDirectory(t *testing.T) {
	r := compile(t, hosttest.Debian(t), func(in *view.Input) { in.TempDir = false })
	r.want("/tmp", "dir", "/var/tmp", "")
	if _, ok := r.Env["TMPDIR"]; ok {
		t.Error("TMPDIR is set")
	}
}
