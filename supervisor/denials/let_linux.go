package denials

import (
	"os"

	"golang.org/x/sys/unix"
)

// let has the kernel make a call that the policy allows, and keeps that it was made. The
// policy has decided by registers alone, which nobody changes meanwhile.
func (l *Listener) let(fd int, n *notification, d *Denial) error {
	if l.passed.isNew(&d.Answer) {
		if p, err := look(int(n.pid)); err == nil && waits(fd, n.id) {
			d.By = p.Process
		}
	}
	switch errno := respond(fd, &response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}); errno {
	case 0:
		l.passed.add(*d)
	case unix.ENOENT: // it was killed, or a signal came, and it will be back
	default:
		return os.NewSyscallError("ioctl SECCOMP_IOCTL_NOTIF_SEND", errno)
	}
	return nil
}

// Passed is what was let through and told, in the order of the first of each kind, and how
// many more there were.
func (l *Listener) Passed() (all []Denial, others int64) {
	if l == nil {
		return nil, 0
	}
	l.passed.mu.Lock()
	defer l.passed.mu.Unlock()
	return l.passed.list, l.passed.others
}
