package oci

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/confine-run/confine/internal/must"
)

// usual is a bundle as engines make them, with what is changed of it.
func usual(change func(*specs.Spec)) *specs.Spec {
	s := &specs.Spec{
		Version: "1.0.2", Root: &specs.Root{Path: "rootfs"}, Hostname: "box",
		Process: &specs.Process{Args: []string{"true"}, Cwd: "/", Env: []string{"A=b"}, User: specs.User{UID: 7, GID: 8},
			Capabilities: &specs.LinuxCapabilities{Bounding: []string{"CAP_CHOWN"}}},
		Mounts: []specs.Mount{{Destination: "/proc", Type: "proc", Source: "proc"}, {Destination: "/dev", Type: "tmpfs", Source: "tmpfs"},
			{Destination: "/etc/hosts", Type: "bind", Source: "/hosts", Options: []string{"bind", "ro", "noexec"}}},
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
			{Type: specs.CgroupNamespace}, {Type: specs.NetworkNamespace}},
			MaskedPaths: []string{"/proc/kcore", "/sys/firmware"}, ReadonlyPaths: []string{"/proc/bus"}},
	}
	if change != nil {
		change(s)
	}
	return s
}

func TestUsualBundlesAreTaken(t *testing.T) {
	limit, quota, period := int64(64<<20), int64(50000), uint64(100000)
	c, err := Translate("/bundle", usual(func(s *specs.Spec) {
		s.Linux.Resources = &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &limit}, Pids: &specs.LinuxPids{Limit: 40}, CPU: &specs.LinuxCPU{Quota: &quota, Period: &period}}
		s.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 99, Hard: 100}, {Type: "RLIMIT_NPROC", Soft: 30, Hard: 30}}
		s.Root.Readonly = true
		s.Annotations = map[string]string{"run.confine.allow-partial": "all"} // as an image may have it
	}))
	must.Do(t, err)
	p := &c.Policy
	if p.MemoryLimit != limit || p.Processes != 30 || p.CPULimit != 50 || p.FileDescriptors != 99 || p.User.UID != 7 || p.User.GID != 8 || p.Network.All || p.TimeLimit != 0 ||
		p.Filesystem.Rootfs != "/bundle/rootfs" || p.Env.Set["A"] != "b" || p.Env.KeepAll || !c.Shape.Sealed || len(p.AllowPartial) > 0 || c.Annotations["run.confine.allow-partial"] != "all" || c.Shape.Hostname != "box" || p.Seccomp != "default" {
		t.Errorf("%+v %+v", p, c.Shape)
	}
	if !slices.Equal(c.Shape.Masked, []string{"/proc/kcore"}) || !slices.Equal(c.Shape.ReadOnly, []string{"/proc/bus"}) {
		t.Errorf("%+v", c.Shape)
	}
	if m := p.Filesystem.Mounts; len(m) != 1 || m[0].String() != "/hosts:/etc/hosts:ro" {
		t.Error(m)
	}
	if len(c.Notes) == 0 || !strings.Contains(strings.Join(c.Notes, "\n"), "CAP_CHOWN") {
		t.Error(c.Notes)
	}
}

func TestWhatIsNotHadIsRefusedByName(t *testing.T) {
	mount := func(m specs.Mount) func(*specs.Spec) { return func(s *specs.Spec) { s.Mounts = append(s.Mounts, m) } }
	namespace := func(kind specs.LinuxNamespaceType, path string) func(*specs.Spec) {
		return func(s *specs.Spec) {
			s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == kind })
			s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: kind, Path: path})
		}
	}
	without := func(kind specs.LinuxNamespaceType) func(*specs.Spec) {
		return func(s *specs.Spec) {
			s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == kind })
		}
	}
	truth, one := true, int64(1)
	hook := []specs.Hook{{Path: "/bin/true"}}
	for name, change := range map[string]func(*specs.Spec){
		"ociVersion": func(s *specs.Spec) { s.Version = "2.0.0" },
		//lint:ignore SA1019 bundles still have them
		"hooks.prestart":                      func(s *specs.Spec) { s.Hooks = &specs.Hooks{Prestart: hook} },
		"hooks.createRuntime":                 func(s *specs.Spec) { s.Hooks = &specs.Hooks{CreateRuntime: hook} },
		"hooks.poststop":                      func(s *specs.Spec) { s.Hooks = &specs.Hooks{Poststop: hook} },
		"process.capabilities CAP_SYS_ADMIN":  func(s *specs.Spec) { s.Process.Capabilities.Ambient = []string{"CAP_SYS_ADMIN"} },
		"process.apparmorProfile":             func(s *specs.Spec) { s.Process.ApparmorProfile = "docker-default" },
		"process.selinuxLabel":                func(s *specs.Spec) { s.Process.SelinuxLabel = "x" },
		"process.scheduler":                   func(s *specs.Spec) { s.Process.Scheduler = &specs.Scheduler{} },
		"process.rlimits RLIMIT_AS":           func(s *specs.Spec) { s.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_AS", Soft: 1, Hard: 1}} },
		"process.rlimits RLIMIT_NOFILE: of 0": func(s *specs.Spec) { s.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE"}} },
		"process.cwd":                         func(s *specs.Spec) { s.Process.Cwd = "here" },
		"without process":                     func(s *specs.Spec) { s.Process = nil },
		"without linux":                       func(s *specs.Spec) { s.Linux = nil },
		"without args":                        func(s *specs.Spec) { s.Process.Args = nil },
		"without root.path":                   func(s *specs.Spec) { s.Root = nil },
		"hostname":                            func(s *specs.Spec) { s.Hostname = "a\nb" },
		"linux.namespaces user":               namespace(specs.UserNamespace, ""),
		"linux.namespaces time":               namespace(specs.TimeNamespace, ""),
		"linux.namespaces pid /proc/1":        namespace(specs.PIDNamespace, "/proc/1/ns/pid"),
		"linux.namespaces mount /proc/1":      namespace(specs.MountNamespace, "/proc/1/ns/mnt"),
		"linux.namespaces without pid":        without(specs.PIDNamespace),
		"linux.namespaces without ipc":        without(specs.IPCNamespace),
		"linux.namespaces without mount":      without(specs.MountNamespace),
		"linux.sysctl kernel.shmmax":          func(s *specs.Spec) { s.Linux.Sysctl = map[string]string{"kernel.shmmax": "1"} },
		"linux.sysctl net.core.somaxconn":     func(s *specs.Spec) { s.Linux.Sysctl = map[string]string{"net.core.somaxconn": "1"} },
		"linux.devices /dev/fuse":             func(s *specs.Spec) { s.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/fuse"}} },
		"linux.uidMappings":                   func(s *specs.Spec) { s.Linux.UIDMappings = []specs.LinuxIDMapping{{Size: 1}} },
		"linux.rootfsPropagation":             func(s *specs.Spec) { s.Linux.RootfsPropagation = "shared" },
		"linux.seccomp.listenerPath":          func(s *specs.Spec) { s.Linux.Seccomp = &specs.LinuxSeccomp{ListenerPath: "/x"} },
		"linux.maskedPaths /dev":              func(s *specs.Spec) { s.Linux.MaskedPaths = []string{"/dev"} },
		"linux.readonlyPaths /etc":            func(s *specs.Spec) { s.Linux.ReadonlyPaths = []string{"/etc"} },
		"linux.resources.cpu.cpus":            func(s *specs.Spec) { s.Linux.Resources = &specs.LinuxResources{CPU: &specs.LinuxCPU{Cpus: "0"}} },
		"linux.resources.memory.kernel": func(s *specs.Spec) {
			//lint:ignore SA1019 bundles still have it
			s.Linux.Resources = &specs.LinuxResources{Memory: &specs.LinuxMemory{Kernel: &one}}
		},
		"linux.resources.memory.disableOOMKiller": func(s *specs.Spec) {
			s.Linux.Resources = &specs.LinuxResources{Memory: &specs.LinuxMemory{DisableOOMKiller: &truth}}
		},
		"linux.resources.unified memory.high": func(s *specs.Spec) {
			s.Linux.Resources = &specs.LinuxResources{Unified: map[string]string{"memory.high": "1"}}
		},
		"linux.resources.hugepageLimits 2MB": func(s *specs.Spec) {
			s.Linux.Resources = &specs.LinuxResources{HugepageLimits: []specs.LinuxHugepageLimit{{Pagesize: "2MB"}}}
		},
		"mounts /: it would replace":           mount(specs.Mount{Destination: "/x/..", Type: "bind", Source: "/a"}),
		"mounts \"x\"":                         mount(specs.Mount{Destination: "x", Type: "bind", Source: "/a"}),
		"mounts /proc/1":                       mount(specs.Mount{Destination: "/proc/1", Type: "bind", Source: "/a"}),
		"mounts /dev/sda":                      mount(specs.Mount{Destination: "/dev/sda", Type: "bind", Source: "/a"}),
		"mounts /v: option noexec":             mount(specs.Mount{Destination: "/v", Type: "bind", Source: "/a", Options: []string{"noexec"}}),
		"mounts /v: option rshared":            mount(specs.Mount{Destination: "/v", Type: "bind", Source: "/a", Options: []string{"rshared"}}),
		"mounts /v: option idmap":              mount(specs.Mount{Destination: "/v", Type: "bind", Source: "/a", Options: []string{"idmap"}}),
		"mounts /v: type \"ext4\"":             mount(specs.Mount{Destination: "/v", Type: "ext4", Source: "/dev/sda"}),
		"mounts /v: uidMappings":               mount(specs.Mount{Destination: "/v", Type: "bind", Source: "/a", UIDMappings: []specs.LinuxIDMapping{{}}}),
		"mounts /etc/hosts: it is there twice": mount(specs.Mount{Destination: "/etc//hosts", Type: "bind", Source: "/a"}),
		"mounts /v (tmpfs): option huge":       mount(specs.Mount{Destination: "/v", Type: "tmpfs", Options: []string{"huge=always"}}),
	} {
		_, err := Translate("/bundle", usual(change))
		var refused refusal
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), name) || len(refused) != 1 && !strings.Contains(name, "without") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A field of a later specification may be a wall.
func TestUnknownFieldsAreRefused(t *testing.T) {
	dir := t.TempDir()
	good, err := json.Marshal(usual(nil))
	must.Do(t, err)
	for _, c := range []struct{ text, want string }{
		{string(good), ""},
		{strings.Replace(string(good), `"linux":{`, `"linux":{"netDevices":{},`, 1), "netDevices"},
		{string(good) + "{}", "behind"},
		{string(good[:len(good)-1]), "EOF"},
		{strings.Repeat(" ", maxConfig) + string(good), "more than"},
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(c.text), 0o600))
		_, err := ReadSpec(dir)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
}

func TestManyRefusalsAreCutForEngines(t *testing.T) {
	_, err := Translate("/bundle", usual(func(s *specs.Spec) {
		for range 300 {
			s.Linux.Devices = append(s.Linux.Devices, specs.LinuxDevice{Path: "/dev/some-device"})
		}
	}))
	if err == nil || len(err.Error()) > 1200 || !strings.Contains(err.Error(), "more, which confine oci check lists") {
		t.Errorf("%d: %v", len(err.Error()), err)
	}
}

func TestExecsHaveTheContainersUser(t *testing.T) {
	c, err := Translate("/bundle", usual(nil))
	must.Do(t, err)
	s := usual(nil).Process
	if p, _, err := ProcessIn(c.Policy.User, s); err != nil || p.Dir != "/" {
		t.Error(p, err)
	}
	s.User.UID = 0
	if _, _, err := ProcessIn(c.Policy.User, s); err == nil || !strings.Contains(err.Error(), "process.user 0:8") {
		t.Error(err)
	}
}

// FuzzTranslate: whatever a bundle says, it is taken or refused, and never gets what nobody gets.
func FuzzTranslate(f *testing.F) {
	text, err := json.Marshal(usual(nil))
	must.Do(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var s specs.Spec
		if decode(text, &s) != nil {
			return
		}
		c, err := Translate("/nowhere", &s)
		if err != nil {
			return
		}
		if p := &c.Policy; p.Env.KeepAll || p.Seccomp == "off" || p.User == nil || !filepath.IsAbs(p.Filesystem.Rootfs) || !filepath.IsAbs(p.Filesystem.Chdir) {
			t.Errorf("%+v", p)
		}
	})
}
