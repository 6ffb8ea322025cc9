//go:build !linux

package cli

import (
	"context"
	"errors"
	"os"
	"runtime"
	"syscall"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/backends"
	"github.com/confine-run/confine/internal/cli/attached"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/redact"
	"github.com/confine-run/confine/status"
)

// Confined is the engine of a system whose backend is driven by the seam alone.
func Confined() Engine {
	return Engine{
		Run:     runConfined,
		Explain: explainPlan,
		Doctor: func(context.Context) ([]host.Result, error) {
			return backends.Doctor(), nil
		},
		Clean:   backends.Clean(),
		Missing: missing,
	}
}

// missing is about subcommands that this program does by itself, and not here.
func missing(subcommand string) error {
	why := func(msg, remedy string) error {
		return &config.UsageError{Msg: "confine " + subcommand + ": " + msg, Hint: remedy}
	}
	switch subcommand {
	case "trust":
		if runtime.GOOS == "windows" {
			return why("who else may write to a list of trusted files can't be told on Windows", "name the file with --config")
		}
	case "learn":
		return why("nothing on this system sees what a command opens or calls", "learn the profile on Linux; it can be used here")
	case "selftest":
		return why("its attempts are those of a program of Linux", "\"confine doctor\" says what holds here, and by what")
	case "diff", "apply", "discard":
		return why("what a command changes in an overlay is kept on Linux alone", "--report and --json say what it changed")
	}
	return nil
}

func runConfined(ctx context.Context, r *config.Resolved, argv []string, io RunIO) (*status.Report, error) {
	if r.Invocation.Record != "" {
		return nil, &config.UsageError{Msg: "--record can't be had on this system", Hint: "--report and --events can"}
	}
	spec, err := specOf(r, argv)
	if err != nil {
		return nil, err
	}
	b := backends.For(&r.Policy)
	plan, err := b.Plan(ctx, spec)
	if plan != nil && err == nil {
		if io.Planned != nil {
			io.Planned(explanationOf(spec, b, plan, nil))
		}
		if shown, ok := plan.(backend.Shower); ok {
			for _, n := range shown.Notices() {
				io.Notice(n.Text, n.Remedy)
			}
		}
	}
	return runAttached(ctx, b, spec, r, io, &attached.IO{Signals: []os.Signal{os.Interrupt, syscall.SIGTERM}}, attached.OnTerminal)
}

func explainPlan(ctx context.Context, r *config.Resolved, argv []string) (*Explanation, error) {
	spec, err := specOf(r, argv)
	if err != nil {
		return nil, err
	}
	b := backends.For(&r.Policy)
	plan, err := b.Plan(ctx, spec)
	var cant *config.Unenforceable
	if plan == nil || err != nil && !errors.As(err, &cant) {
		return nil, r.WithOrigin(err)
	}
	return explanationOf(spec, b, plan, cant), nil
}

func explanationOf(s *backend.Spec, b backend.Backend, plan backend.Plan, cant *config.Unenforceable) *Explanation {
	e := &Explanation{
		Command: CommandInfo{Argv: redact.Redact(s.Argv)}, PolicyDigest: s.Policy.Digest(), Backend: b.Name(),
		Enforced: plan.Ledger(), Ask: plan.Ask,
	}
	if shown, ok := plan.(backend.Shower); ok {
		e.Command.Dir, e.Paths, e.Notices = shown.Dir(), shown.Rules(), shown.Notices()
	}
	if cant != nil {
		e.Refused = cant.Error()
	}
	return e
}
