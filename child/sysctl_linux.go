package child

import (
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/handoff"
)

// noUserNamespaces makes nested user namespaces impossible, whatever the filter
// of system calls lets through: in one of its own the target would have every
// capability again, and with them the parts of the kernel that only root reaches
// otherwise. The number is this user namespace's, and bounds all those below it.
//
// It has to come while /proc/sys can still be written.
func (s *state) noUserNamespaces(proc int) error {
	if !s.has(unix.CLONE_NEWUSER) {
		return nil // the number would be the host's, which grants none anyway
	}
	const path = "sys/user/max_user_namespaces"
	fd, err := unix.Openat(proc, path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault("open", "/proc/"+path, err)
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("0"))
	return fault("write", "/proc/"+path, err)
}

// openIPC opens what shows all that System V IPC holds, which no process needs to have. A
// kernel without it has nothing to show.
func (s *state) openIPC(proc int) error {
	if !s.box.ShowIPC {
		return nil
	}
	for _, name := range handoff.IPCTables {
		fd, err := unix.Openat(proc, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT {
			return nil
		}
		if err != nil {
			return fault("open", "/proc/"+name, err)
		}
		s.ipc = append(s.ipc, fd)
	}
	return nil
}

// sysctls bounds what the run's own namespaces may have of tables of the kernel.
func (s *state) sysctls(proc int) {
	for i := range s.box.Sysctls {
		c := &s.box.Sysctls[i]
		fd, err := unix.Openat(proc, "sys/"+c.Path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte(c.Value))
			_ = unix.Close(fd)
		}
		s.fellBack.NoSysctls = s.fellBack.NoSysctls || err != nil
	}
}
