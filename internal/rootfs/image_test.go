package rootfs

import (
	"errors"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/view"
)

// images are trees that can become the root.
var images = []string{
	"/img/etc/passwd=root:x:0:0::/root:/bin/sh\ndev:x:1000:1000::/home/dev:/bin/sh\n", "/img/home/dev/", "/img/bin/sh*", "/img/etc/which=1",
	"/img/etc/resolv.conf -> /run/r", "/img/etc/secret -> /etc/shadow", "/img/etc/real=1", "/img/data/", "/img/up -> ../../../etc",
	"/bare/bin/sh*",
}

func inImage(in *view.Input) { in.Rootfs = "/img" }

func TestImageIsAllThereIs(t *testing.T) {
	h := hosttest.Debian(t, append(images, "/home/u/.pyenv/shims/python*", "/data/f=1")...)
	r := compile(t, h, func(in *view.Input) {
		inImage(in)
		in.Env = environ("PATH=/home/u/.pyenv/shims:/usr/bin", "PYENV_ROOT=/home/u/.pyenv", "JAVA_HOME=/data")
		in.Home, in.Command = true, "python"
	})
	if r.Root.Src != "/img" || r.Root.Kind != handoff.MountOverlay || r.Root.Ino == 0 {
		t.Errorf("root %+v", r.Root)
	}
	for _, p := range []string{"/home/u/p/src/a", "/usr/bin/true", "/etc/ssl/certs", "/home/u/.pyenv/shims/python", "/data/f", "/home/u/.ssh/id"} {
		if r.sees(p) {
			t.Errorf("%s is visible", p)
		}
	}
	r.want("/proc", "proc", "/dev", "scratch", "/dev/pts", "devpts", "/tmp", "scratch", "/var/tmp", "scratch", "/home/u", "",
		"/etc/hosts", "file", "/etc/resolv.conf", "file", "/etc/passwd", "", "/usr", "", "/bin", "")
	if r.Dir != "/" || r.Env["PATH"] != imagePath || r.Env["HOME"] != "/home/dev" || r.Env["PYENV_ROOT"] != "" {
		t.Errorf("dir %q, environment %v", r.Dir, r.Env)
	}
}

func TestImageHasWhatIsNamed(t *testing.T) {
	h := hosttest.Debian(t, append(images, "/data/f=1")...)
	r := compile(t, h, func(in *view.Input) {
		inImage(in)
		in.WorkdirAsked, in.Workdir = true, "rw"
		in.AllowRead = []string{"/data"}
		in.Mounts = []view.Mount{{Src: "/data/f", Dst: "/up/one"}, {Dst: "/etc/../scratch", Size: 4096}}
		in.Image = view.Image{Path: "/opt/bin", Dir: "data"}
		in.UID = 1234
	})
	// A link of the tree's that is absolute, or leads above it, leads within it.
	r.want("/home/u/p", "rw /home/u/p", "/data", "ro /data", "/etc/one", "ro /data/f", "/scratch", "tmpfs")
	if r.Dir != "/home/u/p" || r.Env["PATH"] != "/opt/bin" || r.Env["HOME"] != "/tmp" {
		t.Errorf("dir %q, environment %v", r.Dir, r.Env)
	}
	if text := r.text("/etc/passwd"); !strings.HasSuffix(text, "\nu:x:1234:1000::/tmp:/bin/sh\n") || !strings.HasPrefix(text, "root:") {
		t.Errorf("passwd %q", text)
	}
	r = compile(t, h, func(in *view.Input) { inImage(in); in.Image.Dir = "/data" })
	if r.Dir != "/data" {
		t.Errorf("starts in %q", r.Dir)
	}
	r = compile(t, h, func(in *view.Input) { inImage(in); in.Chdir = "/up" })
	if r.Dir != "/etc" {
		t.Errorf("starts in %q", r.Dir)
	}
	r = compile(t, h, func(in *view.Input) { inImage(in); in.Deny = []string{"/etc/which", "/**/re?l"} })
	r.want("/etc/which", "mask", "/etc/real", "mask")
	r = compile(t, hosttest.Debian(t, append(images, "/bare/tmp -> /data", "/bare/var/tmp -> /home/u")...), func(in *view.Input) { in.Rootfs = "/bare" })
	r.want("/data", "scratch", "/home/u", "scratch", "/tmp", "", "/etc/passwd", "")
}

func TestImagesThatAreNone(t *testing.T) {
	for root, is := range map[string]error{"/": view.ErrTooBroad, "/proc/sys": view.ErrReserved, "/bin/true": view.ErrInvalid} {
		_, err := Compile(hosttest.Input(hosttest.Debian(t, images...), func(in *view.Input) { in.Rootfs = root }))
		if usage, ok := errors.AsType[*view.Error](err); !ok || !errors.Is(err, is) || usage.Option != "--rootfs" {
			t.Errorf("%s: %v", root, err)
		}
	}
	for _, deny := range []string{"/img", "/im?", "/**"} {
		in := hosttest.Input(hosttest.Debian(t, images...), func(in *view.Input) { inImage(in); in.Deny = []string{deny} })
		if table, err := Compile(in); err == nil {
			t.Errorf("--deny %s: %v", deny, table.Mounts)
		}
	}
}
