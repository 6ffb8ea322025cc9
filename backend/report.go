package confine

import (
	"runtime"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/redact"
	"github.com/confine-run/confine/status"
)

// complete adds to a report what only the caller's side knows.
func complete(r *status.Report, policy *Policy, command *Command) *status.Report {
	r.Cmd = redact.Redact(command.Argv)
	r.Profile = policy.Profile
	r.PolicyDigest = policy.Digest()
	r.TraceID = status.TraceID(command.env("TRACEPARENT"))
	facts := host.Current()
	r.Host = status.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Kernel: facts.Release(), UID: facts.UID()}
	if r.Reason != "" && partial(r) && (r.Status == status.OK || r.Status == status.Failed || r.Status == status.SandboxDenied) {
		r.Reason = "PARTIAL_ENFORCEMENT"
	}
	r.Normalize()
	return r
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

// Refused is the report of a run that was not started, since the plan doesn't
// give what the policy insists on.
func Refused(e *Unenforceable, policy *Policy, command *Command) *status.Report {
	r := &status.Report{
		Status: status.InternalError,
		Cause:  status.CauseSetup,
		Reason: e.Error(),
		RC:     status.InternalError.RC(status.Normalized, 0, 0),
		SetupError: &status.SetupError{
			Step: "plan", Op: string(e.Capability), Error: e.Error(), Hint: e.Hint,
		},
		Enforced: e.Ledger,
	}
	for c, entry := range r.Enforced {
		entry.Applied, entry.Effective = false, false
		r.Enforced[c] = entry
	}
	r.Backend = Backend
	return complete(r, policy, command)
}
