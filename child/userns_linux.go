package child

import "golang.org/x/sys/unix"

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
