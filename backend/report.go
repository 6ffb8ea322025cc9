package backend

import (
	"cmp"
	"errors"
	"runtime"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/redact"
	"github.com/confine-run/confine/status"
)

// partialEnforcement is what the reason of a report is, or begins with, where the command ended by itself and something did not hold as asked.
const partialEnforcement = "PARTIAL_ENFORCEMENT"

// Complete adds to a report what only the caller's side knows.
func Complete(r *status.Report, s *Spec) *status.Report {
	r.Cmd = redact.Redact(s.Argv)
	r.Profile = s.Policy.Profile
	r.PolicyDigest = cmp.Or(r.PolicyDigest, s.PolicyDigest)
	if r.PolicyDigest == "" {
		r.PolicyDigest = s.Policy.Digest()
	}
	r.TraceID = status.TraceID(config.LookupEnv(s.Environ, "TRACEPARENT"))
	facts := host.Current()
	r.Host = status.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Kernel: facts.Release(), UID: facts.UID()}
	if r.Reason != "" && partial(r) && (r.Status == status.OK || r.Status == status.Failed || r.Status == status.SandboxDenied) {
		r.Reason = partialEnforcement
		if r.Ending.Native != "" { // which nothing else in the report says
			r.Reason += ": " + r.Ending.Native
		}
	}
	r.Normalize()
	return r
}

// CompleteBox is the same for that of a sandbox.
func CompleteBox(r *status.BoxReport, s *Spec) *status.BoxReport {
	whole := Complete(&status.Report{PolicyDigest: r.PolicyDigest, Enforced: r.Enforced, LimitsHit: r.LimitsHit, Violations: r.Violations}, s)
	r.Version, r.Profile, r.PolicyDigest, r.Host = whole.Version, whole.Profile, whole.PolicyDigest, whole.Host
	r.Enforced, r.LimitsHit, r.Violations = whole.Enforced, whole.LimitsHit, whole.Violations
	return r
}

// Closed is what closing a sandbox gives, by its report.
func Closed(r *status.BoxReport) (*status.BoxReport, error) {
	if e := r.SetupError; e != nil {
		return r, errors.New(e.Error)
	}
	return r, nil
}

// partial: something that the policy asks for does not hold as asked.
func partial(r *status.Report) bool {
	for _, e := range r.Enforced {
		if e.Enabled && !e.Effective {
			return true
		}
	}
	return false
}

// Refused is the report of a run that was not started, since the plan of the backend of that name doesn't
// give what the policy insists on.
func Refused(name string, e *config.Unenforceable, s *Spec) *status.Report {
	return Unbuilt(name, &status.SetupError{Step: "plan", Op: string(e.Capability), Error: e.Error(), Hint: e.Hint}, e.Ledger, s)
}

// Unbuilt is the report of a run whose sandbox that backend could not build: nothing of what the ledger says holds.
func Unbuilt(name string, e *status.SetupError, l status.Ledger, s *Spec) *status.Report {
	r := &status.Report{
		Status: status.InternalError, Cause: status.CauseSetup, Reason: e.Error, Backend: name, SetupError: e,
		RC: status.InternalError.RC(status.Normalized, 0, 0), Enforced: l,
	}
	for c, entry := range l {
		entry.Applied, entry.Effective = false, false
		l[c] = entry
	}
	return Complete(r, s)
}
