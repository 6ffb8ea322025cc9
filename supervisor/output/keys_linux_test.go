package output

import (
	"bufio"
	"os"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

func ptyPair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	m, s, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	keep(t, m, s)
	return m, s
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	read := make(chan string, 1)
	go func() {
		s, _ := r.ReadString('\n')
		read <- s
	}()
	return within(t, read, "a line")
}

func setModes(t *testing.T, f *os.File, clear, set uint32) {
	t.Helper()
	tio, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	tio.Lflag = tio.Lflag&^clear | set
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, tio); err != nil {
		t.Fatal(err)
	}
}

// What the target doesn't read of a terminal is there for the next program, but for a line.
func TestStdinTerminalIsReadOneLineAhead(t *testing.T) {
	m, s := ptyPair(t)
	p, target := stdin(t, int(s.Fd()))
	m.WriteString("one\ntwo\nthree\n")
	r := bufio.NewReader(target)
	if got := line(t, r); got != "one\n" {
		t.Errorf("%q", got)
	}
	if err := within(t, pollIn(target), "the second line"); err != nil { // relayed by now: no third
		t.Fatal(err)
	}
	ended(t, p)
	if got := line(t, r); got != "two\n" {
		t.Errorf("%q", got)
	}
	if got := line(t, bufio.NewReader(s)); got != "three\n" {
		t.Errorf("the next program reads %q", got)
	}
}

// pollIn waits until there is something to read, and reads nothing.
func pollIn(f *os.File) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		done <- err
	}()
	return done
}

// Who reads keys or a password has changed the modes of the terminal, and gets them.
func TestStdinTerminalIsLeftToWhoHasChangedItsModes(t *testing.T) {
	for name, modes := range map[string]uint32{"keys": unix.ICANON | unix.ECHO, "a password": unix.ECHO} {
		t.Run(name, func(t *testing.T) {
			m, s := ptyPair(t)
			p, target := stdin(t, int(s.Fd()))
			defer ended(t, p)
			setModes(t, s, modes, 0)
			m.WriteString("theirs\n")
			if got := line(t, bufio.NewReader(s)); got != "theirs\n" {
				t.Errorf("they read %q", got)
			}
			setModes(t, s, 0, modes)
			m.WriteString("the target's\n")
			if got := line(t, bufio.NewReader(target)); got != "the target's\n" {
				t.Errorf("the target reads %q", got)
			}
		})
	}
}

// The end of a file is a character on a terminal, and comes after all that was there.
func TestEndOfFileReachesThePty(t *testing.T) {
	for _, text := range []string{"", "a line\n", "no end of a line"} {
		caller, write := osPipe(t)
		write.WriteString(text)
		write.Close()
		master, slave := ptyPair(t)
		src, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Fatal(err)
		}
		p := pump(t)
		if err := p.Keyboard(int(caller.Fd()), src, nil); err != nil {
			t.Fatal(err)
		}
		p.Start()
		if got := string(within(t, collect(slave), "end of file")); got != text {
			t.Errorf("%q, want %q", got, text)
		}
		unix.Close(src)
		ended(t, p)
	}
}
