package oci

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
)

// maxConfig bounds a config.json: what an engine writes has some ten thousand bytes.
const maxConfig = 4 << 20

// Container is what a bundle comes to.
type Container struct {
	Policy   config.Policy
	Shape    backend.Shape
	NetNS    string // the path of a network namespace to be joined; empty: none
	Sysctls  map[string]string
	Process  Process
	Terminal bool
	OOMScore *int
	Seccomp  []byte // a profile, as the bundle has it; nil: confine's own
	// Annotations are the bundle's, which state repeats and nothing else goes by: some come with the image.
	Annotations map[string]string
	// Notes are what isn't had of the bundle, and why nobody's walls are weaker for it.
	Notes []string
}

// Process is what is to be started.
type Process struct {
	Argv, Env  []string
	Dir        string
	Umask      uint32
	Rows, Cols uint16
}

// refusal is all that a bundle can't have.
type refusal []string

// Error is short enough for engines that cut what they are told.
func (r refusal) Error() string {
	const most = 1000
	text := strings.Join(r, "; ")
	for n := len(r) - 1; len(text) > most && n > 0; n-- {
		text = fmt.Sprintf("%s; and %d more, which confine oci check lists", strings.Join(r[:n], "; "), len(r)-n)
	}
	return "this runtime refuses " + text
}

// translator makes a container of a bundle.
type translator struct {
	dir     string // the bundle
	spec    *specs.Spec
	to      *Container
	refused refusal
}

func (t *translator) refuse(format string, args ...any) {
	t.refused = append(t.refused, fmt.Sprintf(format, args...))
}

func (t *translator) note(format string, args ...any) {
	t.to.Notes = append(t.to.Notes, fmt.Sprintf(format, args...))
}

// ReadSpec reads the config.json of a bundle.
func ReadSpec(dir string) (*specs.Spec, error) {
	f, err := os.OpenFile(filepath.Join(dir, "config.json"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("config.json is no regular file"))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxConfig {
		return nil, fmt.Errorf("config.json has more than %d bytes", maxConfig)
	}
	var s specs.Spec
	if err := decode(text, &s); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	return &s, nil
}

// decode takes one document, of fields that are known.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the document")
	}
	return nil
}

// Translate makes a container of a bundle in a directory, which is absolute. What is refused is a list of all of it.
func Translate(dir string, s *specs.Spec) (*Container, error) {
	t := &translator{dir: dir, spec: s, to: &Container{Policy: config.Default(), Annotations: s.Annotations}}
	p := &t.to.Policy
	p.Profile = ""
	p.TimeLimit, p.CPUTime, p.MemoryLimit, p.CPULimit, p.CPUs, p.Processes, p.FileDescriptors, p.MaxFileSize, p.MaxFiles, p.OutputLimit = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
	p.DiskLimit = defaultDisk
	p.Network = config.Network{}
	p.Filesystem = config.Filesystem{Workdir: "none", WorkdirAsked: true, Landlock: p.Filesystem.Landlock}
	p.Env = config.Env{Set: map[string]string{}}
	p.Seccomp, p.SeccompAction = "default", "errno"
	if !strings.HasPrefix(s.Version, "1.") {
		t.refuse("ociVersion %q: it knows 1.x", s.Version)
	}
	for name, there := range map[string]bool{"solaris": s.Solaris != nil, "windows": s.Windows != nil, "vm": s.VM != nil, "zos": s.ZOS != nil} {
		if there {
			t.refuse("%s", name)
		}
	}
	t.root()
	t.process()
	t.mounts()
	t.hooks()
	t.linux()
	if len(t.refused) > 0 {
		slices.Sort(t.refused)
		return nil, t.refused
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	slices.Sort(t.to.Notes)
	return t.to, nil
}

// defaultDisk is what can be written in the root and in private places: it is memory.
const defaultDisk = 1 << 30

func (t *translator) root() {
	r := t.spec.Root
	if r == nil || r.Path == "" {
		t.refuse("a bundle without root.path")
		return
	}
	t.to.Policy.Filesystem.Rootfs = t.inBundle(r.Path)
	t.to.Shape.Sealed = r.Readonly
	if !r.Readonly {
		t.note("root.readonly false: what is written to the root is kept in memory and gone with the container, not written to root.path")
	}
	if h := t.spec.Hostname; len(h) > 64 || strings.ContainsAny(h, "\x00\n /") {
		t.refuse("hostname %q", h)
	} else {
		t.to.Shape.Hostname = h
	}
	if d := t.spec.Domainname; d != "" && d != "(none)" {
		t.refuse("domainname")
	}
}

func (t *translator) inBundle(name string) string {
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.dir, name)
	}
	return filepath.Clean(name)
}

func (t *translator) process() {
	s := t.spec.Process
	if s == nil {
		t.refuse("a bundle without process")
		return
	}
	p := &t.to.Policy
	t.to.Process, t.to.Terminal, t.to.OOMScore = t.processOf(s), s.Terminal, s.OOMScoreAdj
	p.User = &config.User{UID: s.User.UID, GID: s.User.GID}
	p.Filesystem.Chdir = t.to.Process.Dir
	for _, e := range t.to.Process.Env {
		k, v, _ := strings.Cut(e, "=")
		p.Env.Set[k] = v
	}
	for _, l := range s.Rlimits {
		t.rlimit(l)
	}
}

// ProcessIn is what an exec into a container is to start, which has that user and these limits.
func ProcessIn(user *config.User, s *specs.Process) (*Process, []string, error) {
	t := &translator{to: &Container{}}
	p := t.processOf(s)
	if s.User.UID != user.UID || s.User.GID != user.GID {
		t.refuse("process.user %d:%d: the container is of %d:%d, and there is no other inside", s.User.UID, s.User.GID, user.UID, user.GID)
	}
	if len(s.Rlimits) > 0 {
		t.note("process.rlimits: those of the container hold")
	}
	if s.OOMScoreAdj != nil {
		t.note("process.oomScoreAdj: the container's holds")
	}
	if len(t.refused) > 0 {
		return nil, nil, t.refused
	}
	return &p, t.to.Notes, nil
}

// processOf takes what every process has, the first as well as one of an exec.
func (t *translator) processOf(s *specs.Process) Process {
	p := Process{Argv: s.Args, Dir: s.Cwd, Umask: 0o022}
	if len(s.Args) == 0 || s.Args[0] == "" {
		t.refuse("a process without args")
	}
	if !path.IsAbs(s.Cwd) {
		t.refuse("process.cwd %q: it is not absolute", s.Cwd)
	}
	for _, e := range s.Env {
		if k, _, ok := strings.Cut(e, "="); !ok || k == "" {
			t.note("process.env %q: it is no K=V, and nobody reads it", e)
			continue
		}
		p.Env = append(p.Env, e)
	}
	if u := s.User.Umask; u != nil {
		p.Umask = *u & 0o777
	}
	if b := s.ConsoleSize; b != nil {
		p.Rows, p.Cols = uint16(min(b.Height, 1<<16-1)), uint16(min(b.Width, 1<<16-1))
	}
	if g := slices.DeleteFunc(slices.Clone(s.User.AdditionalGids), func(g uint32) bool { return g == s.User.GID }); len(g) > 0 {
		t.note("process.user.additionalGids %v: the process is in its own group alone, and gets less", g)
	}
	if s.User.Username != "" {
		t.refuse("process.user.username")
	}
	t.capabilities(s.Capabilities)
	if !s.NoNewPrivileges {
		t.note("process.noNewPrivileges false: it is always set")
	}
	if s.ApparmorProfile != "" && s.ApparmorProfile != "unconfined" {
		t.refuse("process.apparmorProfile %q", s.ApparmorProfile)
	}
	if s.SelinuxLabel != "" {
		t.refuse("process.selinuxLabel")
	}
	for name, there := range map[string]bool{"scheduler": s.Scheduler != nil, "ioPriority": s.IOPriority != nil, "execCPUAffinity": s.ExecCPUAffinity != nil, "commandLine": s.CommandLine != ""} {
		if there {
			t.refuse("process.%s", name)
		}
	}
	return p
}

// usualCapabilities are those that engines give to every container, unasked: podman, Docker, containerd and CRI-O. A process that doesn't have them can do less.
var usualCapabilities = [...]string{"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW",
	"CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"}

func (t *translator) capabilities(c *specs.LinuxCapabilities) {
	if c == nil {
		return
	}
	all := slices.Concat(c.Bounding, c.Effective, c.Inheritable, c.Permitted, c.Ambient)
	slices.Sort(all)
	all = slices.Compact(all)
	for _, name := range all {
		if !slices.Contains(usualCapabilities[:], name) {
			t.refuse("process.capabilities %s: there are no capabilities inside", name)
		}
	}
	if len(all) > 0 {
		t.note("process.capabilities: there are none inside; of the usual ones the process has none of %s", strings.Join(all, ", "))
	}
}

func (t *translator) rlimit(l specs.POSIXRlimit) {
	p := &t.to.Policy
	least := func(limit *int64, n uint64) {
		if n > 1<<62 {
			return // none
		}
		if *limit == 0 || int64(n) < *limit {
			*limit = int64(n)
		}
	}
	if l.Soft > l.Hard {
		t.refuse("process.rlimits %s: soft is above hard", l.Type)
		return
	}
	if l.Soft == 0 && l.Type != "RLIMIT_CORE" {
		t.refuse("process.rlimits %s: of 0", l.Type) // which is no limit in a policy
		return
	}
	switch l.Type {
	case "RLIMIT_NOFILE":
		least(&p.FileDescriptors, l.Soft)
	case "RLIMIT_NPROC":
		least(&p.Processes, l.Soft)
	case "RLIMIT_FSIZE":
		least(&p.MaxFileSize, l.Soft)
	case "RLIMIT_CORE":
		t.note("process.rlimits RLIMIT_CORE: nothing is dumped")
	default:
		t.refuse("process.rlimits %s", l.Type)
	}
}

func (t *translator) hooks() {
	h := t.spec.Hooks
	if h == nil {
		return
	}
	//lint:ignore SA1019 bundles still have them, and what is deprecated is refused too
	prestart := len(h.Prestart)
	for name, n := range map[string]int{"prestart": prestart, "createRuntime": len(h.CreateRuntime), "createContainer": len(h.CreateContainer),
		"startContainer": len(h.StartContainer), "poststart": len(h.Poststart), "poststop": len(h.Poststop)} {
		if n > 0 {
			t.refuse("hooks.%s: a bundle runs no program outside of its container", name)
		}
	}
}

func (t *translator) linux() {
	l := t.spec.Linux
	if l == nil {
		t.refuse("a bundle without linux: it says nothing of its namespaces")
		return
	}
	t.namespaces(l)
	t.sysctls(l.Sysctl)
	t.devices(l)
	t.masks(l)
	t.resources(l.Resources)
	if l.CgroupsPath != "" {
		t.note("linux.cgroupsPath %q: limits are held by a cgroup of confine's own, below that of whoever creates the container", l.CgroupsPath)
	}
	if l.Seccomp != nil {
		text, err := json.Marshal(l.Seccomp)
		if err != nil {
			t.refuse("linux.seccomp: %v", err)
		}
		for name, there := range map[string]bool{"listenerPath": l.Seccomp.ListenerPath != "", "listenerMetadata": l.Seccomp.ListenerMetadata != "", "flags": len(l.Seccomp.Flags) > 0} {
			if there {
				t.refuse("linux.seccomp.%s", name)
			}
		}
		t.to.Seccomp = text
	} else {
		t.note("no linux.seccomp: confine's own filter holds")
	}
	switch l.RootfsPropagation {
	case "", "private", "rprivate":
	case "slave", "rslave":
		t.note("linux.rootfsPropagation %s: it is private", l.RootfsPropagation)
	default:
		t.refuse("linux.rootfsPropagation %q", l.RootfsPropagation)
	}
	for name, there := range map[string]bool{"uidMappings": len(l.UIDMappings) > 0, "gidMappings": len(l.GIDMappings) > 0, "mountLabel": l.MountLabel != "", "intelRdt": l.IntelRdt != nil,
		"personality": l.Personality != nil && (l.Personality.Domain != specs.PerLinux || len(l.Personality.Flags) > 0), "timeOffsets": len(l.TimeOffsets) > 0} {
		if there {
			t.refuse("linux.%s", name)
		}
	}
}

func (t *translator) namespaces(l *specs.Linux) {
	has := map[specs.LinuxNamespaceType]bool{}
	for _, n := range l.Namespaces {
		if has[n.Type] {
			t.refuse("linux.namespaces %s: it is there twice", n.Type)
		}
		has[n.Type] = true
		switch n.Type {
		case specs.NetworkNamespace:
			if t.to.NetNS = n.Path; n.Path != "" {
				t.to.Policy.Network.All = true // of that namespace
			}
		case specs.IPCNamespace, specs.UTSNamespace:
			if n.Path != "" {
				t.note("linux.namespaces %s %s: the container has one of its own, and joins none", n.Type, n.Path)
			}
		case specs.CgroupNamespace, specs.MountNamespace, specs.PIDNamespace:
			if n.Path != "" {
				t.refuse("linux.namespaces %s %s: it joins none", n.Type, n.Path)
			}
		default:
			t.refuse("linux.namespaces %s", n.Type)
		}
	}
	for _, kind := range []specs.LinuxNamespaceType{specs.MountNamespace, specs.PIDNamespace, specs.IPCNamespace} {
		if !has[kind] {
			t.refuse("linux.namespaces without %s: the host's is shown to nobody", kind)
		}
	}
	if !has[specs.UTSNamespace] {
		t.note("linux.namespaces without uts: the container has one of its own")
	}
	if !has[specs.CgroupNamespace] {
		t.note("linux.namespaces without cgroup: the container has one of its own")
	}
	if !has[specs.NetworkNamespace] {
		t.to.Policy.Network.All = true // the host's
	}
}

func (t *translator) sysctls(all map[string]string) {
	for name, value := range all {
		switch {
		case name == "net.ipv4.ping_group_range" && t.to.NetNS == "":
			t.note("linux.sysctl %s: it is the host's, or there is no network", name)
		case !strings.HasPrefix(name, "net.") || t.to.NetNS == "" || strings.Contains(name, "..") || strings.ContainsAny(name, "/\x00"):
			t.refuse("linux.sysctl %s", name)
		default:
			if t.to.Sysctls == nil {
				t.to.Sysctls = map[string]string{}
			}
			t.to.Sysctls[name] = value
		}
	}
}

// ownDevices are in every /dev.
var ownDevices = [...]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console", "/dev/ptmx"}

func (t *translator) devices(l *specs.Linux) {
	for _, d := range l.Devices {
		if !slices.Contains(ownDevices[:], d.Path) {
			t.refuse("linux.devices %s: /dev has null, zero, full, random, urandom, tty and ptmx", d.Path)
		}
	}
	if len(l.Devices) > 0 {
		t.note("linux.devices: those of every /dev, which are the host's own")
	}
}

func (t *translator) resources(r *specs.LinuxResources) {
	if r == nil {
		return
	}
	p := &t.to.Policy
	if m := r.Memory; m != nil {
		if m.Limit != nil && *m.Limit > 0 {
			p.MemoryLimit = *m.Limit
		}
		if m.Swap != nil && *m.Swap > 0 && (m.Limit == nil || *m.Swap != *m.Limit) {
			t.note("linux.resources.memory.swap: memory.limit holds what is in memory; confine gives no swap beside it")
		}
		if m.Reservation != nil && *m.Reservation > 0 {
			t.note("linux.resources.memory.reservation: the limit holds")
		}
		if m.DisableOOMKiller != nil && *m.DisableOOMKiller {
			t.refuse("linux.resources.memory.disableOOMKiller")
		}
		//lint:ignore SA1019 bundles still have it, and what is deprecated is refused too
		kernel := m.Kernel
		for name, n := range map[string]*int64{"kernel": kernel, "kernelTCP": m.KernelTCP} {
			if n != nil && *n > 0 {
				t.refuse("linux.resources.memory.%s", name)
			}
		}
		if m.Swappiness != nil {
			t.note("linux.resources.memory.swappiness: the host's")
		}
	}
	if n := r.Pids; n != nil && n.Limit > 0 && (p.Processes == 0 || n.Limit < p.Processes) {
		p.Processes = n.Limit
	}
	if c := r.CPU; c != nil {
		if c.Quota != nil && *c.Quota > 0 {
			period := uint64(100000)
			if c.Period != nil && *c.Period > 0 {
				period = *c.Period
			}
			p.CPULimit = max(1, int(uint64(*c.Quota)*100/period))
		}
		if c.Shares != nil && *c.Shares > 0 {
			t.note("linux.resources.cpu.shares: a weight beside others, which have none here")
		}
		for name, there := range map[string]bool{"realtimeRuntime": c.RealtimeRuntime != nil && *c.RealtimeRuntime != 0, "cpus": c.Cpus != "", "mems": c.Mems != "",
			"burst": c.Burst != nil && *c.Burst > 0, "idle": c.Idle != nil && *c.Idle != 0} {
			if there {
				t.refuse("linux.resources.cpu.%s", name)
			}
		}
	}
	for _, d := range r.Devices {
		if d.Allow {
			t.note("linux.resources.devices: nothing inside makes a device node, and no node works but those of /dev")
			break
		}
	}
	if b := r.BlockIO; b != nil && (b.LeafWeight != nil || len(b.WeightDevice)+len(b.ThrottleReadBpsDevice)+len(b.ThrottleWriteBpsDevice)+len(b.ThrottleReadIOPSDevice)+len(b.ThrottleWriteIOPSDevice) > 0 || b.Weight != nil && *b.Weight > 0) {
		t.refuse("linux.resources.blockIO")
	}
	for _, h := range r.HugepageLimits {
		t.refuse("linux.resources.hugepageLimits %s", h.Pagesize)
	}
	if n := r.Network; n != nil && (n.ClassID != nil && *n.ClassID != 0 || len(n.Priorities) > 0) {
		t.refuse("linux.resources.network")
	}
	if len(r.Rdma) > 0 {
		t.refuse("linux.resources.rdma")
	}
	for name, value := range r.Unified {
		if name == "memory.oom.group" && value == "1" {
			continue // at the limit of memory all of them end, in any case
		}
		t.refuse("linux.resources.unified %s=%s", name, strconv.Quote(value))
	}
}
