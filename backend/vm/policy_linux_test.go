package vm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func TestTheOuterSandboxIsNoWiderInWhatItShowsAndReaches(t *testing.T) {
	p := config.Default()
	p.Filesystem.Deny, p.Network.Allow, p.Seccomp = []string{"secrets"}, []string{"a.test"}, "off"
	o := outerOf(&p, parts{keeper: "/v", kernel: &kernel{path: "/k"}}.mounts("/i", ramOf(&p)))
	if !reflect.DeepEqual(o.Network, p.Network) || o.Filesystem.Workdir != p.Filesystem.Workdir || !slices.Equal(o.Filesystem.Deny, p.Filesystem.Deny) {
		t.Errorf("%+v", o)
	}
	if o.Seccomp != "default" || o.Isolation != "process" || o.Env.KeepAll || len(o.Env.Pass) > 0 {
		t.Errorf("%+v", o)
	}
	for _, c := range []status.Capability{status.Containment, status.Filesystem, status.Network, status.Syscalls, status.Privileges, status.Overlay} {
		if config.AllowsPartial(o, c) {
			t.Errorf("the outer sandbox may lack %s", c)
		}
	}
	if o.MemoryLimit < ramOf(&p) {
		t.Errorf("%d bytes around a guest of %d", o.MemoryLimit, ramOf(&p))
	}
}

func TestTheInnerSandboxLeavesOverlaysAndNamesToTheOuter(t *testing.T) {
	p := config.Default()
	p.Filesystem.Workdir, p.Filesystem.Overlay, p.Filesystem.Keep = "overlay", []string{"/opt/x"}, true
	p.Filesystem.Mounts = []config.Mount{{Src: "/a", Dst: "/b", Mode: "overlay"}, {Dst: "/c", Size: 1}}
	p.Require = []string{"network=x", "isolation", "memory=cgroup_v2"}
	was, _ := json.Marshal(&p)
	i := innerOf(&p, 7, 8, "/home/x")
	if now, _ := json.Marshal(&p); string(now) != string(was) {
		t.Errorf("the policy itself has changed: %s", now)
	}
	f := &i.Filesystem
	if f.Workdir != "rw" || f.Overlay != nil || f.Keep || !slices.Contains(f.AllowWrite, "/opt/x") || f.Mounts[0] != (config.Mount{Src: "/b", Dst: "/b", Mode: "rw"}) || f.Mounts[1].Size != 1 {
		t.Errorf("%+v", f)
	}
	if i.Network.All || len(i.Network.Allow) > 0 {
		t.Errorf("no network outside, and inside %+v", i.Network)
	}
	if !slices.Equal(i.Require, []string{"memory=cgroup_v2"}) || *i.User != (config.User{UID: 7, GID: 8}) {
		t.Errorf("%+v, %+v", i.Require, i.User)
	}
	// It gets to the guest as it is.
	text, err := json.Marshal(i)
	back := &config.Policy{}
	if err != nil || json.Unmarshal(text, back) != nil || back.Digest() != i.Digest() {
		t.Errorf("it came as %+v", back)
	}
}

func TestAFileThatIsNoKernelIsRefused(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "short": "HdrS", "zeros": string(make([]byte, 4096)), "elf": "\x7fELF" + string(make([]byte, 4096))} {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		if k, err := findKernel(path); err == nil {
			t.Errorf("%s: %+v", name, k)
		}
	}
	// One whose release leads elsewhere would choose the directory of modules.
	image := make([]byte, 4096)
	copy(image[0x202:], "HdrS")
	image[0x20e] = 0x10
	copy(image[0x210:], "../../etc x\x00")
	path := filepath.Join(t.TempDir(), "image")
	must.Do(t, os.WriteFile(path, image, 0o644))
	if k, err := findKernel(path); err == nil {
		t.Errorf("%+v", k)
	}
	copy(image[0x210:], "6.1.0-test x\x00")
	must.Do(t, os.WriteFile(path, image, 0o644))
	if k, err := findKernel(path); err != nil || k.release != "6.1.0-test" {
		t.Errorf("%+v, %v", k, err)
	}
}
