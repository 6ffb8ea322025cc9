package vm

import (
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confine-run/confine/backend/vm/internal/guest"
	"github.com/confine-run/confine/backend/vm/internal/keeper"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

const (
	// kernelMemory is what the guest's kernel and its init need beside what the policy gives to processes.
	kernelMemory = 192 << 20
	// qemuMemory is what QEMU needs beside the memory of the guest, translated code above all.
	qemuMemory = 320 << 20
	// defaultMemory is that of a machine whose policy has no limit.
	defaultMemory = 1 << 30
	// bootCPU is CPU time that no process of the guest is blamed for: that of booting, and of QEMU's devices.
	bootCPU = 20 * time.Second
	// inBox is where the sandbox around QEMU shows what it boots.
	inBox = "/run/confine-vm"
)

// limitsInside are capabilities that the inner sandbox gives as they were asked for. The outer one has them, if at all, for QEMU as a whole.
var limitsInside = []status.Capability{
	status.WallTime, status.CPUTime, status.CPURate, status.CPUs, status.Memory, status.Tasks, status.FileDescriptors,
	status.FileSize, status.Disk, status.Files, status.MountSize, status.Output,
}

// heldOutside are those that only the outer sandbox can give.
var heldOutside = []status.Capability{status.Network, status.Overlay, status.Publish, status.Cgroup}

func ramOf(p *config.Policy) int64 {
	ram := int64(defaultMemory)
	if p.MemoryLimit > 0 {
		ram = p.MemoryLimit
	}
	const mebibyte = 1 << 20
	return (ram + kernelMemory + mebibyte - 1) / mebibyte * mebibyte
}

// outerOf is the policy of the sandbox around QEMU: what is shown and reached is as it was asked for.
func outerOf(p *config.Policy, shown []config.Mount) *config.Policy {
	o := *p
	o.Isolation = "process"
	o.TimeLimit = 0 // of one process, which the host's clock and the inner sandbox see to
	if p.CPUTime > 0 {
		o.CPUTime = p.CPUTime + bootCPU
	}
	if p.MemoryLimit > 0 {
		o.MemoryLimit = ramOf(p) + qemuMemory + p.ScratchLimit()
	}
	o.DiskLimit = p.ScratchLimit()
	o.Processes, o.FileDescriptors, o.OutputLimit = 128, 0, 0
	o.Seccomp, o.SeccompAction = "default", "errno"
	o.Env = config.Env{}
	o.Filesystem.Mounts = slices.Concat(p.Filesystem.Mounts, shown)
	o.Filesystem.Log = false
	o.Require = nil
	if !slices.Contains(o.AllowPartial, config.WordAll) {
		o.AllowPartial = slices.Clone(o.AllowPartial)
		for _, c := range limitsInside {
			o.AllowPartial = append(o.AllowPartial, string(c))
		}
	}
	return &o
}

// innerOf is the policy of the sandbox in the guest. What is an overlay outside is writable inside: the outer keeps the writes apart. But
// what is written to a tree that is the root goes no further than the guest, since nobody asks for it afterwards.
func innerOf(p *config.Policy, uid, gid uint32, home string) *config.Policy {
	i := *p
	i.Isolation, i.VMKernel, i.CgroupParent = "process", "", ""
	i.Network = config.Network{All: hasNetwork(p)}
	i.User = nil
	if uid != 0 {
		i.User = &config.User{UID: uid, GID: gid}
	}
	f := &i.Filesystem
	f.Keep = false
	if f.Rootfs != "" {
		f.Rootfs = guest.Rootfs
	}
	if f.Workdir == "overlay" {
		f.Workdir = "rw"
	}
	f.AllowWrite = slices.Concat(f.AllowWrite, f.Overlay)
	f.Overlay = nil
	if f.EphemeralHome && home != "" {
		f.EphemeralHome = false
		f.AllowWrite = append(f.AllowWrite, home)
	}
	f.Mounts = slices.Clone(f.Mounts)
	for n := range f.Mounts {
		m := &f.Mounts[n]
		if m.Size == 0 {
			m.Src = m.Dst
		}
		if m.Mode == "overlay" {
			m.Mode = "rw"
		}
	}
	i.Env.Set = maps.Clone(i.Env.Set)
	i.Require = slices.DeleteFunc(slices.Clone(i.Require), func(r string) bool {
		for _, c := range append(slices.Clone(heldOutside), status.Isolation) {
			if r == string(c) || len(r) > len(c) && r[:len(c)+1] == string(c)+"=" {
				return true
			}
		}
		return false
	})
	return &i
}

// hasNetwork says whether the machine has a card: for what it may reach, or for what may reach it.
func hasNetwork(p *config.Policy) bool {
	return p.Network.All || p.Network.Heard() || len(p.Network.Publish) > 0
}

// mounts show what is booted to the sandbox around QEMU, and give it the place that the machine is written down in. Its size is
// no wall: what is in it is memory. What was written down before is below what is written now, and counts.
func (p parts) mounts(own string, ram int64) []config.Mount {
	m := []config.Mount{
		{Src: p.kernel.path, Dst: filepath.Join(inBox, "kernel")},
		{Src: own, Dst: filepath.Join(inBox, "init")},
		{Src: p.keeper, Dst: filepath.Join(inBox, keeper.Program)},
		{Dst: keeper.Place, Size: 1 << 30},
		{Dst: keeper.MemoryPlace, Size: 16*ram + 1<<30},
	}
	if p.kernel.modules != "" {
		m = append(m, config.Mount{Src: p.kernel.modules, Dst: filepath.Join(inBox, "modules")})
	}
	return append(m, p.emulator.shown...)
}

// localPorts are ports of the caller's loopback that are allowed by number.
func localPorts(p *config.Policy) (ports []int) {
	for _, word := range p.Network.Allow {
		host, port, err := net.SplitHostPort(word)
		if n, numErr := strconv.Atoi(port); err == nil && numErr == nil && n > 0 && n < 1<<16 && (host == "localhost" || host == "127.0.0.1") && !slices.Contains(ports, n) {
			ports = append(ports, n)
		}
	}
	return ports
}

// lead is a port outside that leads to one of the command's.
type lead struct {
	from int // of the sandbox around QEMU, which is the one that the command has
	by   int // of the guest, at which the guest's init listens
}

// leads are those of what is published. A server in the guest may listen on any address, or on the loopback alone; so the init of the guest takes what
// comes by a port of its own to the loopback. It has ports that are root's, unless the command has one of them.
func leads(p *config.Policy) (all []lead) {
	if p.Network.All {
		return nil // the ports would be the caller's own
	}
	by := 1023
	for _, word := range p.Network.Publish {
		_, inside, _ := strings.Cut(word, ":")
		port, err := strconv.Atoi(inside)
		if err != nil || slices.ContainsFunc(all, func(l lead) bool { return l.from == port }) {
			continue
		}
		for slices.ContainsFunc(p.Network.Publish, func(w string) bool { return strings.HasSuffix(w, ":"+strconv.Itoa(by)) }) {
			by--
		}
		all = append(all, lead{port, by})
		by--
	}
	return all
}
