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
	// rcUnread: the reader of stdout has read enough, and needs no message. It is what a shell shows for a
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
		SystemFile: config.SystemFile,
		Out:        func(b []byte) error { return outputs.WriteAll(1, b) },
		Err:        func(b []byte) error { return outputs.WriteAll(2, b) },
		Console:    terminal.NewConsole(os.Stderr),
	}
	return p.Main(context.Background(), e)
}

// session is one call of the command line.
type session struct {
	*Process
	engine   Engine
	ctx      context.Context
	log      logger
	explicit bool // "--" said that what follows is a command
	// interrupted is the caller's SIGINT or SIGQUIT that the command died of; "" is none.
	interrupted string
	pressed     bool // it was a key, which nobody else has got
}

// Main parses the arguments and runs the subcommand. When the caller's Ctrl-C ended the command, this
// process ends itself by the same signal once everything is done: a shell's loop or script goes on
// after an exit code, also after 130. A script looks at the signal only if it got it too, so the signal of
// a key is sent to the whole job, as the terminal would.
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
	run, c := lookup("run"), lookup(args[0])
	if s.engine.Ahead != nil && (c == nil || c == run) {
		defer s.engine.Ahead()()
	}
	if c != nil {
		return s.dispatch(c, args[1:])
	}
	return s.dispatch(run, args)
}

// handler runs a subcommand, with its arguments parsed.
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
		{"slurm", slurmCommand, false, 0},
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

// dispatch runs a subcommand. An error that a handler returns is a usage error; a handler reports
// errors of another kind itself.
func (s *session) dispatch(c *Command, args []string) int {
	h, ok := handlerOf(c.Name)
	if !ok {
		if s.engine.Beside == nil && len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
			return s.page(c.Name)
		}
		err := error(&config.UsageError{Msg: "confine " + c.Name + ": it takes " + c.Program + ", which is for Linux alone", Hint: "to run a program of that name: confine -- " + c.Name})
		if s.engine.Beside != nil {
			program := c.Program
			if c.Name == "session" && len(args) > 0 && strings.HasPrefix(args[0], "--") && args[0] != "--help" { // it is about those of a queue
				program = workerProgram
			}
			err = s.engine.Beside(program, append([]string{c.Name}, args...))
		}
		return s.usage(err)
	}
	var line Line
	var err error
	if h.anywhere {
		line, err = parseAnywhere(c, args, h.most)
	} else if line, err = Scan(c.Takes, args); err != nil {
		s.early(line.Settings)
	}
	rc := rcUsage
	switch {
	case err != nil:
	case line.Help:
		return s.page(c.Name)
	case s.engine.Missing != nil && s.engine.Missing(c.Name) != nil:
		err = s.engine.Missing(c.Name)
	default:
		rc, err = h.do(s, &line)
	}
	if err != nil {
		return s.usage(err)
	}
	return rc
}

// problem returns a usage error to dispatch, and reports any other error.
func (s *session) problem(err error, rc int) (int, error) {
	if _, ok := errors.AsType[*config.UsageError](err); ok {
		return rcUsage, err
	}
	s.log.failure(err)
	return rc, nil
}

// usage reports a mistake in what was asked for. Nothing was started.
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

// env is a variable of the caller's.
func (p *Process) env(name string) string { return config.LookupEnv(p.Environ, name) }

// parseAnywhere parses the arguments of a subcommand that runs nothing. There, flags
// can stand anywhere.
func parseAnywhere(c *Command, args []string, most int) (Line, error) {
	var all Line
	for more := true; more; more = len(args) > 0 {
		line, err := Scan(c.Takes, args)
		if err != nil {
			return all, err
		}
		all.Settings = append(all.Settings, line.Settings...)
		all.Help = all.Help || line.Help
		n := min(1, len(line.Rest))
		if line.Ended {
			n = len(line.Rest)
		}
		all.Rest, args = append(all.Rest, line.Rest[:n]...), line.Rest[n:]
	}
	if len(all.Rest) > most && !all.Help {
		return all, &config.UsageError{
			Msg:  "confine " + c.Name + ": unexpected word " + strconv.Quote(all.Rest[most]),
			Hint: "usage: " + strings.TrimSpace("confine "+c.Name+" "+c.Args),
		}
	}
	return all, nil
}

// last is the last value given for an option.
func (l *Line) last(option string) (value string, given bool) {
	for _, set := range l.Settings {
		if set.Option == option {
			value, given = set.Values[0], true
		}
	}
	return value, given
}

// on says whether a switch is on.
func (l *Line) on(option string) (bool, error) {
	switch value, given := l.last(option); {
	case !given || value == "false":
		return false, nil
	case value == "true":
		return true, nil
	default:
		return false, &config.UsageError{Msg: "--" + option + ": " + strconv.Quote(value) + ` is neither "true" nor "false"`}
	}
}
