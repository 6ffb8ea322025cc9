package top

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/must"
)

// hostile is a name that would take the terminal over, move what is around it, and be something else than it seems.
const hostile = "\x1b[2J\x1b]0;owned\x07\u009b31m\u202egnp.exe\u200b\x7f\ne\u0301\xff"

func someRows(n int) *Picture {
	p := &Picture{Time: time.Now()}
	for i := range n {
		p.Sandboxes = append(p.Sandboxes, Row{ID: strings.Repeat("x", 26), Name: hostile, State: "running" + hostile, CPUPercent: float64(i),
			Usage: &backend.Usage{CPU: time.Second, Memory: 3 << 20, Tasks: 2, Scratch: -1}})
	}
	p.Pools, p.Unreachable = []Pool{{Profile: hostile}}, hostile
	return p
}

// TestMain is also the program that the tests look at: "top" with pictures of their own.
func TestMain(m *testing.M) {
	mode := os.Getenv("TOP_TEST")
	if mode == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := live(ctx, someRows(40), func(context.Context, *Picture) (*Picture, error) {
		switch mode {
		case "panic":
			panic("on purpose")
		case "panic below":
			gather(ctx, []Source{{ID: "a session without a client"}}, nil)
		case "error":
			return nil, errors.New("on purpose")
		}
		return someRows(40), nil
	})
	if err != nil {
		os.Exit(3)
	}
	os.Exit(0)
}

// tty is "top" on a real one.
type tty struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	slave  *os.File
	before *unix.Termios

	mu   sync.Mutex
	seen bytes.Buffer
}

func start(t *testing.T, mode string) *tty {
	t.Helper()
	master, slave, err := pty.Open()
	must.Do(t, err)
	t.Cleanup(func() { master.Close(); slave.Close() })
	must.Do(t, pty.Setsize(master, &pty.Winsize{Rows: 12, Cols: 70}))
	before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	must.Do(t, err)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "TOP_TEST="+mode)
	c.Stdin, c.Stdout, c.Stderr = slave, slave, io.Discard
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	x := &tty{t: t, cmd: c, master: master, slave: slave, before: before}
	must.Do(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			x.mu.Lock()
			x.seen.Write(b[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return x
}

// sees waits until something was drawn, and gives all.
func (x *tty) sees(text string) string {
	x.t.Helper()
	for range 2000 {
		x.mu.Lock()
		all := x.seen.String()
		x.mu.Unlock()
		if strings.Contains(all, text) {
			return all
		}
		time.Sleep(5 * time.Millisecond)
	}
	x.t.Fatalf("there is no %q in %q", text, x.seen.String())
	return ""
}

// ends waits for its end, and says whether the terminal is as it was.
func (x *tty) ends() {
	x.t.Helper()
	done := make(chan error, 1)
	go func() { done <- x.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		x.t.Fatal("it goes on")
	}
	all := x.sees(leaveScreen)
	if strings.Count(all, leaveScreen) != 1 || strings.LastIndex(all, leaveScreen) < strings.LastIndex(all, goHome) {
		x.t.Errorf("the screen is not given back once, at the end: %q", all)
	}
	after, err := unix.IoctlGetTermios(int(x.slave.Fd()), unix.TCGETS)
	if err != nil || *after != *x.before {
		x.t.Errorf("the terminal is %+v, was %+v, %v", after, x.before, err)
	}
}

func TestTheTerminalIsGivenBack(t *testing.T) {
	for name, end := range map[string]func(x *tty){
		"by q":         func(x *tty) { _, _ = x.master.WriteString("q") },
		"by ctrl-c":    func(x *tty) { _, _ = x.master.WriteString("\x03") },
		"by a hang-up": func(x *tty) { _ = x.cmd.Process.Signal(syscall.SIGHUP) },
		"by SIGTERM":   func(x *tty) { _ = x.cmd.Process.Signal(syscall.SIGTERM) },
		"by an error":  nil,
		"by a panic":   nil,
		"by one below": nil,
		"after a resize": func(x *tty) {
			_ = pty.Setsize(x.master, &pty.Winsize{Rows: 5, Cols: 20})
			_, _ = x.master.WriteString("q")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mode := map[string]string{"by a panic": "panic", "by one below": "panic below", "by an error": "error"}[name]
			mode = cmp.Or(mode, "live")
			x := start(t, mode)
			x.sees("NAME")
			if end != nil {
				end(x)
			}
			x.ends()
		})
	}
}

// drawn are the lines of the last picture that was drawn whole.
func drawn(all string) []string {
	all = all[:strings.LastIndex(all, clearBelow)]
	all = all[strings.LastIndex(all, goHome)+len(goHome):]
	return strings.Split(strings.ReplaceAll(all, clearRight, ""), "\r\n")
}

func TestNamesAreNotObeyed(t *testing.T) {
	x := start(t, "live")
	all := x.sees(clearBelow)
	for _, of := range []string{enterScreen, leaveScreen, goHome, clearRight, clearBelow, "\r\n"} {
		all = strings.ReplaceAll(all, of, "")
	}
	for _, r := range all {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u200b' || r == '\u0301' {
			t.Fatalf("%q is on the terminal: %q", r, all)
		}
	}
	if !strings.Contains(all, "gnp.exe") {
		t.Errorf("the name isn't there at all: %q", all)
	}
	_, _ = x.master.WriteString("q")
	x.ends()
}

func TestPicturesFitTheTerminal(t *testing.T) {
	x := start(t, "live")
	x.sees(clearBelow)
	for _, size := range []pty.Winsize{{Rows: 12, Cols: 70}, {Rows: 4, Cols: 30}, {Rows: 60, Cols: 200}, {Rows: 1, Cols: 1}} {
		x.mu.Lock()
		x.seen.Reset()
		x.mu.Unlock()
		must.Do(t, pty.Setsize(x.master, &size))
		ok := false
		var lines []string
		for range 1000 { // a picture of before may come first
			if lines = drawn(goHome + x.sees(clearBelow)); len(lines) <= int(size.Rows) {
				ok = true
				for _, line := range lines {
					ok = ok && utf8.RuneCountInString(line) <= int(size.Cols)
				}
			}
			if ok {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if !ok {
			t.Errorf("%+v: %d lines: %q", size, len(lines), lines)
		}
	}
	_, _ = x.master.WriteString("q")
	x.ends()
}

func TestCPUIsThatBetweenTwoPictures(t *testing.T) {
	at := time.Now()
	row := func(id string, cpu time.Duration, at time.Time) Row {
		return Row{ID: id, Usage: &backend.Usage{CPU: cpu}, at: at}
	}
	before := &Picture{Sandboxes: []Row{row("a", time.Second, at), row("b", 0, at), row("c", -1, at), {ID: "d"}, row("e", time.Minute, at)}}
	now := &Picture{Sandboxes: []Row{row("a", 1500*time.Millisecond, at.Add(time.Second)), row("b", 0, at.Add(time.Second)), row("c", -1, at.Add(time.Second)), row("d", time.Second, at.Add(time.Second)), row("e", time.Second, at.Add(time.Second)), row("new", time.Hour, at)}}
	now.since(before)
	got := map[string]float64{}
	for _, r := range now.Sandboxes {
		got[r.ID] = r.CPUPercent
	}
	for id, want := range map[string]float64{"a": 50, "b": 0, "c": -1, "d": -1, "e": 0, "new": -1} {
		if got[id] != want {
			t.Errorf("%s: %v, want %v", id, got[id], want)
		}
	}
	if now.Sandboxes[0].ID != "a" {
		t.Errorf("%s is the first", now.Sandboxes[0].ID)
	}
}

func TestWords(t *testing.T) {
	for _, wrong := range [][]string{{"--server"}, {"--server", "tcp:1"}, {"--server=unix:"}, {"--onse"}, {"x"}, {"--once=1"}} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	if o, err := parse([]string{"--server", "unix:/a=b", "--once", "--json"}); err != nil || o != (options{"/a=b", true, true}) {
		t.Errorf("%+v, %v", o, err)
	}
}
