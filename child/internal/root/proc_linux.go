package root

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
	"github.com/confine-run/confine/internal/handoff"
)

// proc shows the processes of the own pid namespace.
func (b *Builder) proc(m *handoff.Mount) error {
	if err := b.bounds.wait(b.box); err != nil {
		return err
	}
	const attr = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	fd, err := newFS("proc", attr)
	if err == nil {
		if err := b.attachAt(fd, m.Dst, true); err != nil {
			return err
		}
		b.masker.proc, err = unix.Openat(b.fd, strings.TrimPrefix(m.Dst, "/"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fault.Of("open", m.Dst, err)
		}
		if err := noUserNamespaces(b.box, b.masker.proc); err != nil {
			return err
		}
		b.fell.NoSysctls = sysctls(b.bounds.Bounds, b.masker.proc)
		if err := b.openIPC(b.masker.proc); err != nil {
			return err
		}
		return b.openPIDs()
	}
	if fault.Errno(err) != unix.EPERM || b.refuse.ProcOfCaller || b.bounds.PIDMax != 0 && b.refuse.NoPIDMax {
		return err
	}
	// The host shows this namespace only parts of its own proc, so the kernel
	// gives no whole one: show the same parts, read-only.
	b.fell.ProcOfCaller = true
	b.fell.NoPIDMax = b.bounds.PIDMax != 0
	old, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Of("open", "/proc", err)
	}
	defer unix.Close(old)
	// The number is the user namespace's of whoever opens it, in any proc.
	if err := noUserNamespaces(b.box, old); err != nil {
		if b.refuse.NestedUserns {
			return err
		}
		b.fell.NestedUserns = true
	}
	b.fell.NoSysctls = sysctls(b.bounds.Bounds, old)
	if err := b.openIPC(old); err != nil {
		return err
	}
	return b.clone(old, &handoff.Mount{Src: "/proc", Dst: m.Dst, ReadOnly: true}, true)
}

// noUserNamespaces makes nested user namespaces impossible, whatever the filter
// of system calls lets through: in one of its own the target would have every
// capability again, and with them the parts of the kernel that only root reaches
// otherwise. The number is this user namespace's, and bounds all those below it.
//
// It has to come while /proc/sys can still be written.
func noUserNamespaces(box *handoff.Box, proc int) error {
	if !box.Has(unix.CLONE_NEWUSER) {
		return nil // the number would be the host's, which grants none anyway
	}
	return set(proc, "user/max_user_namespaces", "0")
}

// set writes to a file of sys.
func set(proc int, name, value string) error {
	fd, err := unix.Openat(proc, "sys/"+name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Of("open", "/proc/sys/"+name, err)
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(value))
	return fault.Of("write", "/proc/sys/"+name, err)
}

// openIPC opens what shows all that System V IPC holds, which no process needs to have. A
// kernel without it has nothing to show.
func (b *Builder) openIPC(proc int) error {
	if !b.bounds.ShowIPC {
		return nil
	}
	for _, name := range handoff.IPCTables {
		fd, err := unix.Openat(proc, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT {
			return nil
		}
		if err != nil {
			return fault.Of("open", "/proc/"+name, err)
		}
		b.ipc = append(b.ipc, fd)
	}
	return nil
}

// sysctls bounds what the run's own namespaces may have of tables of the kernel.
func sysctls(to *handoff.Bounds, proc int) (failed bool) {
	for i := range to.Sysctls {
		failed = set(proc, to.Sysctls[i].Path, to.Sysctls[i].Value) != nil || failed
	}
	return failed
}

// openPIDs opens what setPIDMax writes, before /proc/sys becomes read-only.
func (b *Builder) openPIDs() error {
	if b.bounds.PIDMax == 0 {
		return nil
	}
	for i, name := range []string{"ns_last_pid", "pid_max"} {
		path := "sys/kernel/" + name
		fd, err := unix.Openat(b.masker.proc, path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT && !b.refuse.NoPIDMax { // a kernel without CONFIG_CHECKPOINT_RESTORE
			b.fell.NoPIDMax = true
			return nil
		}
		if err != nil {
			return fault.Of("open", "/proc/"+path, err)
		}
		b.PIDs[i] = fd
	}
	return nil
}
