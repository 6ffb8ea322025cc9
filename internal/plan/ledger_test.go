package plan

import (
	"testing"

	"github.com/confine-run/confine/status"
)

func TestLedgerSaysWhatWasWrittenLast(t *testing.T) {
	const c, why, other = status.Memory, status.CgroupV1, status.CgroupNotDelegated
	for name, line := range map[string]struct {
		write func(Ledger)
		want  status.Enforcement
	}{
		"nobody has decided":          {func(Ledger) {}, status.Enforcement{Mechanism: "none", FallbackReason: status.NotInBuild}},
		"enforced":                    {func(l Ledger) { l.Enforced(c, "m", "d") }, status.Enforcement{Effective: true, Mechanism: "m", Details: "d"}},
		"by another mechanism":        {func(l Ledger) { l.Fallback(c, "m", why, "d") }, status.Enforcement{Effective: true, Mechanism: "m", Details: "d", FallbackReason: why}},
		"in part":                     {func(l Ledger) { l.Partial(c, "m", why, "d") }, status.Enforcement{Mechanism: "m", Details: "d", FallbackReason: why}},
		"missing":                     {func(l Ledger) { l.Missing(c, why, "d") }, status.Enforcement{Mechanism: "none", Details: "d", FallbackReason: why}},
		"the last one counts":         {func(l Ledger) { l.Partial(c, "m", why, "d"); l.Enforced(c, "n", "") }, status.Enforcement{Effective: true, Mechanism: "n"}},
		"weaker":                      {func(l Ledger) { l.Fallback(c, "m", why, "d"); l.Weaken(c, other, "e") }, status.Enforcement{Mechanism: "m", Details: "d; e", FallbackReason: other}},
		"weaker, for the same reason": {func(l Ledger) { l.Fallback(c, "m", why, "d"); l.Weaken(c, "", "") }, status.Enforcement{Mechanism: "m", Details: "d", FallbackReason: why}},
		"the first details":           {func(l Ledger) { l.Enforced(c, "m", ""); l.Note(c, "e") }, status.Enforcement{Effective: true, Mechanism: "m", Details: "e"}},
	} {
		l := Ledger{}
		l.Ask(c, "1G")
		line.write(l)
		line.want.Requested, line.want.Enabled = "1G", true
		if l[c] != line.want {
			t.Errorf("%s: %+v, want %+v", name, l[c], line.want)
		}
		l = Ledger{}
		l.Unasked(c, "none", "")
		line.write(l)
		if want := (status.Enforcement{Requested: "none", Mechanism: "none"}); l[c] != want {
			t.Errorf("%s, and not asked for: %+v", name, l[c])
		}
	}
}
