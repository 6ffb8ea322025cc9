package cli

import (
	"errors"
	"os"
	"runtime"
	"slices"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/redact"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

// run is "confine [options] [--] COMMAND [ARG…]".
func (s *session) run(args []string) int {
	line, err := Scan(TakesAll, args)
	switch {
	case err != nil:
		s.early(line.Settings)
		return s.usage(err)
	case line.Help:
		return s.page("run")
	case len(line.Rest) == 0:
		return s.noCommand()
	}
	r, err := s.resolve(line.Settings)
	if err != nil {
		return s.usage(err)
	}
	s.meant = line.Ended
	return s.start(r, line.Rest)
}

// start runs argv and says how it ended. Where the report and the events go is
// opened before anything starts.
func (s *session) start(r *confine.Resolved, argv []string) int {
	rc, _ := s.watched(r, argv, func(*RunIO) {})
	return rc
}

// watched is start for who wants to see more, and the report; that is nil when nothing was
// started because of what was asked for.
func (s *session) watched(r *confine.Resolved, argv []string, also func(*RunIO)) (int, *status.Report) {
	trace := status.TraceID(s.env("TRACEPARENT"))
	out, err := openOutputs(&r.Invocation, trace)
	if err != nil {
		return s.usage(err), nil
	}
	defer out.close()
	io := RunIO{
		Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr,
		Capture: r.Invocation.JSON,
		Console: s.Console,
		TraceID: trace,
		Notice:  s.log.notice,
		Started: out.events.started,
		Attempt: s.attempts(&r.Policy.Network),

		Undelivered: out.undelivered,
	}
	io.Denied = s.refusedFiles(&r.Policy.Filesystem)
	also(&io)
	out.events.listen(&io)
	if s.log.level == "verbose" {
		io.Planned = func(e *Explanation) { s.before(e, &r.Policy) }
	}
	report, err := s.engine.Run(s.ctx, r, argv, io)
	if report == nil {
		var usage *confine.UsageError
		if errors.As(err, &usage) {
			return s.usage(err), nil
		}
		report = broken(err, r, argv, trace)
	}
	report.TraceID = trace // as the events have named it
	report.Normalize()
	return s.ended(report, r, out), report
}

// ended says how the run ended, everywhere where that was asked for. The exit
// code is the run's; but a run that ended well and whose output or report could
// not be written, whose changes could not be kept, or that left something at a protected path, did
// not do what was asked for, and ends with 1.
func (s *session) ended(report *status.Report, r *confine.Resolved, out *outputs) int {
	s.after(report, &r.Policy)
	for _, rec := range outcomes(report, &r.Policy, s.meant) {
		s.log.outcome(rec)
	}
	if report.RC == rcOK && (len(out.streamErrs) > 0 || notKept(report, &r.Policy) || leftBehind(report)) {
		report.RC = rcProblem // known early enough for the report
	}
	for _, v := range report.Violations {
		if v.Rule == status.RuleProtected || v.Rule == status.RuleLeft {
			s.log.notice("protected: " + terminal.Visible(v.What) + " came to be during the run\nhint: " + v.Hint)
		}
	}
	s.readOnly(report.Enforced[status.Overlay])
	s.changed(report.Changes)
	rc := report.RC
	failed := out.ended(report)
	if r.Invocation.JSON {
		if err := s.Out(encode(report)); err != nil {
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

// notKept: the changes were to be kept, and are not.
func notKept(report *status.Report, policy *confine.Policy) bool {
	return policy.Filesystem.Keep && report.Changes != nil && report.Changes.Error != "" && !report.Changes.Kept
}

// leftBehind: something stands at a protected path that wasn't there before.
func leftBehind(report *status.Report) bool {
	return slices.ContainsFunc(report.Violations, func(v status.Violation) bool { return v.Rule == status.RuleLeft })
}

// broken is the report of a run that the engine could not give one for.
func broken(err error, r *confine.Resolved, argv []string, trace string) *status.Report {
	if err == nil {
		err = errors.New("the engine gave neither a report nor an error")
	}
	dialect := status.Dialect(r.Invocation.ExitCodes)
	return &status.Report{
		Status:  status.InternalError,
		RC:      status.InternalError.RC(dialect, 0, 0),
		Reason:  err.Error(),
		Cause:   status.CauseSetup,
		Cmd:     redact.Redact(argv),
		TraceID: trace,
		Profile: r.Policy.Profile,
		Host:    status.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, UID: os.Getuid()},
	}
}
