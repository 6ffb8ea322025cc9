package terminal

import (
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
		lines    []string
		want     string
	}{
		{"first", false, "", []string{"hello"}, "hello\n"},
		{"after a line", false, "x\n", []string{"hello"}, "hello\n"},
		{"in a line", false, "x", []string{"hello"}, "\nhello\n"},
		{"two", false, "x", []string{"a", "b"}, "\na\nb\n"},
		{"terminal, first", true, "", []string{"hello"}, "\rhello\r\n"},
		{"terminal, in a line", true, "\x1b[31mx", []string{"hello"}, reset + "\r\r\nhello\r\n"},
		{"terminal, in an escape sequence", true, "\x1b]0;ti", []string{"hello"}, reset + "\r\r\nhello\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScreen(c.terminal)
			if c.before != "" {
				s.target(c.before)
			}
			s.take()
			s.Print(c.lines...)
			if got := s.take(); got != c.want {
				t.Errorf("%q\nwant %q", got, c.want)
			}
		})
	}
}

// Once it has to hurry, a line that nobody takes is given up, and so are those after it.
func TestLinesThatNobodyReadsAreGivenUp(t *testing.T) {
	read, wrote := make(chan struct{}), make(chan string, 9)
	c := newConsole(func(p []byte) { <-read; wrote <- string(p) })
	patient := make(chan struct{})
	go func() { c.Print("patient"); close(patient) }()
	select {
	case <-patient:
		t.Fatal("a line was given up though there was time")
	case read <- struct{}{}:
		<-patient
		<-wrote
	}
	began := time.Now()
	time.AfterFunc(stuck/4, c.Hurry) // while it waits
	c.Print("first")
	if waited := time.Since(began); waited < stuck || waited > 3*stuck {
		t.Errorf("the first was given up after %s", waited)
	}
	began = time.Now()
	c.Print("second")
	if waited := time.Since(began); waited > stuck/2 {
		t.Errorf("the second was given up after %s", waited)
	}
	close(read)
	if got := <-wrote; got != "first\n" {
		t.Errorf("%q", got)
	}
	c.Print("third") // which would be in the middle of something
	if len(wrote) > 0 {
		t.Errorf("after it %q was written", <-wrote)
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
		{"our lines erase it", func(s *screen) { s.show(progress); s.Print("x") }, drawn + erase + "\rx\r\n"},
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
		{"plain", false}, {"\x1b[?1049h", true}, {"x\x1b[?1049hy\x1b[31mz", true}, {"\x1b[?1049h\x1b[?1049l", false},
		{"\x1b[?47h", true}, {"\x1b[?1047h\x1b[?25h", true}, {"\x1b[?25;1049h", true}, {"\x1b|[?1|049|h", true},
		{"\x1b[?1049|h\x1b[|?1049l", false}, {"\x1b\x1b[?1049h", true}, {"\x1b[?104\x1b[?1049h", true}, {"\x1b[1049h", false},
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
