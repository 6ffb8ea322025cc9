package cli

import (
	"strings"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/selftest"
)

// diagnosis is what "doctor --json" prints.
type diagnosis struct {
	OK     bool          `json:"ok"` // the profile "default" can be enforced in full
	Checks []host.Result `json:"checks"`
	// Selftest are the attempts that would get through under that profile, by its ledger.
	Selftest []selftest.Foretold `json:"selftest"`
}

// doctorCommand tries what this host can do.
func doctorCommand(s *session, line *Line) (int, error) {
	asJSON, err := line.on("json")
	if err != nil {
		return rcUsage, err
	}
	results, err := s.engine.Doctor(s.ctx)
	if err != nil {
		return s.problem(err, rcProblem)
	}
	d := diagnosis{OK: len(results) > 0, Checks: append([]host.Result{}, results...)}
	for _, r := range results {
		if r.Needed && r.Answer != host.Yes {
			d.OK = false
		}
	}
	d.Selftest = s.foretold()
	return s.show(d.OK, asJSON, d, d.text)
}

// foretold asks the plan, and makes no attempt.
func (s *session) foretold() []selftest.Foretold {
	plain := confine.Resolved{Policy: confine.Default()}
	e, err := s.engine.Explain(s.ctx, &plain, []string{"/bin/true"})
	if err != nil || len(e.Enforced) == 0 {
		return []selftest.Foretold{}
	}
	return append([]selftest.Foretold{}, selftest.Forecast(e.Enforced)...)
}

func (d *diagnosis) text() string {
	var t table
	t.head("answer", "what", "gives")
	for _, r := range d.Checks {
		answer := string(r.Answer)
		if r.Answer != host.Yes && r.Needed {
			answer = strings.ToUpper(answer)
		}
		t.row(answer, r.Name, r.Means)
	}
	t.end()
	for _, r := range d.Checks {
		if r.Answer == host.Yes {
			continue
		}
		t.line("")
		t.line(r.Name + ": " + string(r.Answer))
		for detail := range strings.SplitSeq(r.Detail, "\n") {
			t.pair("  ", detail)
		}
		lead := "  hint: "
		for remedy := range strings.SplitSeq(r.Remedy, "\n") {
			if remedy != "" {
				t.line(lead + remedy)
				lead = "        "
			}
		}
	}
	d.foretold(&t)
	t.line("")
	if d.OK {
		t.line("the profile \"default\" can be enforced in full")
	} else {
		t.line("the profile \"default\" can't be enforced in full: see the answers in capital letters")
	}
	return strings.TrimPrefix(t.String(), "\n")
}

// foretold is one line for each reason.
func (d *diagnosis) foretold(t *table) {
	var reasons []string
	names := map[string][]string{}
	for _, a := range d.Selftest {
		if names[a.Why] == nil {
			reasons = append(reasons, a.Why)
		}
		names[a.Why] = append(names[a.Why], a.Name)
	}
	if len(reasons) > 0 {
		t.line("")
		t.line("attempts of \"confine selftest\" that may get through here:")
	}
	for _, why := range reasons {
		t.line("  " + strings.Join(names[why], " "))
		t.line("    " + why)
	}
}
