package child

import (
	"golang.org/x/sys/unix"
)

// terminal makes a pty in the own devpts, puts it where the plan says, and
// takes it as controlling terminal: we lead the session, and the target gets a
// process group of its own in it, so that stopping the target can be seen, as a
// shell sees it.
func (s *state) terminal() error {
	if s.plan.TTY == [3]bool{} {
		return nil
	}
	multiplexer := "/dev/pts/ptmx" // of the own devpts
	if !s.has(unix.CLONE_NEWNS) {
		multiplexer = "/dev/ptmx"
	}
	master, err := unix.Open(multiplexer, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault("open", "/dev/pts/ptmx", err)
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return fault("ioctl TIOCSPTLCK", "/dev/pts/ptmx", err)
	}
	// By descriptor: no name is looked up for the other end.
	slave, err := peer(master)
	if err != nil {
		return err
	}
	if s.plan.Rows != 0 {
		size := unix.Winsize{Row: s.plan.Rows, Col: s.plan.Cols}
		if err := unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &size); err != nil {
			return fault("ioctl TIOCSWINSZ", "/dev/pts/ptmx", err)
		}
	}
	if err := unix.IoctlSetInt(slave, unix.TIOCSCTTY, 0); err != nil {
		return fault("ioctl TIOCSCTTY", "/dev/pts/0", err)
	}
	for fd, tty := range s.plan.TTY {
		if !tty {
			continue
		}
		if err := unix.Dup3(slave, fd, 0); err != nil {
			return fault("dup3", "/dev/pts/0", err)
		}
	}
	s.ptyFD, s.ttyFD = master, slave
	return nil
}

// peer opens the other end of a pty.
func peer(master int) (int, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		return -1, fault("ioctl TIOCGPTPEER", "/dev/pts/ptmx", errno)
	}
	return int(fd), nil
}

// chdir goes where the target starts.
func (s *state) chdir() error {
	return fault("chdir", s.plan.Dir, unix.Chdir(s.plan.Dir))
}
