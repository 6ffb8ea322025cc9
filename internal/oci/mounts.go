package oci

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/confine-run/confine/internal/config"
)

// kernelMounts are what bundles ask for of the kernel's file systems, by place. Confine makes its own, or does without.
var kernelMounts = []struct {
	at, kind, why string // why: "" is what every sandbox has
}{
	{"/proc", "proc", ""},
	{"/dev", "tmpfs", ""},
	{"/dev/pts", "devpts", ""},
	{"/dev/shm", "tmpfs", ""},
	{"/dev/shm", "bind", "the container has one of its own, whose size counts with that of the root"},
	{"/dev/mqueue", "mqueue", "it isn't there: no program found queues in it that it had not made"},
	{"/sys", "sysfs", "it isn't there, but for the own cgroup's part"},
	{"/sys", "bind", "it isn't there, but for the own cgroup's part"},
	{"/sys/fs/cgroup", "cgroup", "the own cgroup is shown, read-only, where there is one"},
	{"/sys/fs/cgroup", "cgroup2", "the own cgroup is shown, read-only, where there is one"},
}

// enginesFiles are mounted by engines into every container: files, in which nobody finds a program.
var enginesFiles = [...]string{"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/run/.containerenv", "/dev/termination-log"}

func (t *translator) mounts() {
	seen := map[string]bool{}
	for i := range t.spec.Mounts {
		m := &t.spec.Mounts[i]
		at := path.Clean(m.Destination)
		switch {
		case !path.IsAbs(m.Destination):
			t.refuse("mounts %q: it is not absolute", m.Destination)
		case at == "/":
			t.refuse("mounts /: it would replace the root")
		case len(m.UIDMappings)+len(m.GIDMappings) > 0:
			t.refuse("mounts %s: uidMappings and gidMappings", at)
		case seen[at]:
			t.refuse("mounts %s: it is there twice", at)
		default:
			seen[at] = true
			t.mount(m, at)
		}
	}
}

func (t *translator) mount(m *specs.Mount, at string) {
	kind := m.Type
	if kind == "" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind") {
		kind = "bind"
	}
	for _, k := range kernelMounts {
		if k.at != at || k.kind != kind {
			continue
		}
		if k.why != "" {
			t.note("mounts %s (%s): %s", at, kind, k.why)
		}
		return
	}
	for _, reserved := range []string{"/proc", "/sys", "/dev"} {
		if at == reserved || strings.HasPrefix(at, reserved+"/") && !slices.Contains(enginesFiles[:], at) {
			t.refuse("mounts %s (%s): %s is the container's own", at, kind, reserved)
			return
		}
	}
	f := &t.to.Policy.Filesystem
	switch kind {
	case "tmpfs":
		if to, ok := t.tmpfs(m, at); ok {
			f.Mounts = append(f.Mounts, to)
		}
	case "bind":
		if m.Source == "" {
			t.refuse("mounts %s: a bind without source", at)
			return
		}
		to := config.Mount{Src: t.inBundle(m.Source), Dst: at, Mode: "rw"}
		for _, o := range m.Options {
			switch o {
			case "bind", "rbind", "rw", "private", "rprivate", "nosuid", "nodev", "relatime", "norelatime", "noatime", "strictatime", "nodiratime", "exec":
			case "ro":
				to.Mode = "ro"
			case "noexec":
				if !slices.Contains(enginesFiles[:], at) {
					t.refuse("mounts %s: option noexec", at)
				}
			case "suid", "dev":
				t.note("mounts %s: option %s isn't had", at, o)
			default:
				t.refuse("mounts %s: option %s", at, o)
			}
		}
		f.Mounts = append(f.Mounts, to)
	default:
		t.refuse("mounts %s: type %q", at, kind)
	}
}

// tmpfs is an empty place of a size of its own.
func (t *translator) tmpfs(m *specs.Mount, at string) (to config.Mount, ok bool) {
	to = config.Mount{Dst: at, Size: tmpfsSize}
	for _, o := range m.Options {
		name, value, _ := strings.Cut(o, "=")
		switch name {
		case "rw", "private", "rprivate", "nosuid", "nodev", "relatime", "noatime", "strictatime", "exec", "tmpcopyup":
			if name == "tmpcopyup" && !t.emptyInRoot(at) {
				t.refuse("mounts %s (tmpfs): option tmpcopyup, of what isn't empty", at)
				return to, false
			}
		case "noexec":
			t.note("mounts %s (tmpfs): option noexec isn't had; what the container writes it may run", at)
		case "mode", "uid", "gid":
			t.note("mounts %s (tmpfs): option %s isn't had; it is the container user's own", at, name)
		case "size":
			n, err := config.ParseSize(value)
			if err != nil {
				t.refuse("mounts %s (tmpfs): size %q", at, value)
				return to, false
			}
			to.Size = n
		default:
			t.refuse("mounts %s (tmpfs): option %s", at, o)
			return to, false
		}
	}
	return to, true
}

// emptyInRoot says whether a directory of the root has nothing in it, or isn't there.
func (t *translator) emptyInRoot(at string) bool {
	root, err := os.OpenRoot(t.to.Policy.Filesystem.Rootfs)
	if err != nil {
		return false
	}
	defer root.Close()
	dir, err := root.Open(at[1:])
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer dir.Close()
	_, err = dir.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

// tmpfsSize is that of one for which a bundle names none.
const tmpfsSize = 64 << 20

func (t *translator) masks(l *specs.Linux) {
	to := &t.to.Shape
	for _, name := range l.MaskedPaths {
		at := path.Clean(name)
		switch {
		case strings.HasPrefix(at, "/proc/"):
			to.Masked = append(to.Masked, at)
		case at == "/sys" || strings.HasPrefix(at, "/sys/"): // isn't shown
		case !path.IsAbs(at), at == "/", at == "/proc", at == "/dev", strings.HasPrefix(at, "/dev/"):
			t.refuse("linux.maskedPaths %s", name)
		case strings.ContainsAny(at, `*?[]{}\`):
			t.refuse("linux.maskedPaths %q: it looks like a pattern", name)
		default:
			t.to.Policy.Filesystem.Deny = append(t.to.Policy.Filesystem.Deny, at)
		}
	}
	for _, name := range l.ReadonlyPaths {
		at := path.Clean(name)
		switch {
		case strings.HasPrefix(at, "/proc/"):
			to.ReadOnly = append(to.ReadOnly, at)
		case at == "/sys" || strings.HasPrefix(at, "/sys/"):
		default:
			t.refuse("linux.readonlyPaths %s", name)
		}
	}
}
