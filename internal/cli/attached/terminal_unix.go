//go:build unix

package attached

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
)

// resized tells that the terminal has another size; stopping stops a job and asks for no end.
var resized, stopping = []os.Signal{unix.SIGWINCH}, []os.Signal{unix.SIGTSTP}

// sizeOf is the size of a terminal.
func sizeOf(fd int) (backend.WinSize, bool) {
	now, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil {
		return backend.WinSize{}, false
	}
	return backend.WinSize{Rows: now.Row, Cols: now.Col}, true
}

// Raw has the keys go to the terminal inside as they are pressed, until restore.
func Raw(fd, _ int) (restore func()) {
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return func() {}
	}
	mode := *before
	mode.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	mode.Oflag &^= unix.OPOST
	mode.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	mode.Cflag = mode.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, setTermios, &mode); err != nil {
		return func() {}
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, before) }
}

// OnTerminal says whether a command is worked with on a terminal.
func OnTerminal(stdin, stdout int) bool {
	_, in := sizeOf(stdin)
	_, out := sizeOf(stdout)
	return in && out
}
