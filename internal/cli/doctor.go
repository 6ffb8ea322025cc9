package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/selftest"
	"github.com/confine-run/confine/status"
)

// diagnosis is what "doctor --json" prints.
type diagnosis struct {
	OK     bool          `json:"ok"` // the profile "default" can be enforced in full
	Checks []host.Result `json:"checks"`
	// Selftest are the attempts that would get through under that profile, by its ledger.
	Selftest []selftest.Foretold `json:"selftest"`

	withoutUserns bool // runs go on without a user namespace, which there is none of
}

// doctorCommand tries what this host can do.
func doctorCommand(s *session, line *Line) (int, error) {
	asJSON, err := line.on("json")
	if err != nil {
		return rcUsage, err
	}
	if clean, err := line.on("clean"); err != nil || clean {
		if err != nil {
			return rcUsage, err
		}
		return s.clean()
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
		d.withoutUserns = d.withoutUserns || r.Name == "userns" && r.Answer != host.Yes && host.Current().Privileged()
	}
	d.Selftest = s.forecast()
	return s.show(d.OK, asJSON, d, d.text)
}

// clean is "doctor --clean".
func (s *session) clean() (int, error) {
	if s.engine.Clean == nil {
		return s.print("nothing of a run outlives it on this system\n"), nil
	}
	n, err := s.engine.Clean()
	rc := s.print("runs that were cleaned up after: " + strconv.Itoa(n) + "\n")
	if err != nil {
		return s.problem(err, rcProblem)
	}
	return rc, nil
}

// forecast asks the plan, and makes no attempt.
func (s *session) forecast() []selftest.Foretold {
	if s.engine.Selftest == nil {
		return []selftest.Foretold{}
	}
	plain := config.Resolved{Policy: config.Default()}
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
		t.hint("  ", r.Remedy)
	}
	d.writeForecast(&t)
	t.line("")
	if d.OK {
		t.line("the profile \"default\" can be enforced in full")
	} else {
		t.line("the profile \"default\" can't be enforced in full: see the answers in capital letters")
		if d.withoutUserns {
			t.line("as root, runs go on without what needs a user namespace: \"confine explain -- true\" shows what holds")
		}
	}
	return strings.TrimPrefix(t.String(), "\n")
}

// forecast is one line for each reason.
func (d *diagnosis) writeForecast(t *table) {
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

// selftestCommand tries the built-in escape attempts, under the policy of a run.
func selftestCommand(s *session, line *Line) (int, error) {
	if len(line.Rest) > 0 {
		return rcUsage, &config.UsageError{
			Msg:  "selftest: unexpected word " + strconv.Quote(line.Rest[0]),
			Hint: "it runs what it has to try itself: confine selftest [options]",
		}
	}
	for _, set := range line.Settings {
		switch set.Option {
		case "report", "events", "record", "exit-codes", "tty":
			return rcUsage, &config.UsageError{Msg: "selftest: --" + set.Option + " is about one command", Hint: "--json prints the results"}
		}
	}
	r, err := s.resolve(line.Settings)
	if err != nil {
		return rcUsage, err
	}
	report, err := s.runAttempts(r)
	if err != nil {
		return s.problem(err, rcProblem)
	}
	return s.show(report.OK, r.Invocation.JSON, report, func() string { return selftestText(report) })
}

// runAttempts makes the attempts. An interrupt ends them, and nothing is left.
func (s *session) runAttempts(r *config.Resolved) (*selftest.Report, error) {
	e, err := s.engine.Explain(s.ctx, r, []string{"/bin/true"})
	if err != nil {
		return nil, err
	}
	ctx, stop := signal.NotifyContext(s.ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	results, err := s.engine.Selftest(ctx, r)
	if err != nil {
		return nil, err
	}
	facts := host.Current()
	return selftest.NewReport(results, selftest.Report{
		Profile: r.Policy.Profile, PolicyDigest: e.PolicyDigest, Refused: e.Refused,
		DurationMS: time.Since(began).Milliseconds(),
		Host:       status.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Kernel: facts.Release(), UID: facts.UID()},
	}), nil
}

// trySelftest is the engine's part that is the same on every system.
func trySelftest(ctx context.Context, r *config.Resolved) ([]selftest.Result, error) {
	return selftest.Run(ctx, &r.Policy, r.Protected)
}

// selftestText is the table, and then what needs more words.
func selftestText(r *selftest.Report) string {
	words := map[selftest.Outcome]string{selftest.Held: "held", selftest.Failed: "FAILED", selftest.NotTestable: "not testable"}
	var t table
	t.head("result", "attempt", "what it tries")
	for _, a := range r.Attempts {
		t.row(words[a.Outcome], a.Name, a.Tries)
	}
	t.end()
	for _, part := range []struct {
		selftest.Outcome
		head string
	}{{selftest.NotTestable, "not testable here, because"}, {selftest.Failed, "FAILED:"}} {
		head := part.head
		for _, a := range r.Attempts {
			if a.Outcome != part.Outcome {
				continue
			}
			if head != "" {
				t.line("")
				t.line(head)
				head = ""
			}
			t.line("  " + a.Name + ": " + a.Why)
			if a.Outcome == selftest.Failed {
				t.pair("    the ledger says so: ", a.Foretold)
			}
		}
	}
	t.line("")
	t.pair("a run under this policy would not start here: ", r.Refused)
	t.line(fmt.Sprintf("profile %q: %d held, %d FAILED, %d not testable here, in %.1f s",
		r.Profile, r.Held, r.Failed, r.NotTestable, float64(r.DurationMS)/1000))
	return strings.TrimPrefix(t.String(), "\n")
}
