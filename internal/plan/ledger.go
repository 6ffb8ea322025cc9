package plan

import (
	"maps"

	"github.com/confine-run/confine/status"
)

// Ledger is a [status.Ledger] that is being written. Whoever takes a decision writes its line, at that place: Ask for what
// a policy wants, then one of the others for what does it, in place of what was written before. What is asked for and
// nobody writes about is missing, and so refused. Of what isn't asked for nothing is written.
type Ledger map[status.Capability]status.Enforcement

// Ask enters what the policy asks for, in its words.
func (l Ledger) Ask(c status.Capability, requested string) {
	l[c] = status.Enforcement{Requested: requested, Enabled: true, Mechanism: "none", FallbackReason: status.NotInBuild}
}

// Unasked enters that the policy asks for nothing.
func (l Ledger) Unasked(c status.Capability, requested, details string) {
	l[c] = status.Enforcement{Requested: requested, Mechanism: "none", Details: details}
}

// Enforced: a mechanism does what was asked.
func (l Ledger) Enforced(c status.Capability, mechanism, details string) {
	l.set(c, mechanism, true, "", details)
}

// Fallback: it does, and isn't the strongest; why not that.
func (l Ledger) Fallback(c status.Capability, mechanism string, why status.FallbackReason, details string) {
	l.set(c, mechanism, true, why, details)
}

// Partial: it does less than was asked.
func (l Ledger) Partial(c status.Capability, mechanism string, why status.FallbackReason, details string) {
	l.set(c, mechanism, false, why, details)
}

// Missing: nothing does it.
func (l Ledger) Missing(c status.Capability, why status.FallbackReason, details string) {
	l.set(c, "none", false, why, details)
}

func (l Ledger) set(c status.Capability, mechanism string, effective bool, why status.FallbackReason, details string) {
	if e := l[c]; e.Enabled {
		e.Mechanism, e.Effective, e.FallbackReason, e.Details = mechanism, effective, why, details
		l[c] = e
	}
}

// Weaken: what was written does less than that. A reason that was there stays where there is no other.
func (l Ledger) Weaken(c status.Capability, why status.FallbackReason, details string) {
	if e := l[c]; e.Enabled {
		e.Effective = false
		if why != "" {
			e.FallbackReason = why
		}
		l[c] = e
		l.Note(c, details)
	}
}

// Note adds to the details.
func (l Ledger) Note(c status.Capability, details string) {
	e := l[c]
	if !e.Enabled || details == "" {
		return
	}
	if e.Details != "" {
		details = e.Details + "; " + details
	}
	e.Details = details
	l[c] = e
}

// Confirmed is what has been applied of it, where the command ran or did not.
func (l Ledger) Confirmed(ran bool) Ledger {
	l = maps.Clone(l)
	for c, e := range l {
		e.Applied = e.Enabled && e.Mechanism != "none" && ran
		e.Effective = e.Effective && e.Applied
		l[c] = e
	}
	return l
}
