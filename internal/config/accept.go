package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/shell"
	"github.com/confine-run/confine/status"
)

// Unenforceable is a plan that doesn't give what the policy insists on. The run
// ends as INTERNAL_ERROR before anything starts.
type Unenforceable struct {
	Capability status.Capability
	Requested  string
	Reason     status.FallbackReason
	Details    string
	Hint       string
	Ledger     map[status.Capability]status.Enforcement
	Err        error // behind it, or nil
}

// Unwrap gives the error behind it.
func (e *Unenforceable) Unwrap() error { return e.Err }

func (e *Unenforceable) Error() string {
	s := string(e.Capability)
	if e.Requested != s {
		s += " " + strconv.Quote(e.Requested)
	}
	s += " can't be enforced"
	if e.Details != "" {
		s += ": " + e.Details
	}
	if e.Reason != "" {
		s += " (" + string(e.Reason) + ")"
	}
	return s
}

// Accept holds the ledger against what the policy allows to be missing, and
// what it requires.
func Accept(p *Policy, ledger map[status.Capability]status.Enforcement) error {
	var missing []string
	for c, e := range ledger {
		if e.Enabled && !e.Effective && !AllowsPartial(p, c) {
			missing = append(missing, string(c))
		}
	}
	if slices.Sort(missing); missing != nil {
		c := status.Capability(missing[0])
		e := ledger[c]
		return &Unenforceable{
			Capability: c, Requested: e.Requested, Reason: e.FallbackReason, Details: e.Details, Ledger: ledger,
			Hint: "--allow-partial " + strings.Join(missing, ",") + " goes on without, and says so in the report",
		}
	}
	for _, r := range p.Require {
		name, mechanism, _ := strings.Cut(r, "=")
		c := status.Capability(name)
		e := ledger[c]
		if e.Enabled && e.Effective && (mechanism == "" || mechanism == e.Mechanism) {
			continue
		}
		details, hint := "nothing in this policy asks for it", "ask for it by its option, or leave --require "+shell.Word(r)+" away"
		if e.Enabled {
			details, hint = "here it would be by "+e.Mechanism, "confine explain shows what this host can do"
		} else if e.FallbackReason != "" {
			details, hint = e.Details, "confine doctor says what to do"
		}
		return &Unenforceable{
			Capability: c, Requested: r, Reason: e.FallbackReason, Details: details, Ledger: ledger,
			Hint: hint,
		}
	}
	return nil
}

// AllowsPartial says whether the policy goes on without a capability.
func AllowsPartial(p *Policy, c status.Capability) bool {
	return slices.Contains(p.AllowPartial, WordAll) || slices.Contains(p.AllowPartial, string(c))
}

// Requires says whether the policy insists on a capability in full.
func Requires(p *Policy, c status.Capability) bool {
	return slices.ContainsFunc(p.Require, func(r string) bool { name, _, _ := strings.Cut(r, "="); return name == string(c) })
}
