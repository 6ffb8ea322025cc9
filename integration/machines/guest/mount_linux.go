package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/integration/machines/orders"
)

// mount is the words of mount(2).
type mount struct {
	from, to, kind string
	flags          uintptr
	data           string
}

func (m mount) do() error {
	if err := os.MkdirAll(m.to, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.from, m.to, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %q of type %q at %q: %w", m.from, m.kind, m.to, err)
	}
	return nil
}

// mounts are what systemd would mount, but for /tmp, which everybody gets, and the cgroups.
var mounts = []mount{
	{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
	{"tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "gid=5,mode=620,ptmxmode=666"},
	{"mqueue", "/dev/mqueue", "mqueue", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
}

const cgroupFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// cgroupMounts are the hierarchies as systemd has them.
var cgroupMounts = map[orders.Hierarchy][]mount{
	orders.Unified: {
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", cgroupFlags, "nsdelegate"},
	},
	orders.Hybrid: {
		{"tmpfs", "/sys/fs/cgroup", "tmpfs", cgroupFlags, "mode=755"},
		{"cgroup2", "/sys/fs/cgroup/unified", "cgroup2", cgroupFlags, "nsdelegate"},
		{"cgroup", "/sys/fs/cgroup/systemd", "cgroup", cgroupFlags, "none,name=systemd"},
		{"cgroup", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", cgroupFlags, "cpu,cpuacct"},
		{"cgroup", "/sys/fs/cgroup/cpuset", "cgroup", cgroupFlags, "cpuset"},
		{"cgroup", "/sys/fs/cgroup/blkio", "cgroup", cgroupFlags, "blkio"},
		{"cgroup", "/sys/fs/cgroup/devices", "cgroup", cgroupFlags, "devices"},
		{"cgroup", "/sys/fs/cgroup/freezer", "cgroup", cgroupFlags, "freezer"},
		{"cgroup", "/sys/fs/cgroup/memory", "cgroup", cgroupFlags, "memory"},
		{"cgroup", "/sys/fs/cgroup/pids", "cgroup", cgroupFlags, "pids"},
	},
}

// cgroupLinks are the names of single controllers that are mounted together.
var cgroupLinks = map[orders.Hierarchy]map[string]string{
	orders.Hybrid: {"/sys/fs/cgroup/cpu": "cpu,cpuacct", "/sys/fs/cgroup/cpuacct": "cpu,cpuacct"},
}

func mountAll(h orders.Hierarchy) error {
	for _, m := range append(mounts[:len(mounts):len(mounts)], cgroupMounts[h]...) {
		if err := m.do(); err != nil {
			return err
		}
	}
	for name, to := range cgroupLinks[h] {
		if err := os.Symlink(to, name); err != nil {
			return err
		}
	}
	return nil
}
