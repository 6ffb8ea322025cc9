package terminal

import (
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// Terminal is the caller's, while the target has a pty.
type Terminal struct {
	fd       int  // of the caller's terminal
	keyboard bool // it is also where keys come from
	resized  chan os.Signal

	mu     sync.Mutex
	master int // of the target's pty; -1: not yet, or not any more
	raw    bool
	saved  unix.Termios // while raw
}

// Open finds the caller's terminal among the three streams. It changes nothing
// yet. Without one, as with --tty always in a pipeline, it does nothing later
// either.
func Open(stdin, stdout, stderr int) *Terminal {
	t := &Terminal{fd: -1, master: -1}
	for i, fd := range []int{stdin, stdout, stderr} {
		if IsTerminal(fd) {
			t.fd, t.keyboard = fd, i == 0
			break
		}
	}
	return t
}

// IsTerminal says whether fd is one.
func IsTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// Attach begins: the target's pty gets the caller's size, now and whenever that
// changes, and the caller's terminal becomes raw.
func (t *Terminal) Attach(master int) error {
	own, err := unix.FcntlInt(uintptr(master), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.master = own
	t.mu.Unlock()
	if t.fd < 0 {
		return nil
	}
	t.resized = make(chan os.Signal, 1)
	signal.Notify(t.resized, unix.SIGWINCH)
	go func() {
		for range t.resized {
			t.resize()
		}
	}()
	t.Foreground()
	return nil
}

// Foreground takes the terminal when it is ours to take: called at the start,
// and whenever the shell has brought confine back.
func (t *Terminal) Foreground() {
	t.resize()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.raw || !t.keyboard || !t.ours() {
		return
	}
	saved, err := unix.IoctlGetTermios(t.fd, unix.TCGETS)
	if err != nil {
		return
	}
	t.saved = *saved
	raw := makeRaw(*saved)
	t.raw = unix.IoctlSetTermios(t.fd, unix.TCSETS, &raw) == nil
}

// ours: we are in the terminal's foreground. Changing it from the background
// would stop us, or change the shell's own settings.
func (t *Terminal) ours() bool {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// makeRaw is cfmakeraw(3): nothing is interpreted on the way.
func makeRaw(t unix.Termios) unix.Termios {
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return t
}

func (t *Terminal) resize() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master < 0 || t.fd < 0 {
		return
	}
	if size, err := unix.IoctlGetWinsize(t.fd, unix.TIOCGWINSZ); err == nil {
		_ = unix.IoctlSetWinsize(t.master, unix.TIOCSWINSZ, size)
	}
}

// Suspend gives the terminal back and stops confine, together with the rest of
// its job, as Ctrl-Z would stop it. It returns when the shell goes on with it. A
// job that no shell controls isn't stopped: the kernel ignores it, and so do we.
func (t *Terminal) Suspend() {
	t.giveBack()
	_ = unix.Kill(0, unix.SIGTSTP)
	t.Foreground()
}

// giveBack restores the settings that the terminal had.
func (t *Terminal) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.raw {
		_ = unix.IoctlSetTermios(t.fd, unix.TCSETSW, &t.saved)
		t.raw = false
	}
}

// Restore ends it. It can be called more than once.
func (t *Terminal) Restore() {
	t.giveBack()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.resized != nil {
		signal.Stop(t.resized)
		close(t.resized)
		t.resized = nil
	}
	if t.master >= 0 {
		_ = unix.Close(t.master)
		t.master = -1
	}
}
