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

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/selftest"
	"github.com/confine-run/confine/status"
)

// selftestCommand tries the built-in escape attempts, under the policy of a run.
func selftestCommand(s *session, line *Line) (int, error) {
	if len(line.Rest) > 0 {
		return rcUsage, &confine.UsageError{
			Msg:  "selftest: unexpected word " + strconv.Quote(line.Rest[0]),
			Hint: "it runs what it has to try itself: confine selftest [options]",
		}
	}
	for _, set := range line.Settings {
		switch set.Option {
		case "report", "events", "exit-codes", "tty":
			return rcUsage, &confine.UsageError{Msg: "selftest: --" + set.Option + " is about one command", Hint: "--json prints the results"}
		}
	}
	r, err := s.resolve(line.Settings)
	if err != nil {
		return rcUsage, err
	}
	report, err := s.tested(r)
	if err != nil {
		return s.problem(err, rcProblem)
	}
	return s.show(report.OK, r.Invocation.JSON, report, func() string { return selftestText(report) })
}

// tested makes the attempts. An interrupt ends them, and nothing is left.
func (s *session) tested(r *confine.Resolved) (*selftest.Report, error) {
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
func trySelftest(ctx context.Context, r *confine.Resolved) ([]selftest.Result, error) {
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
	for _, outcome := range []selftest.Outcome{selftest.NotTestable, selftest.Failed} {
		first := true
		for _, a := range r.Attempts {
			if a.Outcome != outcome {
				continue
			}
			if first {
				t.line("")
				t.line(map[selftest.Outcome]string{selftest.Failed: "FAILED:", selftest.NotTestable: "not testable here, because"}[outcome])
				first = false
			}
			t.line("  " + a.Name + ": " + a.Why)
			if outcome == selftest.Failed {
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
