package cli

import (
	"context"
	"os"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/cli/attached"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/selftest"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
	"github.com/confine-run/confine/supervisor/terminal"
)

// Engine is what the command line drives. All of it can be replaced by fakes.
type Engine struct {
	// Explain makes the plan and runs nothing.
	Explain func(ctx context.Context, r *config.Resolved, argv []string) (*Explanation, error)
	// Run runs the command. A *config.UsageError means that nothing was started
	// because of what was asked for; any other error without a report becomes an
	// INTERNAL_ERROR. The report's RC is in the dialect of r.Invocation.ExitCodes.
	Run func(ctx context.Context, r *config.Resolved, argv []string, io RunIO) (*status.Report, error)
	// Ahead, if not nil, is called when the words begin like those of a run: it begins what every run begins
	// with, and drop ends that where there was none.
	Ahead func() (drop func())
	// Doctor tries what this host can do.
	Doctor func(ctx context.Context) ([]host.Result, error)
	// Clean takes back what runs have left that were ended from outside, and says of how many; nil: none leaves anything here.
	Clean func() (runs int, err error)
	// Selftest makes the escape attempts under the policy. The error is about the
	// self-test itself. nil: there are none for this system, as Missing says.
	Selftest func(ctx context.Context, r *config.Resolved) ([]selftest.Result, error)
	// Missing says why a subcommand can't be had on this system; nil, or nil from it: it can.
	Missing func(subcommand string) error
	// Beside becomes a program that lies beside this one and does what a subcommand stands for that needs it. It returns
	// only with an error; nil: there is no such program.
	Beside func(program string, args []string) error
	// DieBy ends this process by a signal, given by its name, and with job sends it to the rest
	// of its job. It returns where it can't; nil is nowhere.
	DieBy func(signal string, job bool)
}

// RunIO is what a run is connected to.
type RunIO struct {
	supervisor.Options
	TraceID string

	// Console is what the command's output shares with lines of ours; nil is none.
	Console *terminal.Console

	// Planned, when not nil, is called once, before anything starts.
	Planned func(*Explanation)
	// Notice is called with each line that the user should see, in time or late.
	Notice func(text, remedy string)
	// Pressed, when not nil, is called when the run was ended by a key of the caller's terminal
	// that was passed on to the target's, so that nobody else has got its signal.
	Pressed func()
}

// Explanation is a plan as it is shown to people and programs.
type Explanation struct {
	Command      CommandInfo                              `json:"command"`
	Profile      string                                   `json:"profile"`
	PolicyDigest string                                   `json:"policy_digest"`
	Backend      string                                   `json:"backend"`
	Enforced     map[status.Capability]status.Enforcement `json:"enforced"`
	Paths        []config.PathRule                        `json:"paths"`
	Values       []Value                                  `json:"values"` // filled in by this package
	Files        []string                                 `json:"files"`  // that were read and count
	Notices      []hint.Notice                            `json:"notices"`
	// Refused is why the run would not start, or empty.
	Refused string `json:"refused,omitempty"`
	// Ask answers a question by the plan, be it refused or not.
	Ask func(config.Ask) (config.Answer, error) `json:"-"`
}

// Answers are what explain says to questions.
type Answers struct {
	Answers []config.Answer `json:"answers"` // in the order of the questions
	Notices []hint.Notice   `json:"notices"`
	// Refused is why the run would not start, so that nothing is allowed; or empty.
	Refused string `json:"refused,omitempty"`
}

// CommandInfo is the command and what it leads to inside.
type CommandInfo struct {
	Argv  []string `json:"argv"`           // secrets left out
	Path  string   `json:"path,omitempty"` // of the program
	Dir   string   `json:"dir,omitempty"`  // where it starts
	Error string   `json:"error,omitempty"`
}

// Value is what holds for one option, and who said so.
type Value struct {
	Option string   `json:"option"`
	Values []string `json:"values"`
	Origin string   `json:"origin"`
	// Overridden is what weaker places said, the strongest first.
	Overridden []Origin `json:"overridden,omitempty"`
}

// Origin is one place that said something.
type Origin struct {
	Values []string `json:"values"`
	Origin string   `json:"origin"`
}

// specOf is what a command asks of a backend.
func specOf(r *config.Resolved, argv []string) (*backend.Spec, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, &config.UsageError{Msg: "the current directory can't be told: " + err.Error(), Hint: "change to one that exists, and that you may enter", Err: err}
	}
	return &backend.Spec{Policy: &r.Policy, Resolved: r, Argv: argv, Dir: dir, Environ: os.Environ(), ConfigFiles: r.Protected}, nil
}

// runAttached runs a command by the seam alone. to has what is heard on this system; on says whether somebody works on a terminal.
func runAttached(ctx context.Context, b backend.Backend, s *backend.Spec, r *config.Resolved, io RunIO, to *attached.IO, on func(stdin, stdout int) bool) (*status.Report, error) {
	tty := r.Invocation.TTY
	to.Stdin, to.Stdout, to.Stderr, to.Capture = io.Stdin, io.Stdout, io.Stderr, io.Capture
	to.TTY = tty == "always" || tty != "never" && !io.Capture && on(io.Stdin, io.Stdout)
	to.Started, to.Denied, to.LimitHit, to.Usage = io.Started, io.Denied, io.LimitHit, io.Usage
	report, err := attached.Run(ctx, b, s, to)
	if err != nil {
		return nil, r.WithOrigin(err)
	}
	return finish(report, r, io), nil
}

// finish sets what the command line decides: the dialect of the exit code, and
// the trace that the events have named already.
func finish(report *status.Report, r *config.Resolved, io RunIO) *status.Report {
	code, sig := 0, 0
	if report.ExitCode != nil {
		code = *report.ExitCode
	}
	if report.Status == status.ExecFailed {
		code = report.RC
	}
	if report.Status == status.KilledSignal {
		sig = report.RC - 128 // not every signal has a name
	}
	report.RC = report.Status.RC(status.Dialect(r.Invocation.ExitCodes), code, sig)
	report.TraceID = io.TraceID
	return report
}
