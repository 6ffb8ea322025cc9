package terminal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/supervisor/output"
)

// screen is a console whose clock and bytes the test holds.
type screen struct {
	*Console
	out  strings.Builder
	time time.Time
	cols int
}

func newScreen(isTerminal bool) *screen {
	s := &screen{time: time.Unix(0, 0), cols: 80}
	s.Console = newConsole(func(p []byte) { s.out.Write(p) })
	s.terminal = isTerminal
	s.now = func() time.Time { return s.time }
	s.columns = func() int { return s.cols }
	s.inFront = func() bool { return true }
	s.same = func(fd int) bool { return fd == 1 }
	return s
}

// target writes as the pump does.
func (s *screen) target(text string) {
	g := s.Guard(1)
	g.Begin()
	s.out.WriteString(text)
	g.End([]byte(text))
}

func (s *screen) take() string {
	got := s.out.String()
	s.out.Reset()
	return got
}

func TestLines(t *testing.T) {
	const reset = output.ResetTerminal
	for _, c := range []struct {
		name     string
		terminal bool
		before   string
		say      func(*Lines)
		want     string
	}{
		{"first", false, "", func(l *Lines) { l.Info("hello") }, "[confine] hello\n"},
		{"after a line", false, "x\n", func(l *Lines) { l.Info("hello") }, "[confine] hello\n"},
		{"in a line", false, "x", func(l *Lines) { l.Info("hello") }, "\n[confine] hello\n"},
		{"two", false, "x", func(l *Lines) { l.Info("a"); l.Info("b") }, "\n[confine] a\n[confine] b\n"},
		{"terminal, first", true, "", func(l *Lines) { l.Info("hello") }, "\r[confine] hello\r\n"},
		{"terminal, in a line", true, "\x1b[31mx", func(l *Lines) { l.Info("hello") }, reset + "\r\r\n[confine] hello\r\n"},
		{"terminal, in an escape sequence", true, "\x1b]0;ti", func(l *Lines) { l.Info("hello") }, reset + "\r\r\n[confine] hello\r\n"},
		{"controls in an argument", false, "", func(l *Lines) { l.Info("run %s", "\x1b[2J\n[confine] OK") }, `[confine] run \x1b[2J\n[confine] OK` + "\n"},
		{"hint", false, "", func(l *Lines) { l.Error("%v", errors.New("mount \"/x\"\nhint: try")) }, "[confine] mount \"/x\"\n[confine] hint: try\n"},
		{"percent sign without arguments", false, "", func(l *Lines) { l.Info("50%") }, "[confine] 50%\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScreen(c.terminal)
			if c.before != "" {
				s.target(c.before)
			}
			s.take()
			c.say(NewLines(s.Console, Normal, false))
			if got := s.take(); got != c.want {
				t.Errorf("%q\nwant %q", got, c.want)
			}
		})
	}
}

func TestLevels(t *testing.T) {
	for level, want := range map[Level]string{
		Quiet:   "[confine] e\n",
		Normal:  "[confine] e\n[confine] i\n",
		Verbose: "[confine] e\n[confine] i\n[confine] d\n",
	} {
		s := newScreen(false)
		l := NewLines(s.Console, level, false)
		l.Error("e")
		l.Info("i")
		l.Debug("d")
		if got := s.take(); got != want {
			t.Errorf("level %d: %q", level, got)
		}
	}
}

func TestJSONLines(t *testing.T) {
	s := newScreen(false)
	l := NewLines(s.Console, Normal, true).With(Field{"trace_id", "4b\x1b"})
	l.Error("no \"x\": %s\nhint: make one", "\u202e")
	l.Info("done")
	want := `{"level":"error","msg":"no \"x\": \u202e","hint":"make one","trace_id":"4b\u001b"}` + "\n" +
		`{"level":"info","msg":"done","trace_id":"4b\u001b"}` + "\n"
	if got := s.take(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestAnotherPlaceIsNotGuarded(t *testing.T) {
	s := newScreen(true)
	if s.Guard(2) != nil || s.Guard(-1) != nil {
		t.Error("guarded")
	}
}

var progress = Progress{Elapsed: 12 * time.Second, TimeLimit: 30 * time.Second, Memory: 120 << 20, MemoryLimit: 512 << 20}

const drawn = "\r[confine] 12 s of 30 s · 120 MiB of 512 MiB\x1b[K"

func TestStatusLine(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*screen)
		want string
	}{
		{"nothing written", func(s *screen) { s.show(progress) }, drawn},
		{"too early", func(s *screen) { s.show(Progress{Elapsed: time.Second}) }, ""},
		{"just written", func(s *screen) { s.target("a\n"); s.show(progress) }, "a\n"},
		{"calm again", func(s *screen) { s.target("a\n"); s.time = s.time.Add(calm); s.show(progress) }, "a\n" + drawn},
		{"in a line", func(s *screen) { s.target("a"); s.time = s.time.Add(calm); s.show(progress) }, "a"},
		{"unchanged", func(s *screen) { s.show(progress); s.show(progress) }, drawn},
		{"output erases it", func(s *screen) { s.show(progress); s.target("a\n") }, drawn + erase + "a\n"},
		{"our lines erase it", func(s *screen) { s.show(progress); NewLines(s.Console, Normal, false).Info("x") }, drawn + erase + "\r[confine] x\r\n"},
		{"cleared once", func(s *screen) { s.show(progress); s.Clear(); s.Clear() }, drawn + erase},
		{"in the background", func(s *screen) { s.inFront = func() bool { return false }; s.show(progress) }, ""},
		{"on the alternate screen", func(s *screen) { s.target("\x1b[?1049h\n"); s.time = s.time.Add(calm); s.show(progress) }, "\x1b[?1049h\n"},
		{"narrow", func(s *screen) { s.cols = 12; s.show(progress) }, "\r[confine] 1\x1b[K"},
		{"unknown width", func(s *screen) { s.cols = 0; s.show(progress) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScreen(true)
			s.time = s.time.Add(time.Hour)
			c.do(s)
			if got := s.take(); got != c.want {
				t.Errorf("%q\nwant %q", got, c.want)
			}
		})
	}
}

func TestNoStatusLineWithoutATerminal(t *testing.T) {
	s := newScreen(false)
	stop := s.Status(func() Progress { t.Error("asked"); return progress })
	stop()
	if got := s.take(); got != "" {
		t.Errorf("%q", got)
	}
}

func TestStatusStops(t *testing.T) {
	s := newScreen(true)
	stop := s.Status(func() Progress { return progress })
	s.show(progress)
	stop()
	stop()
	if got := s.take(); got != drawn+erase {
		t.Errorf("%q", got)
	}
}

func TestProgress(t *testing.T) {
	for want, p := range map[string]Progress{
		"[confine] 12 s of 30 s · 120 MiB of 512 MiB": progress,
		"[confine] 2.5 s · 3 MiB":                     {Elapsed: 2540 * time.Millisecond, Memory: 3 << 20},
		"[confine] 90 s of 1.5 s":                     {Elapsed: 90 * time.Second, TimeLimit: 1500 * time.Millisecond, Memory: -1},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAltScreen(t *testing.T) {
	for _, c := range []struct {
		in   string // chunks, separated by |
		want bool
	}{
		{"plain", false},
		{"\x1b[?1049h", true},
		{"x\x1b[?1049hy\x1b[31mz", true},
		{"\x1b[?1049h\x1b[?1049l", false},
		{"\x1b[?47h", true},
		{"\x1b[?1047h\x1b[?25h", true},
		{"\x1b[?25;1049h", true},
		{"\x1b|[?1|049|h", true},
		{"\x1b[?1049|h\x1b[|?1049l", false},
		{"\x1b\x1b[?1049h", true},
		{"\x1b[?104\x1b[?1049h", true},
		{"\x1b[1049h", false},
		{"\x1b[?25h", false},
		{"\x1b[?" + strings.Repeat("1", 200) + "|\x1b[?1049h", true},
	} {
		var a altScreen
		for _, chunk := range strings.Split(c.in, "|") {
			a.feed([]byte(chunk))
		}
		if a.on != c.want {
			t.Errorf("%q: %v", c.in, a.on)
		}
	}
}

func FuzzAltScreen(f *testing.F) {
	f.Add("\x1b[?1049h\x1b[?25;47l", uint8(3))
	f.Fuzz(func(t *testing.T, s string, cut uint8) {
		var whole, parts altScreen
		whole.feed([]byte(s))
		for rest := s; rest != ""; {
			n := min(len(rest), int(cut)+1)
			parts.feed([]byte(rest[:n]))
			rest = rest[n:]
			if len(parts.carry) > maxSequence {
				t.Fatalf("%d bytes kept", len(parts.carry))
			}
		}
		if whole.on != parts.on && len(s) <= maxSequence { // longer sequences are given up sooner or later
			t.Errorf("%q: %v whole, %v in parts of %d", s, whole.on, parts.on, cut+1)
		}
	})
}

func ExampleLines() {
	s := newScreen(false)
	l := NewLines(s.Console, Normal, false)
	l.Info("profile %s: %d limits", "testing", 7)
	fmt.Print(s.take())
	// Output: [confine] profile testing: 7 limits
}
