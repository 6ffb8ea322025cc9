package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/cli/attached"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/sandboxes"
	"github.com/confine-run/confine/internal/serve"
	"github.com/confine-run/confine/status"
)

// execLine is what "exec" was told.
type execLine struct {
	Argv      []string          `json:"argv"`
	Env       map[string]string `json:"env,omitempty"`
	Dir       string            `json:"dir,omitempty"`
	OpenStdin bool              `json:"open_stdin,omitempty"`
	TTY       *size             `json:"tty,omitempty"`
	TimeLimit string            `json:"time_limit,omitempty"`
	CPUTime   string            `json:"cpu_time,omitempty"`
	Detach    bool              `json:"detach"` // always: its output is followed by its number

	stays bool // --detach: nobody follows
}

type size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

const execForm = "exec ID [-i] [-t] [--detach] [--env K=V]… [--dir D] [--time-limit D] [--cpu-time D] [--] CMD…"

func execCommand(ctx context.Context, args []string) (int, error) {
	if len(args) < 2 {
		return 0, &config.UsageError{Msg: "usage: confine session " + execForm}
	}
	e := &execLine{Detach: true, Env: map[string]string{}}
	rest, err := e.parse(args[1:])
	if err != nil {
		return 0, err
	}
	if len(rest) == 0 {
		return 0, &config.UsageError{Msg: "no command", Hint: "usage: confine session " + execForm}
	}
	e.Argv = rest
	return e.run(ctx, args[0])
}

// parse takes the options.
func (e *execLine) parse(args []string) (rest []string, err error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-" {
		word := args[0]
		args = args[1:]
		name, value, attached := strings.Cut(word, "=")
		switch name {
		case "--":
			return args, nil
		case "-i", "-t", "-it", "-ti":
			e.OpenStdin = e.OpenStdin || strings.Contains(word, "i")
			if strings.Contains(word, "t") {
				e.TTY = &size{24, 80}
			}
			continue
		case "--detach", "-d":
			e.stays = true
			continue
		case "--env", "-e", "--dir", "--time-limit", "--cpu-time":
		default:
			return nil, &config.UsageError{Msg: fmt.Sprintf("unknown option %q", word), Hint: "usage: confine session " + execForm}
		}
		if !attached {
			if len(args) == 0 {
				return nil, &config.UsageError{Msg: word + " needs a value"}
			}
			value, args = args[0], args[1:]
		}
		switch name {
		case "--dir":
			e.Dir = value
		case "--time-limit":
			e.TimeLimit = value
		case "--cpu-time":
			e.CPUTime = value
		default:
			k, v, ok := strings.Cut(value, "=")
			if !ok {
				v, ok = os.LookupEnv(k)
			}
			if !ok {
				return nil, &config.UsageError{Msg: fmt.Sprintf("--env %q: there is no such variable", value)}
			}
			e.Env[k] = v
		}
	}
	return args, nil
}

func shellCommand(ctx context.Context, args []string) (int, error) {
	if err := words(args, 1, 1, "shell ID"); err != nil {
		return 0, err
	}
	shell := "/bin/sh"
	if s := os.Getenv("SHELL"); strings.HasPrefix(s, "/usr/") || strings.HasPrefix(s, "/bin/") {
		shell = s
	}
	e := &execLine{Argv: []string{shell}, OpenStdin: true, Detach: true}
	if linux.IsTerminal(0) { // else it reads what to do, as any shell does
		e.TTY = &size{24, 80}
	}
	return e.run(ctx, args[0])
}

// run starts the process, and is its terminal or relays its streams. It exits as the process does.
func (e *execLine) run(ctx context.Context, word string) (int, error) {
	c, path, err := open(word)
	if err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, unix.SIGWINCH)
	defer signal.Stop(signals)
	if e.TTY != nil {
		e.OpenStdin = false // a terminal has one
		if now := sizeOf(os.Stdin); now != nil {
			e.TTY = now
		}
		if e.Env == nil {
			e.Env = map[string]string{}
		}
		if term, ok := os.LookupEnv("TERM"); ok && e.Env["TERM"] == "" {
			e.Env["TERM"] = term
		}
	}
	var p processView
	if err := c.Do(ctx, "POST", path+"/exec", e, &p); err != nil {
		return 0, err
	}
	if e.stays {
		fmt.Println(p.Process)
		return 0, nil
	}
	path += "/processes/" + strconv.Itoa(p.Process)
	ctx, end := context.WithCancel(ctx)
	defer end()
	go pass(ctx, c, path, signals)
	if e.TTY != nil {
		if err := e.terminal(ctx, c, path); err != nil {
			return 0, err
		}
	} else if e.OpenStdin {
		go func() { _ = c.Put(ctx, "POST", path+"/stdin?eof=1", &standardInput{}) }()
	}
	var report *status.Report
	err = c.Frames(ctx, path+"/output", 0, sandboxes.FrameExit, func(f *sandboxes.Frame) error {
		if f.Type == sandboxes.FrameExit {
			report = f.Report
		}
		if e.TTY != nil {
			return nil // it was shown
		}
		return relay(f)
	})
	switch {
	case errors.Is(err, syscall.EPIPE): // nobody reads any more
		_ = c.Do(ctx, "POST", path+"/signal", map[string]string{"signal": "KILL"}, nil)
		return 128 + int(syscall.SIGPIPE), nil
	case err != nil:
		return 0, err
	}
	remark(report)
	return report.RC, nil
}

// remark says what a caller has to know beside the exit code.
func remark(r *status.Report) {
	say := func(text string) { fmt.Fprintln(os.Stderr, "confine session: "+visible(text)) }
	if r.Status != status.OK && r.Status != status.Failed {
		say(string(r.Status) + ": " + r.Reason)
	}
	if r.Truncated.Stdout || r.Truncated.Stderr {
		say("the output was cut at the session's limit")
		say("hint: --output-limit of \"session start\" sets another")
	}
	for i := range r.Violations {
		v := &r.Violations[i]
		say("refused: " + v.Kind + " " + v.What)
		if v.Hint != "" {
			say("hint: " + v.Hint)
		}
	}
}

// standardInput is read without closing it.
type standardInput struct{}

func (*standardInput) Read(b []byte) (int, error) { return os.Stdin.Read(b) }

// pass passes signals on, and the size of the terminal.
func pass(ctx context.Context, c *serve.Client, path string, signals <-chan os.Signal) {
	for {
		select {
		case s := <-signals:
			if s == unix.SIGWINCH {
				if now := sizeOf(os.Stdin); now != nil {
					_ = c.Do(ctx, "POST", path+"/resize", now, nil)
				}
				continue
			}
			_ = c.Do(ctx, "POST", path+"/signal", map[string]string{"signal": strconv.Itoa(int(s.(syscall.Signal)))}, nil)
		case <-ctx.Done():
			return
		}
	}
}

func sizeOf(f *os.File) *size {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Row == 0 {
		return nil
	}
	return &size{w.Row, w.Col}
}

// endOfInput is what a terminal reads as the end of its input (VEOF): the end of a file or a pipe that is there instead of the caller's.
const endOfInput = 'd' & 0x1f

// terminal makes the caller's terminal that of the process, until it exits.
func (e *execLine) terminal(ctx context.Context, c *serve.Client, path string) error {
	conn, err := c.Terminal(ctx, path+"/tty")
	if err != nil {
		return err
	}
	defer conn.Close()
	defer attached.Raw(0, 1)()
	go func() {
		_, _ = io.Copy(conn, &standardInput{})
		if !linux.IsTerminal(0) {
			_, _ = conn.Write([]byte{endOfInput})
		}
	}()
	_, err = io.Copy(os.Stdout, conn)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return err
}
