package target

import (
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/child/internal/fault"
)

// terminal makes a pty in the own devpts for a target. The first one is the controlling terminal
// of our session, and the target gets a process group of its own in it, so that stopping the
// target can be seen, as a shell sees it. A later one is that of a session that the target leads.
func (s *Starter) terminal(t *Target) error {
	if t.TTY == [3]bool{} {
		return nil
	}
	multiplexer := "/dev/pts/ptmx" // of the own devpts
	if !s.Box.Has(unix.CLONE_NEWNS) {
		multiplexer = "/dev/ptmx"
	}
	master, err := unix.Open(multiplexer, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fault.Of("open", "/dev/pts/ptmx", err)
	}
	t.pty = master
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return fault.Of("ioctl TIOCSPTLCK", "/dev/pts/ptmx", err)
	}
	// By descriptor: no name is looked up for the other end.
	slave, err := peer(master)
	if err != nil {
		return err
	}
	t.tty = slave
	if t.Rows != 0 {
		size := unix.Winsize{Row: t.Rows, Col: t.Cols}
		if err := unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &size); err != nil {
			return fault.Of("ioctl TIOCSWINSZ", "/dev/pts/ptmx", err)
		}
	}
	if err := setModes(slave, t.Modes); err != nil {
		return fault.Of("ioctl TCSETS", "/dev/pts/0", err)
	}
	if t.leads = s.hasTTY; !t.leads {
		if err := unix.IoctlSetInt(slave, unix.TIOCSCTTY, 0); err != nil {
			return fault.Of("ioctl TIOCSCTTY", "/dev/pts/0", err)
		}
		s.hasTTY = true
	}
	for fd, tty := range t.TTY {
		if tty {
			t.stdio[fd] = slave
		}
	}
	return nil
}

// setModes comes before there is a target, which may set its own.
func setModes(tty int, modes []uint32) error {
	if len(modes) == 0 {
		return nil
	}
	t, err := unix.IoctlGetTermios(tty, unix.TCGETS)
	if err != nil {
		return err
	}
	for i, flags := range []*uint32{&t.Iflag, &t.Oflag, &t.Cflag, &t.Lflag} {
		*flags = modes[i]
	}
	for i, char := range modes[4:] {
		t.Cc[i] = uint8(char)
	}
	return unix.IoctlSetTermios(tty, unix.TCSETS, t)
}

// peer opens the other end of a pty.
func peer(master int) (int, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		return -1, fault.Of("ioctl TIOCGPTPEER", "/dev/pts/ptmx", errno)
	}
	return int(fd), nil
}
