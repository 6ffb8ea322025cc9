package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// In a pipeline the terminal is somebody else's: the modes that less sets are its own, and
// nobody changes how lines end.
func TestPipelinesHaveTheTerminalToThemselves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, line, wait, keys, sees string }{
		{"cat", "confine -- seq 5 | cat", "", "", "1\r\n2\r\n3\r\n4\r\n5\r\n"},
		{"cat and errors", "confine -- sh -c 'seq 3; seq 4 6 >&2' 2>&1 | cat", "", "", "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n"},
		{"a pty of its own all the same", "confine --tty always -- sh -c 'test -t 0; seq $((3 - $?))' | tr -d '\\r'", "", "", "1\r\n2\r\n3\r\n"},
		{"head", "confine -- yes | head -2", "", "", "y\r\ny\r\n"},
		{"tee", "confine -- seq 3 | tee log", "", "", "1\r\n2\r\n3\r\n"},
		{"while read", "confine -- seq 2 | while read x; do echo got $x; done", "", "", "got 1\r\ngot 2\r\n"},
		{"less", "confine -- seq 90000 | less", "\r\n31", "Gq", "\r\n90000"},
		{"less that leaves first", "confine -- yes | less", "y\r\ny", "q", ""},
		{"less after it", "confine -- seq 90 | less", "\r\n31", "Gq", "\r\n90"},
		{"typed lines", "confine -- cat | tr a-z A-Z", "", "typed\n\x04", "TYPED\r\n"},
		{"typed lines for a pty", "confine --tty always -- cat | tr a-z A-Z", "", "typed\n\x04", "TYPED"},
		{"a password for somebody else", "confine -- cat | sh -c '(stty -echo; echo pass''word:; read x; stty echo; echo it is $x) </dev/tty; cat'",
			"password:", "secret\n\x04", "it is secret\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(c.line, "less") {
				needs(t, "program:less")
			}
			for range 5 { // who comes first is chance
				s := onTerminal(t, "sh", "-c", left(c.line))
				s.see(c.wait)
				s.keys(c.keys)
				s.see("left as it was")
				s.ended()
				if !strings.Contains(s.shown(), c.sees) {
					t.Fatalf("no %q:\n%q", c.sees, s.shown())
				}
			}
		})
	}
}

// asks sets the modes that getpass(3) does.
const asks = "stty -echo </dev/tty; echo pass''word:; read x </dev/tty; stty echo </dev/tty; "

// What stands at the end of a pipeline reads keys and passwords from its terminal, and what
// stands before it reads lines, as without confine.
func TestEndOfAPipelineReadsItsTerminal(t *testing.T) {
	t.Parallel()
	type step struct{ wait, keys string }
	for _, c := range []struct {
		name, line string
		steps      []step
		sees       string
	}{
		{"less", "seq 90000 | confine -- less", []step{{"\r\n31", " "}, {"\r\n62", "Gq"}}, "\r\n90000"},
		{"less of a file", "seq 90 >f; echo f | xargs confine -- less", []step{{"\r\n31", "Gq"}}, "\r\n90"},
		{"less without standard input", "seq 90 >f; confine -- less f </dev/null", []step{{"\r\n31", "Gq"}}, "\r\n90"},
		{"a password", "echo x | confine -- sh -c '" + asks + "echo it is $x'", []step{{"password:", "secret\r"}}, "it is secret"},
		{"two passwords", "echo x | confine -- sh -c '" + asks + "echo it is $x; " + strings.Replace(asks, "pass''word", "ag''ain", 1) + "echo then $x'",
			[]step{{"password:", "secret\r"}, {"again:", "other\r"}}, "then other"},
		{"lines for what stands before", "(read x; echo got $x) | confine -- cat", []step{{"", "typed\n"}}, "got typed"},
		{"a password for what stands before", "(" + strings.ReplaceAll(asks, "echo pass''word:", "echo pass''word: >/dev/tty") + "echo it is $x) | confine -- cat",
			[]step{{"password:", "secret\n"}}, "it is secret"},
		{"lines for what stands before, after a password", "mkfifo f; (read go; echo hello >/dev/tty; read x </dev/tty; echo got $x) <f | confine -- sh -c '" +
			asks + "echo go >&2; cat' 2>f", []step{{"password:", "secret\r"}, {"hello", "typed\r"}}, "got typed"},
		{"a password for what stands before, with the keys asked for as well", "(stty -echo </dev/tty; echo; read x </dev/tty; stty echo </dev/tty; echo it is $x) | " +
			"confine -- sh -c 'read go; stty -icanon -echo </dev/tty; echo pass''word:; cat; stty icanon echo </dev/tty'",
			[]step{{"password:", "secret\n"}}, "it is secret"},
		{"Ctrl-C at a password", "trap : INT; echo x | confine -- sh -c 'trap \"stty echo </dev/tty; exit 130\" INT; " + asks + "'; echo rc $?", []step{{"password:", "se\x03"}}, "rc 130"},
	} {
		for _, with := range []string{"confine -- ", ""} { // the control
			t.Run(c.name+", "+strings.TrimSuffix("with "+with, "with "), func(t *testing.T) {
				t.Parallel()
				if strings.Contains(c.line, "less") {
					needs(t, "program:less")
				}
				s := onTerminal(t, "sh", "-c", left(strings.ReplaceAll(c.line, "confine -- ", with)))
				for _, step := range c.steps {
					s.see(step.wait)
					s.keys(step.keys)
				}
				s.see("left as it was")
				s.ended()
				if !strings.Contains(s.shown(), c.sees) || strings.Count(s.shown(), "secret") > 1 {
					t.Fatalf("no %q, or a password:\n%q", c.sees, s.shown())
				}
			})
		}
	}
}

func TestTerminalIsGivenBackWhateverSignalComes(t *testing.T) {
	t.Parallel()
	passed := map[unix.Signal]bool{ // not to be ended by
		unix.SIGKILL: true, unix.SIGSTOP: true, unix.SIGCHLD: true, unix.SIGCONT: true, unix.SIGURG: true, unix.SIGWINCH: true,
		unix.SIGTSTP: true, unix.SIGTTIN: true, unix.SIGTTOU: true,
	}
	for n := unix.Signal(1); n <= 64; n++ {
		if passed[n] || n >= 32 && n < 64 {
			continue
		}
		for _, end := range []string{"", " </dev/null"} { // with the keys from the start, and with those that it asks for
			t.Run(strconv.Itoa(int(n))+end, func(t *testing.T) {
				t.Parallel()
				s := onTerminal(t, "sh", "-c", left("trap : INT QUIT; confine --grace 100ms -- "+
					"sh -c 'stty -icanon -echo </dev/tty; trap : USR1 USR2 ALRM; echo rea''dy; while :; do sleep 1; done'"+end))
				s.see("ready")
				if raw := s.modes(); raw.Lflag&(unix.ICANON|unix.ECHO) != 0 { // a new terminal has both
					t.Fatalf("nothing to give back: %+v", raw)
				}
				pid := childOf(t, s.cmd.Process.Pid, "confine")
				_ = unix.Kill(pid, n)
				_ = unix.Kill(pid, unix.SIGTERM) // not everything ends it; it may be gone
				s.see("left as it was")
				s.ended()
			})
		}
	}
}

// same has the shell compare the modes of the terminal with those in the file before.
func (s *screen) same(said string) {
	s.t.Helper()
	half := len(said) / 2
	s.command("stty -a >after; cmp before after && echo "+said[:half]+"''"+said[half:], said)
}

// Ctrl-Z gives the terminal back, and fg takes it again, also of a pipeline, which stops as one job.
func TestSuspendKeyStopsAndForegroundGoesOn(t *testing.T) {
	t.Parallel()
	for _, pipe := range []string{"", " | cat"} {
		t.Run(pipe, func(t *testing.T) {
			t.Parallel()
			s := inShell(t)
			s.keys("confine -- sh -c 'echo rea''dy; read x; echo got $x'" + pipe + "\n")
			s.see("ready")
			s.suspend()
			s.command("echo out''side", "outside")
			s.keys("fg\n")
			s.command("word", "got word")
			s.leave()
		})
	}
}

func TestSuspendKeyStopsTheEndOfAPipeline(t *testing.T) {
	t.Parallel()
	needs(t, "program:less")
	for _, with := range []string{"confine -- ", ""} {
		t.Run(with, func(t *testing.T) {
			t.Parallel()
			s := inShell(t)
			s.keys("stty -a >before; seq 90 | " + with + "less\n")
			s.see(":\x1b[K")
			asleep(t, s.cmd.Process.Pid, "less") // a signal that comes just before it reads, less forgets
			s.suspend()
			s.same("same")
			s.keys("fg\n")
			s.seeTimes("\r\n31", 2)
			s.keys("G")
			s.see("\r\n90")
			s.keys("q")
			s.atPrompt()
			s.same("still same")
			s.leave()
		})
	}
}

// A program that is stopped by what isn't a key leaves the terminal as it was, too, and has it again later.
func TestTerminalIsGivenBackWhenConfineIsStopped(t *testing.T) {
	t.Parallel()
	s := inShell(t)
	s.keys("stty -a >before; confine -- sh -c 'echo rea''dy; read x; echo got $x'\n")
	s.see("ready")
	must.Do(t, unix.Kill(childOf(t, s.cmd.Process.Pid, "confine"), unix.SIGTSTP))
	s.see("Stopped")
	s.atPrompt()
	s.same("same")
	s.command("bg", "")
	s.same("still same")
	s.keys("fg\n")
	s.command("word", "got word")
	s.leave()
}

func TestSuspendKeyStopsWhatIsInside(t *testing.T) {
	t.Parallel()
	for _, tty := range []string{"auto", "never"} {
		for _, pipe := range []string{"", " | cat"} {
			t.Run(tty+pipe, func(t *testing.T) {
				t.Parallel()
				s := inShell(t)
				s.keys("confine --tty " + tty + " -- sh -c 'echo rea''dy; while :; do :; done'" + pipe + "\n")
				s.see("ready")
				pid := childOf(t, s.cmd.Process.Pid, "confine")
				s.suspend()
				stopped(t, pid)
				s.keys("fg\n")
				if !must.Within(20*time.Second, func() bool { now := states(pid); return len(now) > 0 && !strings.HasSuffix(now[0], " T") }) {
					t.Fatal("it stays stopped")
				}
				s.keys("\x03")
				s.atPrompt()
				s.leave()
			})
		}
	}
}

// Whoever comes after it in a pipeline draws on the terminal.
func TestStatusLineIsForATerminalOfItsOwn(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "sh", "-c", "confine -- cat; echo the con''trol; confine -- sleep 4 | cat; echo do''ne")
	s.see("2 s of 30 s")
	s.keys("\x04")
	s.see("the control")
	s.see("done")
	s.ended()
	if _, after, _ := strings.Cut(s.shown(), "the control"); strings.Contains(after, "[confine]") {
		t.Errorf("%q", after)
	}
}

func TestInterruptKeyEndsTheLoopAroundIt(t *testing.T) {
	t.Parallel()
	const sleeps = `sh -c "echo ready; exec sleep 30"`
	const keys = `sh -c "stty -echo </dev/tty; echo ready; exec sleep 30"`
	for _, shell := range []string{"bash", "dash"} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("no %s", shell)
			continue
		}
		for _, c := range []struct {
			name, line, key string
			signal          syscall.Signal
		}{
			{"loop", "for i in 1 2 3; do confine -- " + sleeps + "; echo after; done", "\x03", unix.SIGINT},
			{"script", "confine --report r.json -- " + sleeps + "; echo after", "\x03", unix.SIGINT},
			{"quit", "confine --report r.json -- " + sleeps + "; echo after", "\x1c", unix.SIGQUIT},
			{"other exit codes", "confine --exit-codes gnu --report r.json -- " + sleeps + "; echo after", "\x03", unix.SIGINT},
			{"in a pipeline", "for i in 1 2 3; do confine -- " + sleeps + " | cat; echo after; done", "\x03", unix.SIGINT},
			{"at the end of a pipeline", "for i in 1 2 3; do true | confine -- " + keys + "; echo after; done", "\x03", unix.SIGINT},
			{"without a pty", "confine --tty never --report r.json -- " + sleeps + "; echo after", "\x03", unix.SIGINT},
			{"without confine", sleeps + "; echo after", "\x03", unix.SIGINT}, // the control
		} {
			t.Run(shell+", "+c.name, func(t *testing.T) {
				t.Parallel()
				s := onTerminal(t, shell, "-c", c.line+"\ntrue")
				s.see("ready")
				s.keys(c.key)
				if c.signal == unix.SIGQUIT {
					s.ended() // a shell that waits ignores SIGQUIT or not, as it likes
				} else if got := s.signalled(); got != c.signal || strings.Contains(s.shown(), "after") {
					t.Errorf("the shell was ended by %v, want %v:\n%s", got, c.signal, s.shown())
				}
				if strings.Contains(c.line, "r.json") {
					b, err := os.ReadFile(filepath.Join(s.cmd.Dir, "r.json"))
					want := fmt.Sprintf(`"status":"KILLED_SIGNAL","rc":%d,`, 128+int(c.signal))
					if err != nil || !strings.Contains(string(b), want) || !strings.Contains(string(b), `"cause":"caller_signal"`) {
						t.Errorf("%v, %.300s", err, b)
					}
				}
			})
		}
	}
}

// A program that handles Ctrl-C and exits has decided for itself: bash goes on.
func TestInterruptKeyThatIsHandledEndsNoLoop(t *testing.T) {
	t.Parallel()
	needs(t, "program:bash")
	for _, pipe := range []string{"", " | cat"} {
		for _, rc := range []string{"0", "130"} {
			t.Run(rc+pipe, func(t *testing.T) {
				t.Parallel()
				handles := `confine -- sh -c 'trap "exit ` + rc + `" INT; echo ready; while :; do sleep 0.1; done'` + pipe
				s := onTerminal(t, "bash", "-c", "set -o pipefail; trap '' TERM; "+strings.Replace(handles, "| cat", "| (trap '' INT; cat)", 1)+"; echo rc $?; true")
				s.see("ready")
				s.keys("\x03")
				s.see("rc " + rc)
				if got := s.ended(); got != 0 {
					t.Errorf("exit code %d:\n%s", got, s.shown())
				}
			})
		}
	}
}

// Who sent the signal doesn't matter; but one that was ignored stays so.
func TestConfineDiesOfTheSignalThatItPassedOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		around []string
		send   []unix.Signal
		want   unix.Signal
	}{
		{"SIGINT", nil, []unix.Signal{unix.SIGINT}, unix.SIGINT},
		{"SIGQUIT", nil, []unix.Signal{unix.SIGQUIT}, unix.SIGQUIT},
		{"SIGTERM: an exit code", nil, []unix.Signal{unix.SIGTERM}, 0},
		{"nohup", []string{"nohup"}, []unix.Signal{unix.SIGHUP, unix.SIGINT}, unix.SIGINT},
		{"an ignored SIGINT", []string{"sh", "-c", `trap "" INT; exec "$@"`, "sh"}, []unix.Signal{unix.SIGINT, unix.SIGTERM}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			argv := append(c.around, filepath.Join(scene.programs, "confine"), "--", "sh", "-c", "echo ready; exec sleep 30")
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(scene.dir, "nobody"), "GOCOVERDIR=" + os.Getenv("GOCOVERDIR")}
			out, err := cmd.StdoutPipe()
			must.Do(t, err)
			must.Do(t, cmd.Start())
			if _, err := out.Read(make([]byte, 6)); err != nil {
				t.Fatal(err)
			}
			for _, n := range c.send {
				must.Do(t, unix.Kill(cmd.Process.Pid, n))
			}
			_ = cmd.Wait()
			ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if c.want == 0 && ws.ExitStatus() != 143 || c.want != 0 && (!ws.Signaled() || ws.Signal() != c.want) {
				t.Errorf("%v, want %v", cmd.ProcessState, c.want)
			}
		})
	}
}
