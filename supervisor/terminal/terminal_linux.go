package terminal

import (
	"bytes"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/linux"
)

// Terminal is the caller's, while the target has a pty.
type Terminal struct {
	fd       int  // of the caller's terminal
	keyboard bool // keys come from it, and what the target prints goes to it
	follows  bool // only what the target prints goes to it: it is ours while the target reads keys from its pty
	signals  chan os.Signal

	mu      sync.Mutex
	master  int  // of the target's pty; -1: not yet, or not any more
	held    bool // it is not to be taken: about to stop, or to die
	raw     bool
	saved   unix.Termios // while raw
	pressed uint64       // bits of the signals whose key was pressed while raw
}

// Open finds the caller's terminal among the three streams. It changes nothing
// yet. Without one, as with --tty always in a pipeline, it does nothing later
// either. Its modes are never changed unless it is standard output: else somebody later in
// the pipeline may be reading the keys (less), or rely on how lines are ended.
func Open(stdin, stdout, stderr int) *Terminal {
	t := &Terminal{fd: -1, master: -1, keyboard: Relayed(stdin, stdout), follows: Followed(stdin, stdout)}
	for _, fd := range []int{stdin, stdout, stderr} {
		if linux.IsTerminal(fd) {
			t.fd = fd
			break
		}
	}
	return t
}

// Relayed says whether keys are passed on to the pty of a target unread: where the
// caller's standard input and standard output are both a terminal.
func Relayed(stdin, stdout int) bool { return linux.IsTerminal(stdin) && linux.IsTerminal(stdout) }

// Followed says whether keys are passed on only while the modes of the target's pty ask for
// it: at the end of a pipeline that shows on the terminal. See [Terminal.Wanted].
func Followed(stdin, stdout int) bool { return !linux.IsTerminal(stdin) && linux.IsTerminal(stdout) }

// Modes are what a pty of the target begins with: the caller's settings (which key erases,
// whether it is UTF-8), in the order of the plan for the child. What sudo, before us in a pipeline, has set
// for a password isn't among them.
func (t *Terminal) Modes() []uint32 {
	if t == nil || t.fd < 0 || !linux.InForeground(t.fd) { // in the background they are whoever's is in front
		return nil
	}
	settings, err := unix.IoctlGetTermios(t.fd, unix.TCGETS)
	if err != nil {
		return nil
	}
	if t.follows {
		settings.Lflag |= unix.ICANON | unix.ECHO
	}
	modes := []uint32{settings.Iflag, settings.Oflag, settings.Cflag, settings.Lflag}
	for _, char := range settings.Cc {
		modes = append(modes, uint32(char))
	}
	return modes
}

// Attach begins: the target's pty gets the caller's size, also whenever that changes, and
// the caller's terminal becomes raw, or follows the modes of the pty.
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
	signals := make(chan os.Signal, 8)
	t.signals = signals
	signal.Notify(signals, unix.SIGWINCH)
	if t.keyboard || t.follows {
		signal.Notify(signals, append(deadly[:], unix.SIGCONT)...)
	}
	go func() {
		for s := range signals {
			switch s {
			case unix.SIGWINCH:
				t.resize()
			case unix.SIGCONT:
				t.continued()
			default:
				t.giveBack()
				signal.Reset(s)
				_ = unix.Kill(os.Getpid(), s.(syscall.Signal)) // what it does to a Go program
			}
		}
	}()
	t.Foreground()
	return nil
}

// deadly are the signals that end a Go program although nobody asks it to end.
var deadly = [...]os.Signal{
	unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS,
}

// continued: a shell that brings back a job which SIGSTOP stopped may have set the
// terminal's modes meanwhile. Those are then what it gets back.
func (t *Terminal) continued() {
	t.mu.Lock()
	if now, err := unix.IoctlGetTermios(t.fd, unix.TCGETS); err == nil && now.Lflag&unix.ICANON != 0 {
		t.raw = false
	}
	t.mu.Unlock()
	t.Foreground()
}

// Foreground takes the terminal when it is ours to take: called at the start,
// and whenever the shell has brought confine back.
func (t *Terminal) Foreground() {
	t.resize()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.take()
}

// Wanted says whether keys are to be passed on. Where standard input isn't the terminal that
// is while a program inside has switched its pty from lines with echo to something else, to
// read keys (less, vim) or a password. The terminal is taken then, and given back when the
// modes inside are those of lines again.
func (t *Terminal) Wanted() bool {
	if !t.follows {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.readsLines() {
		t.restoreModes()
	} else {
		t.take()
	}
	return t.raw
}

// readsLines: nobody has switched the pty to anything else, or there is none.
func (t *Terminal) readsLines() bool {
	modes, err := unix.IoctlGetTermios(t.master, unix.TCGETS) // of the other end, as ever with ptys
	return err != nil || linux.LineMode(modes)
}

// controlling says whether the terminal is that of our session: another's keys are not ours.
func controlling(fd int) bool {
	_, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil
}

// take makes it raw, with mu held. At the end of a pipeline somebody before us may have
// changed its modes (sudo, for a password), and goes first.
func (t *Terminal) take() {
	if t.raw || t.held || !t.keyboard && !t.follows || !linux.InForeground(t.fd) {
		return
	}
	saved, err := unix.IoctlGetTermios(t.fd, unix.TCGETS)
	if err != nil || t.follows && (t.readsLines() || !linux.LineMode(saved) || !controlling(t.fd)) {
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

// Interactive says whether somebody is there: keys come from it, or can, and it is ours.
func (t *Terminal) Interactive() bool {
	return t != nil && (t.keyboard || t.follows) && linux.InForeground(t.fd)
}

// Typed notes what is passed on of the keys that send a signal on the caller's terminal,
// as the caller has set it: the target may set its own otherwise.
func (t *Terminal) Typed(keys []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.raw || t.saved.Lflag&unix.ISIG == 0 {
		return
	}
	for _, k := range []struct {
		char   int
		signal unix.Signal
	}{{unix.VINTR, unix.SIGINT}, {unix.VQUIT, unix.SIGQUIT}} {
		if c := t.saved.Cc[k.char]; c != 0 && bytes.IndexByte(keys, c) >= 0 { // 0: there is none
			t.pressed |= 1 << k.signal
		}
	}
}

// Pressed says whether the key of signal n was passed on.
func (t *Terminal) Pressed(n unix.Signal) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pressed&(1<<n) != 0
}

// unstoppable is how long a stop may take to happen. In a process group that no
// shell controls the kernel drops SIGTSTP.
const unstoppable = 200 * time.Millisecond

// Suspend gives the terminal back and stops confine, and with job the rest of its job,
// as Ctrl-Z would. It returns when the shell goes on with it. A job that no shell controls
// isn't stopped: the kernel ignores it, and so do we. Without a terminal (nil) it is the
// same but for that.
func (t *Terminal) Suspend(job bool) {
	if t != nil {
		t.giveBack()
	}
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, unix.SIGCONT)
	defer signal.Stop(resumed)
	restore := linux.DefaultAction(unix.SIGTSTP)
	whom := os.Getpid()
	if job {
		whom = 0
	}
	_ = unix.Kill(whom, unix.SIGTSTP)
	// The signal may reach another thread first; this one must not go on, and take
	// the terminal again, in the moment before everything stops.
	limit := time.NewTimer(unstoppable)
	defer limit.Stop()
	select {
	case <-resumed:
	case <-limit.C:
	}
	restore()
	if t != nil {
		t.mu.Lock()
		t.held = false
		t.mu.Unlock()
		t.Foreground()
	}
}

// giveBack restores the settings that the terminal had, and lets nobody take it until held
// is lifted: the thread that moves bytes goes on until everything stops.
func (t *Terminal) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = true
	t.restoreModes()
}

// restoreModes is done with mu held. In the background it leaves the settings alone:
// whoever has the terminal now has set them.
func (t *Terminal) restoreModes() {
	if t.raw && linux.InForeground(t.fd) {
		withoutStopping(func() { _ = unix.IoctlSetTermios(t.fd, unix.TCSETS, &t.saved) })
	}
	t.raw = false
}

// withoutStopping blocks SIGTTOU: a process on its way out must not be stopped
// for touching a terminal that it has lost since it looked.
func withoutStopping(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old unix.Sigset_t
	set := linux.Sigset(unix.SIGTTOU)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old) == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }()
	}
	do()
}

// Restore ends it. It can be called more than once.
func (t *Terminal) Restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.restoreModes()
	if t.signals != nil {
		signal.Stop(t.signals)
		close(t.signals)
		t.signals = nil
	}
	if t.master >= 0 {
		_ = unix.Close(t.master)
		t.master = -1
	}
}
