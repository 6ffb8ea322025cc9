package integration

import (
	"testing"

	"github.com/creack/pty"

	"github.com/confine-run/confine/internal/must"
)

func TestTargetOnATerminalHasAPseudoTerminal(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "confine", "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo all three; stty size; tty")
	if rc := s.ended(); rc != 0 {
		t.Errorf("exit code %d", rc)
	}
	s.see("all three")
	s.see("33 77")
	s.see("/dev/pts/")
}

func TestTTYNeverGivesNoTerminal(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "confine", "--tty", "never", "--", "sh", "-c", "test -t 1 || echo none; (exec 3</dev/tty) 2>/dev/null || echo no controlling one")
	s.ended()
	s.see("none")
	s.see("no controlling one")
}

func TestStreamsThatAreNoTerminalStayWhatTheyAre(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "sh", "-c", `confine -- sh -c 'test -t 1 || echo pipe; test -t 2 && echo terminal >&2' | cat`)
	s.see("pipe")
	s.see("terminal")
	s.ended()
}

func TestInterruptKeyEndsTheTarget(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "confine", "--", "sh", "-c", "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done")
	s.see("ready")
	s.keys("\x03")
	if rc := s.ended(); rc != 9 {
		t.Errorf("exit code %d, want 9:\n%s", rc, s.shown())
	}
	s.see("caught")
}

func TestWindowSizeIsPassedOn(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "confine", "--", "sh", "-c", "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.1; done")
	s.see("ready")
	must.Do(t, pty.Setsize(s.ptm, &pty.Winsize{Rows: 44, Cols: 88}))
	s.see("44 88")
	s.ended()
}

func TestTerminalIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "sh", "-c", "stty -a >before; confine -- sh -c 'stty raw -echo; exit 3'; echo rc $?; stty -a >after; cmp before after && echo same")
	s.see("rc 3")
	s.see("same")
	s.ended()
}

// What is pushed into a terminal's input would be read by the caller's shell.
func TestNothingCanBeTypedIntoTheTerminal(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "sh", "-c", "confine --allow-read "+scene.programs+" -- attempt call tiocsti; echo rc $?")
	s.see("rc 3")
	s.ended()
}

func TestTargetCantStopItsOwnSupervisor(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "confine", "-t", "1s", "--grace", "200ms", "--", "sh", "-c", "kill -STOP $$")
	if rc := s.ended(); rc != 124 {
		t.Errorf("exit code %d, want 124:\n%s", rc, s.shown())
	}
}
