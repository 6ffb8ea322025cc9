package cli

import (
	"context"
	"os"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/selftest"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

// Engine is what the command line drives. All of it can be replaced by fakes.
type Engine struct {
	// Explain makes the plan and runs nothing.
	Explain func(ctx context.Context, r *confine.Resolved, argv []string) (*Explanation, error)
	// Ask answers questions about the plan, and runs nothing.
	Ask func(ctx context.Context, r *confine.Resolved, argv []string, asks []confine.Ask) (*Answers, error)
	// Asker makes the plan once, and gives what answers questions about it.
	Asker func(ctx context.Context, r *confine.Resolved, argv []string) (func(confine.Ask) (confine.Answer, error), error)
	// Run runs the command. A *confine.UsageError means that nothing was started
	// because of what was asked for; any other error without a report becomes an
	// INTERNAL_ERROR. The report's RC is in the dialect of r.Invocation.ExitCodes.
	Run func(ctx context.Context, r *confine.Resolved, argv []string, io RunIO) (*status.Report, error)
	// Doctor tries what this host can do.
	Doctor func(ctx context.Context) ([]host.Result, error)
	// Selftest makes the escape attempts under the policy. The error is about the
	// self-test itself.
	Selftest func(ctx context.Context, r *confine.Resolved) ([]selftest.Result, error)
}

// RunIO is what a run is connected to.
type RunIO struct {
	Stdin, Stdout, Stderr *os.File
	Capture               bool // collect the streams for the report instead of passing them on
	TraceID               string

	// Console is what the command's output shares with lines of ours; nil is none.
	Console *terminal.Console

	// Planned, when not nil, is called once, before anything starts.
	Planned func(*Explanation)
	// Notice is called with each line that the user should see, in time or late.
	Notice func(string)
	// Started, when not nil, is called when the target runs.
	Started func()
	// Attempt, when not nil, is called for each kind of attempt to reach something over
	// the network, the first time.
	Attempt func(status.Attempt)
	// Denied, LimitHit and Usage, when not nil, are called as things happen: see
	// confine.IO. They don't wait for anybody.
	Denied   func(status.Violation)
	LimitHit func(status.Capability)
	Usage    func(status.Load)
	// Accesses, Unseen and Passed, when not nil, are told what a watched run does: see
	// confine.IO.
	Accesses func(confine.Access)
	Unseen   func(n int64, err error)
	Passed   func(all []confine.PassedCall, others int64)
	Peaks    func(confine.Peaks)
	// Undelivered, when not nil, is called for "stdout" and "stderr" at the end of the
	// run when that did not take all that the command wrote, unless its reader left.
	Undelivered func(stream string, err error)
}

// Explanation is a plan as it is shown to people and programs.
type Explanation struct {
	Command      CommandInfo                              `json:"command"`
	Profile      string                                   `json:"profile"`
	PolicyDigest string                                   `json:"policy_digest"`
	Backend      string                                   `json:"backend"`
	Enforced     map[status.Capability]status.Enforcement `json:"enforced"`
	Paths        []PathRule                               `json:"paths"`
	Values       []Value                                  `json:"values"` // filled in by this package
	Files        []string                                 `json:"files"`  // that were read and count
	Notices      []string                                 `json:"notices"`
	// Refused is why the run would not start, or empty.
	Refused string `json:"refused,omitempty"`
}

// Answers are what explain says to questions.
type Answers struct {
	Answers []confine.Answer `json:"answers"` // in the order of the questions
	Notices []string         `json:"notices"`
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

// PathRule is one entry of what is visible.
type PathRule struct {
	Path   string `json:"path"`
	Access string `json:"access"` // "read", "write", "overlay", "hidden", "private", …
	Why    string `json:"why"`
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
