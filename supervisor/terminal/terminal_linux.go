package terminal

import (
	"os"
	"os/signal"
	"runtime"
	"sync"
	"time"

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

// Attach begins: the target's pty gets the caller's settings (which key erases,
// whether it is UTF-8) and size, the size also whenever that changes, and the caller's
// terminal becomes raw.
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
	if settings, err := unix.IoctlGetTermios(t.fd, unix.TCGETS); err == nil {
		_ = unix.IoctlSetTermios(own, unix.TCSETS, settings)
	}
	resized := make(chan os.Signal, 1)
	t.resized = resized
	signal.Notify(resized, unix.SIGWINCH)
	go func() {
		for range resized {
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
	if t.raw || !t.keyboard || !foreground(t.fd) {
		return
	}
	saved, err := unix.IoctlGetTermios(t.fd, unix.TCGETS)
	if err != nil {
		return
	}
	t.saved = *saved
	raw := makeRaw(*saved)
	// TCSETS: keys typed ahead are kept, and output that Ctrl-S holds isn't waited for.
	t.raw = unix.IoctlSetTermios(t.fd, unix.TCSETS, &raw) == nil
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

// Interactive says whether somebody is there: keys come from it, and it is ours.
func (t *Terminal) Interactive() bool {
	return t != nil && t.keyboard && foreground(t.fd)
}

// unstoppable is how long a stop may take to happen. In a process group that no
// shell controls the kernel drops SIGTSTP.
const unstoppable = 200 * time.Millisecond

// Suspend gives the terminal back and stops confine, together with the rest of
// its job, as Ctrl-Z would stop it. It returns when the shell goes on with it. A
// job that no shell controls isn't stopped: the kernel ignores it, and so do we.
// SIGTSTP has its default action afterwards.
func (t *Terminal) Suspend() {
	t.giveBack()
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, unix.SIGCONT)
	defer signal.Stop(resumed)
	signal.Reset(unix.SIGTSTP)
	_ = unix.Kill(0, unix.SIGTSTP)
	// The signal may reach another thread first; this one must not go on, and take
	// the terminal again, in the moment before everything stops.
	limit := time.NewTimer(unstoppable)
	defer limit.Stop()
	select {
	case <-resumed:
	case <-limit.C:
	}
	t.Foreground()
}

// giveBack restores the settings that the terminal had. In the background it
// leaves them alone: whoever has the terminal now has set them.
func (t *Terminal) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.raw && foreground(t.fd) {
		withoutStopping(func() { _ = unix.IoctlSetTermios(t.fd, unix.TCSETS, &t.saved) })
	}
	t.raw = false
}

// withoutStopping blocks SIGTTOU: a process on its way out must not be stopped
// for touching a terminal that it has lost since it looked.
func withoutStopping(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set, old unix.Sigset_t
	set.Val[0] = 1 << (unix.SIGTTOU - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old) == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }()
	}
	do()
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
