package rootfs

import (
	"testing"

	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/view"
)

// FuzzCompile: whatever paths are given, Compile doesn't panic, and a table that
// it makes is well formed and shows no secret that nobody named.
func FuzzCompile(f *testing.F) {
	f.Add("src", "/home/u", "**/*.key", "/data:/x", "/l", "/home/u/p")
	f.Add("../../..", ".", "[", "/bin/../x", "..", "/")
	f.Add("/loop", "/l/../l", "/home/u/p/{a,b}", "/tmp", "/dev/kvm", "/tmp")
	f.Add("/run/docker.sock", "/usr", "\\", "/home/u/p/src", "/proc/self", "/usr/bin")
	f.Add("//", "/.//", "/**", "/home/u/.ssh/x", "a//b", "/l/src/")
	f.Fuzz(func(t *testing.T, readPath, writePath, deny, dst, chdir, dir string) {
		h := hosttest.Debian(t, "/data/k.key=1", "/loop -> loop", "/l -> home/u/p", "/home/u/p/.git/config=1")
		table, err := Compile(hosttest.Input(h, func(in *view.Input) {
			in.Dir, in.Workdir = dir, "rw"
			in.AllowRead, in.AllowWrite, in.Deny = list(readPath), list(writePath), list(deny)
			if dst != "" {
				in.Mounts = []view.Mount{{Src: "/data", Dst: dst, Mode: "rw"}}
			}
			in.Chdir = chdir
			in.Protect = []string{".git/config", ".envrc", readPath}
			in.Env = environ("PATH=/usr/bin:"+readPath, "VIRTUAL_ENV="+writePath, "CARGO_HOME="+dst, "JAVA_HOME="+dir)
			in.Command = readPath
			if len(deny)%2 == 1 {
				in.Rootfs = writePath
			}
		}))
		if err != nil {
			return
		}
		if err := malformed(table); err != nil {
			t.Error(err)
		}
	})
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
