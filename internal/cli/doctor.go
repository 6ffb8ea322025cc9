package cli

import (
	"strings"

	"github.com/confine-run/confine/internal/host"
)

// diagnosis is what "doctor --json" prints.
type diagnosis struct {
	OK     bool          `json:"ok"` // the profile "default" can be enforced in full
	Checks []host.Result `json:"checks"`
}

// doctor tries what this host can do.
func (s *session) doctor(args []string) int {
	line, err := words(lookup("doctor"), args, 0)
	if err != nil {
		return s.usage(err)
	}
	if line.Help {
		return s.page("doctor")
	}
	asJSON, err := line.wantsJSON()
	if err != nil {
		return s.usage(err)
	}
	results, err := s.engine.Doctor(s.ctx)
	if err != nil {
		s.log.failure(err)
		return rcProblem
	}
	d := diagnosis{OK: len(results) > 0, Checks: append([]host.Result{}, results...)}
	for _, r := range results {
		if r.Needed && r.Answer != host.Yes {
			d.OK = false
		}
	}
	rc := rcNo
	if d.OK {
		rc = rcOK
	}
	if asJSON {
		return s.printRC(string(encode(d)), rc)
	}
	return s.printRC(d.text(), rc)
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
	t.line("")
	if d.OK {
		t.line("the profile \"default\" can be enforced in full")
	} else {
		t.line("the profile \"default\" can't be enforced in full: see the answers in capital letters")
	}
	return strings.TrimPrefix(t.String(), "\n")
}
