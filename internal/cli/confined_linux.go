package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/redact"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

// Confined is the engine that really runs things.
func Confined() Engine {
	return Engine{
		Run:     runConfined,
		Explain: explainPlan,
		Ask:     askPlan,
		Asker:   askerOf,
		Doctor: func(context.Context) ([]host.Result, error) {
			return host.RunDoctor().Results, nil
		},
		Selftest: trySelftest,
	}
}

// passedOn are the signals that a caller may send to a program to be heard by it.
// The terminal's own (SIGWINCH, SIGTSTP, SIGCONT) are package terminal's.
var passedOn = []os.Signal{
	unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM,
}

func runConfined(ctx context.Context, r *confine.Resolved, argv []string, io RunIO) (*status.Report, error) {
	command := &confine.Command{Argv: argv, ConfigFiles: r.Protected}
	command.WatchFiles, command.WatchCalls = io.Accesses != nil, io.Passed != nil
	wantTTY(command, r.Invocation.TTY, io)
	opts := confine.IO{
		Stdin: fdOf(io.Stdin), Stdout: fdOf(io.Stdout), Stderr: fdOf(io.Stderr),
		Capture: io.Capture, Alone: true,
		Started: io.Started, Attempt: io.Attempt, Undelivered: io.Undelivered,
		Accesses: io.Accesses, Unseen: io.Unseen, Passed: io.Passed, Peaks: io.Peaks,
		Denied: io.Denied, LimitHit: io.LimitHit, Usage: io.Usage,
	}
	opts.Astray = func(int) {
		io.Notice("the command has no network, and may have tried to reach one\nhint: --allow-network HOST allows a host")
	}
	if console := io.Console; console != nil {
		opts.OutGuard, opts.ErrGuard = console.Guard(opts.Stdout), console.Guard(opts.Stderr)
	}
	if console := io.Console; console != nil && r.Invocation.Log != "quiet" && r.Invocation.LogFormat != "json" {
		opts.Watching = func(elapsed func() time.Duration, memory func() int64) (stop func()) {
			return console.Status(func() terminal.Progress {
				return terminal.Progress{
					Elapsed: elapsed(), TimeLimit: r.Policy.TimeLimit,
					Memory: memory(), MemoryLimit: r.Policy.MemoryLimit,
				}
			})
		}
	}
	if command.TTY != [3]bool{} {
		opts.Terminal = terminal.Open(opts.Stdin, opts.Stdout, opts.Stderr)
		defer opts.Terminal.Restore()
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	opts.Signals = signals
	var begun string // where the target starts; "": that was said, or chosen
	report, err := confine.Execute(ctx, &r.Policy, command, opts, func(plan *confine.Plan) {
		for _, n := range plan.Notices {
			io.Notice(n)
		}
		begun = elsewhere(plan, &r.Policy)
		if io.Planned != nil {
			io.Planned(explanationOf(plan, command, nil))
		}
	})
	if err != nil {
		return nil, r.Blame(err)
	}
	if begun != "" && lost(report.Status) {
		io.Notice("the command started in " + strconv.Quote(begun) + ", because the current directory is not shown inside: relative names count from there\nhint: " + shows(&r.Policy, "it; full paths work without"))
	}
	return finish(report, r, io), nil
}

// elsewhere is where the target starts, if that is not the current directory and nobody has
// chosen or said so.
func elsewhere(p *confine.Plan, policy *confine.Policy) string {
	f := &policy.Filesystem
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	told := slices.ContainsFunc(p.Notices, func(n string) bool { return strings.HasPrefix(n, "the current directory ") })
	if err != nil || told || f.Workdir != "none" || f.Chdir != "" || f.Rootfs != "" || p.Child.Dir == dir {
		return ""
	}
	return p.Child.Dir
}

// lost: the target may have looked for something by a relative name, and not found it. Of a
// command that isn't found, more is said elsewhere.
func lost(s status.Status) bool {
	return s == status.Failed || s == status.SandboxDenied
}

// finish sets what the command line decides: the dialect of the exit code, and
// the trace that the events have named already.
func finish(report *status.Report, r *confine.Resolved, io RunIO) *status.Report {
	code, sig := 0, 0
	if report.ExitCode != nil {
		code = *report.ExitCode
	}
	if report.Status == status.ExecFailed {
		code = report.RC
	}
	if report.Signal != "" {
		sig = int(unix.SignalNum(report.Signal))
	}
	report.RC = report.Status.RC(status.Dialect(r.Invocation.ExitCodes), code, sig)
	report.TraceID = io.TraceID
	return report
}

// wantTTY decides which streams of the target are a pty: those that are a
// terminal of the caller's, unless never or always was said.
func wantTTY(c *confine.Command, tty string, io RunIO) {
	if tty == "never" || io.Capture && tty != "always" {
		return
	}
	for fd, f := range []*os.File{io.Stdin, io.Stdout, io.Stderr} {
		size, err := unix.IoctlGetWinsize(fdOf(f), unix.TIOCGWINSZ)
		switch {
		case err == nil:
			c.TTY[fd] = true
			if c.Rows == 0 {
				c.Rows, c.Cols = size.Row, size.Col
			}
		case tty == "always":
			c.TTY[fd] = true
		}
	}
}

func fdOf(f *os.File) int {
	if f == nil {
		return -1
	}
	return int(f.Fd())
}

func explainPlan(_ context.Context, r *confine.Resolved, argv []string) (*Explanation, error) {
	command := &confine.Command{Argv: argv, ConfigFiles: r.Protected}
	plan, err := confine.NewPlan(&r.Policy, command)
	var cant *confine.Unenforceable
	if err != nil && !errors.As(err, &cant) {
		return nil, r.Blame(err)
	}
	return explanationOf(plan, command, cant), nil
}

func askerOf(_ context.Context, r *confine.Resolved, argv []string) (func(confine.Ask) (confine.Answer, error), error) {
	plan, err := confine.NewPlan(&r.Policy, &confine.Command{Argv: argv, ConfigFiles: r.Protected})
	var cant *confine.Unenforceable
	if err != nil && !errors.As(err, &cant) {
		return nil, r.Blame(err)
	}
	return func(q confine.Ask) (confine.Answer, error) { return plan.Ask(r, q) }, nil
}

func askPlan(_ context.Context, r *confine.Resolved, argv []string, asks []confine.Ask) (*Answers, error) {
	plan, err := confine.NewPlan(&r.Policy, &confine.Command{Argv: argv, ConfigFiles: r.Protected})
	var cant *confine.Unenforceable
	if err != nil && !errors.As(err, &cant) {
		return nil, r.Blame(err)
	}
	all := &Answers{Notices: plan.Notices}
	if cant != nil {
		all.Refused = cant.Error()
	}
	for _, q := range asks {
		a, err := plan.Ask(r, q)
		if err != nil {
			return nil, err
		}
		if cant != nil {
			a = confine.Answer{Kind: a.Kind, Asked: a.Asked, Access: a.Access, Answer: confine.AnswerNo, Reason: "would_not_start"}
		}
		all.Answers = append(all.Answers, a)
	}
	return all, nil
}

func explanationOf(p *confine.Plan, c *confine.Command, cant *confine.Unenforceable) *Explanation {
	e := &Explanation{
		Command:      CommandInfo{Argv: redact.Redact(c.Argv), Dir: p.Child.Dir},
		PolicyDigest: p.Policy().Digest(),
		Backend:      confine.Backend,
		Enforced:     p.Ledger,
		Notices:      p.Notices,
	}
	for _, rule := range p.Rules {
		e.Paths = append(e.Paths, PathRule{Path: rule.Path, Access: rule.Access, Why: rule.Why})
	}
	if cant != nil {
		e.Refused = cant.Error()
	}
	return e
}
