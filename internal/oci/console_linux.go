package oci

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// newConsole makes a terminal, whose master it sends to who listens at a socket. What is typed there comes out of the slave as it is: inside is another, which knows lines.
func newConsole(socket string) (slave *os.File, err error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer master.Close()
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, fmt.Errorf("TIOCSPTLCK: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, fmt.Errorf("TIOCGPTN: %w", err)
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, fmt.Errorf("TIOCGPTPEER: %w", errno)
	}
	name := "/dev/pts/" + strconv.Itoa(n)
	slave = os.NewFile(peer, name)
	if _, err = term.MakeRaw(int(peer)); err == nil {
		err = sendMaster(socket, name, fd)
	}
	if err != nil {
		_ = slave.Close()
		return nil, err
	}
	return slave, nil
}

func sendMaster(socket, name string, fd int) error {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return fmt.Errorf("--console-socket: %w", err)
	}
	defer c.Close()
	_, _, err = c.WriteMsgUnix([]byte(name), unix.UnixRights(fd), nil)
	return err
}

// control makes a terminal that of this process, which leads a session, so that it hears of its size and its end.
func control(tty *os.File) error {
	return unix.IoctlSetInt(int(tty.Fd()), unix.TIOCSCTTY, 0)
}

func sizeOf(tty *os.File) (rows, cols uint16) {
	if w, err := unix.IoctlGetWinsize(int(tty.Fd()), unix.TIOCGWINSZ); err == nil {
		rows, cols = w.Row, w.Col
	}
	if rows == 0 || cols == 0 {
		return 24, 80
	}
	return rows, cols
}
