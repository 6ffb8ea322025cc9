package cli

import (
	"cmp"
	"errors"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/cli/outputs"
	"github.com/confine-run/confine/internal/cli/slurm"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/redact"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
	"github.com/confine-run/confine/supervisor/terminal"
)

// runCommand is "confine [options] [--] COMMAND [ARG…]".
func runCommand(s *session, line *Line) (int, error) {
	if len(line.Rest) == 0 {
		return rcUsage, s.noCommand()
	}
	r, err := s.resolve(line.Settings)
	if err != nil {
		return rcUsage, err
	}
	s.explicit = line.Ended
	s.noteUnset(line.Settings)
	return s.start(r, line.Rest)
}

// noteUnset tells of a variable that is to be passed, isn't set, and is nearly called as one that is. Others that aren't set may well be meant so.
func (s *session) noteUnset(settings []config.Setting) {
	var named, set []string
	for i := range settings {
		if settings[i].Option == "env" {
			named = append(named, settings[i].Values...)
		}
	}
	if named == nil {
		return
	}
	for _, word := range s.Environ {
		name, _, _ := strings.Cut(word, "=")
		set = append(set, name)
	}
	others := slices.DeleteFunc(slices.Clone(set), func(name string) bool { return slices.Contains(named, name) })
	for _, name := range named {
		if strings.ContainsAny(name, "=*") || slices.Contains(set, name) {
			continue
		}
		if near := hint.Mistyped(name, others); near != "" {
			s.log.advise("--env "+strconv.Quote(name)+": it isn't set, so none is passed", "did you mean "+strconv.Quote(near)+"?")
		}
	}
}

// start runs argv and says how it ended. Where the report and the events go is
// opened before anything starts.
func (s *session) start(r *config.Resolved, argv []string) (int, error) {
	rc, _ := s.runWith(r, argv, func(*RunIO) {})
	return rc, nil
}

// runWith is start with further callbacks, and returns the report, too; that is nil when a usage error
// kept everything from starting.
func (s *session) runWith(r *config.Resolved, argv []string, also func(*RunIO)) (int, *status.Report) {
	if err := s.keepable(r); err != nil {
		return s.usage(err), nil
	}
	trace := status.TraceID(s.env("TRACEPARENT"))
	out, err := outputs.Open(&r.Invocation, trace, func() status.Record { return recordOf(&r.Policy, argv) }, s.realDir(r))
	if err != nil {
		return s.usage(err), nil
	}
	defer out.Close()
	io := RunIO{
		Options: supervisor.Options{
			Stdin: fdOf(s.Stdin), Stdout: fdOf(s.Stdout), Stderr: fdOf(s.Stderr),
			Capture: r.Invocation.JSON,
			Alone:   true,
			Events: supervisor.Events{
				Attempt: s.log.attempts(&r.Policy.Network),
				Denied:  s.log.refusedFiles(&r.Policy.Filesystem),
			},
		},
		Console: s.Console,
		TraceID: trace,
		Notice:  s.log.advise,
		Pressed: func() { s.pressed = true },
	}
	also(&io)
	out.Listen(&io.Options)
	if s.log.level == "verbose" {
		io.Planned = func(e *Explanation) { s.logPlan(e, &r.Policy) }
	}
	report, err := s.engine.Run(s.ctx, r, argv, io)
	if report == nil {
		if _, ok := errors.AsType[*config.UsageError](err); ok {
			return s.usage(err), nil
		}
		report = brokenReport(err, r, argv, trace)
	}
	report.TraceID = trace // as the events have named it
	report.Normalize()
	return s.reportEnd(report, r, out), report
}

// recordOf is what a record of a run is about.
func recordOf(p *config.Policy, argv []string) status.Record {
	cpus := runtime.NumCPU()
	if p.CPUs > 0 {
		cpus = min(cpus, p.CPUs)
	}
	return status.Record{Cmd: redact.Redact(argv), Profile: p.Profile, CPUs: cpus, Limits: status.RecordedLimits{
		TimeMS: p.TimeLimit.Milliseconds(), CPUMS: p.CPUTime.Milliseconds(), CPUPercent: p.CPULimit, MemoryBytes: p.MemoryLimit,
		Tasks: p.Processes, DiskBytes: p.ScratchLimit(), OutputBytes: p.OutputLimit,
	}}
}

// keepable refuses --keep where it can be seen beforehand that nothing can be kept. An overlay that nobody has said this of
// is told to be dropped.
func (s *session) keepable(r *config.Resolved) error {
	if f := &r.Policy.Filesystem; !f.Keep || !r.IsSet("keep") || !r.Policy.HasOverlay() {
		return nil
	}
	src := s.sources(nil)
	dir, err := src.StoreDir()
	if err == nil {
		err = changes.Keepable(dir)
	}
	if err == nil {
		return nil
	}
	why, _ := hint.Split(err)
	return &config.UsageError{Msg: "what the command changes can't be kept: " + why, Err: err,
		Hint: "set HOME or XDG_STATE_HOME to a directory that may be written; --keep=false goes on without"}
}

func fdOf(f *os.File) int {
	if f == nil {
		return -1
	}
	return int(f.Fd())
}

// realDir finds directories as the policy of a run has them.
func (s *session) realDir(r *config.Resolved) outputs.RealDir {
	return func(name string) (string, error) {
		src := s.sources(nil)
		return r.RealDir(&src, name)
	}
}

// reportEnd says how the run ended, on stderr and wherever the options ask for it. The exit
// code is the run's; but a run that ended well and whose output or report could
// not be written, whose changes could not be kept, or that left something at a protected path, did
// not do what was asked for, and ends with 1.
func (s *session) reportEnd(report *status.Report, r *config.Resolved, out *outputs.Outputs) int {
	s.logUsage(report, &r.Policy)
	for _, rec := range outcomes(report, &r.Policy, s.explicit) {
		s.log.outcome(rec)
	}
	if report.Status == status.Failed || report.Status == status.SandboxDenied {
		for _, n := range [...]hint.Notice{projectAbove(report, &r.Policy), substituted(report.Cmd), tooLarge(report, &r.Policy)} {
			if n.Text != "" {
				s.log.advise(n.Text, n.Remedy)
			}
		}
	}
	if report.RC == rcOK && (len(out.Lost) > 0 || notKept(report, &r.Policy) || leftBehind(report)) {
		report.RC = rcProblem // known early enough for the report
	}
	for _, v := range report.Violations {
		switch v.Rule {
		case status.RuleProtected, status.RuleLeft:
			s.log.advise("protected: "+terminal.Visible(v.What)+" came to be during the run", v.Hint)
		case status.RuleAside:
			s.log.advise("protected: "+terminal.Visible(v.What)+" was renamed", v.Hint)
		}
	}
	s.log.readOnly(report.Enforced[status.Overlay], report.Ending.ReadOnly)
	s.log.changed(report.Changes, r.Policy.Filesystem.Keep)
	if interrupted(report) {
		s.interrupted = report.Signal
	}
	rc := report.RC
	failed := out.End(report)
	if r.Invocation.JSON {
		if err := s.Out(outputs.Encode(report)); err != nil {
			failed = append(failed, &stdoutError{err})
		}
	}
	for _, err := range failed {
		s.log.failure(err)
		if rc == rcOK {
			rc = rcProblem
		}
	}
	return rc
}

// interrupted: a SIGINT or SIGQUIT of the caller's, from the terminal or from anybody, was
// passed on, and the command died of it. One that handles it and exits has decided otherwise.
func interrupted(r *status.Report) bool {
	return r.Status == status.KilledSignal && r.Cause == status.CauseCaller && (r.Signal == "SIGINT" || r.Signal == "SIGQUIT")
}

// notKept: the changes were to be kept, and are not.
func notKept(report *status.Report, policy *config.Policy) bool {
	return policy.Filesystem.Keep && report.Changes != nil && report.Changes.Error != "" && !report.Changes.Kept
}

// leftBehind: something stands at a protected path that wasn't there before.
func leftBehind(report *status.Report) bool {
	return slices.ContainsFunc(report.Violations, func(v status.Violation) bool { return v.Rule == status.RuleLeft })
}

// brokenReport is the report of a run that the engine could not give one for.
func brokenReport(err error, r *config.Resolved, argv []string, trace string) *status.Report {
	if err == nil {
		err = errors.New("the engine gave neither a report nor an error")
	}
	dialect := status.Dialect(r.Invocation.ExitCodes)
	_, remedy := hint.Split(err)
	return &status.Report{
		Status:  status.InternalError,
		RC:      status.InternalError.RC(dialect, 0, 0),
		Reason:  err.Error(),
		Ending:  status.Ending{Remedy: remedy},
		Cause:   status.CauseSetup,
		Cmd:     redact.Redact(argv),
		TraceID: trace,
		Profile: r.Policy.Profile,
		Host:    status.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, UID: os.Getuid()},
	}
}

// resolve puts flags, environment, files and profile together, and from then on
// says things in the manner asked for.
func (s *session) resolve(settings []config.Setting) (*config.Resolved, error) {
	return s.resolveWith(settings, func(*config.Resolved) {})
}

// resolveWith changes what was found before anything is said of it.
func (s *session) resolveWith(settings []config.Setting, change func(*config.Resolved)) (*config.Resolved, error) {
	s.early(settings)
	r, err := config.Resolve(s.sources(settings))
	if err != nil {
		return nil, err
	}
	s.log.level = r.Invocation.Log
	s.log.json = r.Invocation.LogFormat == "json"
	change(r)
	for _, n := range r.Notices {
		s.log.notice(n)
	}
	return r, nil
}

// early finds out how a mistake is to be worded, before anything is checked.
func (s *session) early(settings []config.Setting) {
	for _, set := range settings {
		if set.Option == "log-format" {
			s.log.json = set.Values[0] == "json"
		}
	}
}

func (s *session) sources(settings []config.Setting) config.Sources {
	src := config.Here(s.Environ, s.SystemFile)
	src.Flags = settings
	return src
}

// slurmCommand is "confine slurm [options] [--] COMMAND [ARG…]".
func slurmCommand(s *session, line *Line) (int, error) {
	if len(line.Rest) == 0 {
		return rcUsage, &config.UsageError{Msg: "no command", Hint: "usage: srun confine slurm [options] " + commandArgs}
	}
	a, err := slurm.Of(s.env)
	if err != nil {
		return rcUsage, err
	}
	named := strings.NewReplacer("%%", "%", "%j", a.Job, "%s", a.Step, "%t", a.Task, "%n", a.Node)
	for i, set := range line.Settings {
		if set.Option == "report" || set.Option == "events" {
			line.Settings[i].Values = []string{named.Replace(set.Values[0])}
		}
	}
	r, err := s.resolve(line.Settings)
	if err != nil {
		return rcUsage, err
	}
	r.Lift(slurm.Source, "time-limit", "cpu-time") // it has limits of its own, and ends what passes them
	if a.Memory > 0 {
		err = r.Allot(slurm.Source, "memory-limit", a.Memory)
	}
	if err == nil && a.CPUs > 0 {
		err = r.Allot(slurm.Source, "cpus", a.CPUs)
	}
	if err != nil {
		return rcUsage, err
	}
	r.Policy.Env.Pass = append(r.Policy.Env.Pass, slurm.Passed[:]...)
	s.explicit = line.Ended
	return s.start(r, line.Rest)
}

const plainShell = "/bin/sh"

// shellCommand is an interactive shell inside. On a terminal it gets a pty of its own,
// so that line editing, job control and the prompt are what they are outside.
func shellCommand(s *session, line *Line) (int, error) {
	if len(line.Rest) > 0 {
		return rcUsage, &config.UsageError{
			Msg:  "shell: unexpected word " + strconv.Quote(line.Rest[0]),
			Hint: "to run a command: confine [options] " + commandArgs,
		}
	}
	r, err := s.resolve(line.Settings)
	if err != nil {
		return rcUsage, err
	}
	r.Lift("subcommand shell", "time-limit", "cpu-time", "output-limit")
	return s.start(r, []string{s.shellInside(r)})
}

// shellInside is the caller's shell where it can be seen inside, or else a plain
// one. The plan says which: nothing is started to find out. On Windows it is that of the system.
func (s *session) shellInside(r *config.Resolved) string {
	if runtime.GOOS == "windows" {
		return cmp.Or(s.env("ComSpec"), "cmd.exe")
	}
	own := s.env("SHELL")
	if !path.IsAbs(own) || own == plainShell {
		return plainShell
	}
	e, err := s.engine.Explain(s.ctx, r, []string{own})
	if err != nil || e.Command.Error != "" {
		s.log.notice("shell " + strconv.Quote(own) + " can't be seen inside: " + plainShell + " instead")
		return plainShell
	}
	return own
}
