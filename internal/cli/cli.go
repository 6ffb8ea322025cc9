package cli

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine"
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
	// rcUnread: who read a diff has read enough, and needn't be told. It is what a shell has of a
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
		Out:        func(b []byte) error { return writeAll(1, b) },
		Err:        func(b []byte) error { return writeAll(2, b) },
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
}

// Main takes the words apart and does what they say. A subcommand is one only as
// the very first word; everything else is a command to run.
func (p *Process) Main(ctx context.Context, e Engine) int {
	s := &session{Process: p, engine: e, ctx: ctx}
	s.log = logger{console: p.Console, write: p.Err, level: "normal", json: p.env("CONFINE_LOG_FORMAT") == "json"}
	args := p.Args
	if len(args) == 0 {
		return s.noCommand()
	}
	switch args[0] {
	case "-h", "--help":
		return s.help(nil)
	case "--version":
		return s.version(args[1:])
	}
	c := lookup(args[0])
	if c == nil {
		return s.run(args)
	}
	return s.dispatch(c, args[1:])
}

func (s *session) dispatch(c *Command, args []string) int {
	switch c.Name {
	case "run":
		return s.run(args)
	case "explain":
		return s.explain(args)
	case "learn":
		return s.learn(args)
	case "shell":
		return s.shell(args)
	case "doctor":
		return s.doctor(args)
	case "profiles":
		return s.profiles(args)
	case "seccomp":
		return s.seccomp(args)
	case "diff":
		return s.diff(args)
	case "apply":
		return s.apply(args)
	case "discard":
		return s.discard(args)
	case "selftest":
		return s.selftest(args)
	case "trust":
		return s.trust(args)
	case "completion":
		return s.completion(args)
	case "version":
		return s.version(args)
	case "help":
		return s.help(args)
	}
	return s.later(c, args)
}

// NotInBuild is a subcommand whose name is taken and that isn't there yet.
type NotInBuild struct{ Name string }

func (e *NotInBuild) Error() string {
	return "confine " + e.Name + ": not in this build yet\nhint: to run a program of that name: confine -- " + e.Name
}

// later answers for a subcommand that isn't there yet.
func (s *session) later(c *Command, args []string) int {
	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
		return s.page(c.Name)
	}
	return s.usage(&NotInBuild{c.Name})
}

// usage ends what was asked for wrongly. Nothing was started.
func (s *session) usage(err error) int {
	s.log.failure(err)
	return rcUsage
}

func (s *session) noCommand() int {
	return s.usage(&confine.UsageError{
		Msg:  "no command\nusage: confine [options] " + commandArgs,
		Hint: `"confine help" lists the subcommands, "confine help run" the options`,
	})
}

// print writes to stdout; that it can't be written is an error like any other.
func (s *session) print(text string) int { return s.printRC(text, rcOK) }

func (s *session) printRC(text string, rc int) int {
	if err := s.Out([]byte(text)); err != nil {
		s.log.failure(&stdoutError{err})
		if rc == rcOK {
			rc = rcProblem
		}
	}
	return rc
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
		return all, &confine.UsageError{
			Msg:  "confine " + c.Name + ": unexpected word " + strconv.Quote(all.Rest[most]),
			Hint: "usage: " + strings.TrimSpace("confine "+c.Name+" "+c.Args),
		}
	}
	return all, nil
}

// wantsJSON: the last --json holds.
func (l *Line) wantsJSON() (bool, error) {
	on := false
	for _, set := range l.Settings {
		if set.Option != "json" {
			continue
		}
		switch set.Values[0] {
		case "true":
			on = true
		case "false":
			on = false
		default:
			return false, &confine.UsageError{Msg: "--json: " + strconv.Quote(set.Values[0]) + ` is neither "true" nor "false"`}
		}
	}
	return on, nil
}
