package cli

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/confine-run/confine/internal/cli/outputs"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

// Process is what the command line knows of the process it is in.
type Process struct {
	Args                  []string // without the program's own name
	Environ               []string
	Stdin, Stdout, Stderr *os.File
	SystemFile            string // /etc/confine/confine.toml; empty: none
	// Out and Err write to descriptors 1 and 2.
	Out, Err func([]byte) error
	// Console is standard error as it is shared with a command; nil: Err.
	Console *terminal.Console
}

// Exit codes of what is no run.
const (
	rcOK      = 0
	rcNo      = 1 // the answer is no, or it could not be written
	rcUsage   = status.UsageRC
	rcProblem = 1
	// rcUnread: who read what was printed has read enough, and needn't be told. It is what a shell has of a
	// program that SIGPIPE ends.
	rcUnread = 128 + 13
)

// Main is the whole command line; main exits with what it returns.
func Main(e Engine) int {
	p := Process{
		Args:       os.Args[min(1, len(os.Args)):],
		Environ:    os.Environ(),
		Stdin:      os.Stdin,
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		SystemFile: systemFile,
		Out:        func(b []byte) error { return outputs.WriteAll(1, b) },
		Err:        func(b []byte) error { return outputs.WriteAll(2, b) },
		Console:    terminal.NewConsole(os.Stderr),
	}
	return p.Main(context.Background(), e)
}

const systemFile = "/etc/confine/confine.toml"

// session is one call of the command line.
type session struct {
	*Process
	engine Engine
	ctx    context.Context
	log    logger
	meant  bool // "--" said that what follows is a command
	// interrupted is the caller's SIGINT or SIGQUIT that the command died of; "" is none.
	interrupted string
	pressed     bool // it was a key, which nobody else has got
}

// Main takes the words apart and does what they say. What the caller's Ctrl-C ended ends this
// process by the same signal, when everything is done: a shell's loop or script goes on
// after an exit code, also after 130. A script looks at the signal only if it got it, too, so what
// was a key is sent to all of the job, as the terminal would.
func (p *Process) Main(ctx context.Context, e Engine) int {
	s := &session{Process: p, engine: e, ctx: ctx}
	rc := s.main()
	if s.interrupted != "" && rc > 128 && e.DieBy != nil {
		e.DieBy(s.interrupted, s.pressed)
	}
	return rc
}

// main: a subcommand is one only as the very first word; everything else is a command to run.
func (s *session) main() int {
	p := s.Process
	s.log = logger{console: p.Console, write: p.Err, level: "normal", json: p.env("CONFINE_LOG_FORMAT") == "json"}
	args := p.Args
	if len(args) == 0 {
		return s.usage(s.noCommand())
	}
	switch args[0] {
	case "-h", "--help":
		return s.page("")
	case "--version":
		return s.dispatch(lookup("version"), args[1:])
	case completeWord:
		return s.complete(args[1:])
	}
	if c := lookup(args[0]); c != nil {
		return s.dispatch(c, args[1:])
	}
	return s.dispatch(lookup("run"), args)
}

// handler is what a subcommand does, with its words taken apart.
type handler struct {
	name     string
	do       func(s *session, line *Line) (rc int, err error)
	anywhere bool // options can stand behind words; elsewhere the first word begins a command
	most     int  // words there can be, with anywhere
}

func handlerOf(name string) (h handler, ok bool) {
	for _, h := range [...]handler{
		{"run", runCommand, false, 0},
		{"explain", explainCommand, false, 0},
		{"learn", learnCommand, false, 0},
		{"shell", shellCommand, false, 0},
		{"selftest", selftestCommand, false, 0},
		{"doctor", doctorCommand, true, 0},
		{"profiles", profilesCommand, true, 1},
		{"seccomp", seccompCommand, true, 3},
		{"diff", diffCommand, true, math.MaxInt},
		{"apply", applyCommand, true, math.MaxInt},
		{"discard", discardCommand, true, math.MaxInt},
		{"trust", trustCommand, true, 1},
		{"completion", completionCommand, true, 1},
		{"version", versionCommand, true, 0},
		{"help", helpCommand, true, 1},
	} {
		if h.name == name {
			return h, true
		}
	}
	return handler{}, false
}

// dispatch does what a subcommand stands for. An error is about what was asked for: of another
// kind are those that a handler has said itself.
func (s *session) dispatch(c *Command, args []string) int {
	h, ok := handlerOf(c.Name)
	if !ok {
		return s.later(c, args)
	}
	var line Line
	var err error
	if h.anywhere {
		line, err = words(c, args, h.most)
	} else if line, err = Scan(c.Takes, args); err != nil {
		s.early(line.Settings)
	}
	rc := rcUsage
	switch {
	case err != nil:
	case line.Help:
		return s.page(c.Name)
	default:
		rc, err = h.do(s, &line)
	}
	if err != nil {
		return s.usage(err)
	}
	return rc
}

// problem ends what went wrong, which needn't be for what was asked for.
func (s *session) problem(err error, rc int) (int, error) {
	var usage *config.UsageError
	if errors.As(err, &usage) {
		return rcUsage, err
	}
	s.log.failure(err)
	return rc, nil
}

// NotInBuild is a subcommand whose name is taken and that isn't there yet.
type NotInBuild struct{ Name string }

func (e *NotInBuild) Error() string {
	return hint.Text("confine "+e.Name+": not in this build yet", e.Remedy())
}

// Remedy is for who didn't mean the subcommand.
func (e *NotInBuild) Remedy() string { return "to run a program of that name: confine -- " + e.Name }

// later answers for a subcommand that isn't there yet.
func (s *session) later(c *Command, args []string) int {
	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") && s.engine.Server == nil {
		return s.page(c.Name)
	}
	if s.engine.Server != nil {
		return s.usage(s.engine.Server(append([]string{c.Name}, args...)))
	}
	return s.usage(&NotInBuild{c.Name})
}

// usage ends what was asked for wrongly. Nothing was started.
func (s *session) usage(err error) int {
	s.log.failure(err)
	return rcUsage
}

func (s *session) noCommand() error {
	return &config.UsageError{
		Msg:  "no command\nusage: confine [options] " + commandArgs,
		Hint: `"confine help" lists the subcommands, "confine help run" the options`,
	}
}

// print writes to stdout; that it can't be written is an error like any other.
func (s *session) print(text string) int { return s.printRC(text, rcOK) }

func (s *session) printRC(text string, rc int) int {
	err := s.Out([]byte(text))
	if err == nil {
		return rc
	}
	problem := rcUnread
	if !errors.Is(err, syscall.EPIPE) {
		problem = rcProblem
		s.log.failure(&stdoutError{err})
	}
	return cmp.Or(rc, problem)
}

// show prints an answer, and ends with whether it is a yes.
func (s *session) show(yes, asJSON bool, v any, text func() string) (int, error) {
	rc := rcNo
	if yes {
		rc = rcOK
	}
	if asJSON {
		return s.printRC(string(outputs.Encode(v)), rc), nil
	}
	return s.printRC(text(), rc), nil
}

type stdoutError struct{ err error }

func (e *stdoutError) Error() string { return "write stdout: " + e.err.Error() }
func (e *stdoutError) Unwrap() error { return e.err }

// env is a variable of the caller's; the last one of a name holds, as in a shell.
func (p *Process) env(name string) string {
	value := ""
	for _, kv := range p.Environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			value = v
		}
	}
	return value
}

// words takes apart what follows a subcommand that runs nothing. There, flags
// can stand anywhere.
func words(c *Command, args []string, most int) (Line, error) {
	var all Line
	for {
		line, err := Scan(c.Takes, args)
		if err != nil {
			return all, err
		}
		all.Settings = append(all.Settings, line.Settings...)
		all.Help = all.Help || line.Help
		n := 1
		if line.Ended {
			n = len(line.Rest)
		}
		if len(line.Rest) == 0 {
			break
		}
		all.Rest = append(all.Rest, line.Rest[:n]...)
		args = line.Rest[n:]
	}
	if len(all.Rest) > most && !all.Help {
		return all, &config.UsageError{
			Msg:  "confine " + c.Name + ": unexpected word " + strconv.Quote(all.Rest[most]),
			Hint: "usage: " + strings.TrimSpace("confine "+c.Name+" "+c.Args),
		}
	}
	return all, nil
}

// last is the value of an option that was said last, "" if it wasn't.
func (l *Line) last(option string) (value string, said bool) {
	for _, set := range l.Settings {
		if set.Option == option {
			value, said = set.Values[0], true
		}
	}
	return value, said
}

// on says whether a switch is on.
func (l *Line) on(option string) (bool, error) {
	switch value, said := l.last(option); {
	case !said || value == "false":
		return false, nil
	case value == "true":
		return true, nil
	default:
		return false, &config.UsageError{Msg: "--" + option + ": " + strconv.Quote(value) + ` is neither "true" nor "false"`}
	}
}
