package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/confine-run/confine/integration/machines/orders"
	"github.com/confine-run/confine/status"
)

// outcome of a script, as "go test" prints it.
type outcome string

const (
	passed  outcome = "PASS"
	failed  outcome = "FAIL"
	skipped outcome = "SKIP"
)

// result is what a machine told.
type result struct {
	Release string
	Refused bool // confine answered that it can't enforce the policy there
	Hint    string
	Ledger  map[status.Capability]status.Enforcement
	Scripts map[string]outcome
}

// collect makes the result of all that was said. The scripts are those that
// were ordered.
func collect(said []orders.Said, scripts []string) (*result, error) {
	r := &result{Scripts: map[string]outcome{}}
	var lines []string
	done, reported := false, false
	for _, s := range said {
		switch {
		case s.Failed != "":
			return nil, errors.New(s.Failed)
		case s.Kernel != "":
			r.Release = s.Kernel
		case s.Report != nil:
			if err := r.take(s.Report); err != nil {
				return nil, err
			}
			reported = true
		case s.Done:
			done = true
		default:
			lines = append(lines, s.Line)
		}
	}
	if !done || !reported || r.Release == "" {
		return nil, errors.New("the machine ended before it had said everything")
	}
	if r.Refused {
		return r, nil
	}
	for _, line := range lines {
		if name, o, ok := outcomeOf(line); ok {
			r.Scripts[name] = o
		}
	}
	for _, name := range scripts {
		if r.Scripts[name] == "" {
			return nil, fmt.Errorf("the script %s never ended\n%s", name, strings.Join(lines, "\n"))
		}
		if r.Scripts[name] == failed {
			return nil, fmt.Errorf("scripts failed\n%s", strings.Join(lines, "\n"))
		}
	}
	return r, nil
}

// outcomeOf reads a line such as "    --- PASS: TestScripts/limits_cpu (3.42s)".
func outcomeOf(line string) (name string, o outcome, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "--- ")
	if !ok {
		return "", "", false
	}
	word, rest, _ := strings.Cut(rest, ": TestScripts/")
	name, _, ok = strings.Cut(rest, " ")
	return name, outcome(word), ok
}

// take reads the report of the ledger's run.
func (r *result) take(text []byte) error {
	var report status.Report
	if err := json.Unmarshal(text, &report); err != nil {
		return err
	}
	switch report.Status {
	case status.OK:
		r.Ledger = report.Enforced
		return nil
	case status.InternalError:
		if report.SetupError != nil && report.SetupError.Hint != "" {
			r.Refused, r.Hint = true, report.SetupError.Hint
			return nil
		}
	}
	return fmt.Errorf("confine didn't run, and has no hint why: %s", text)
}

// proves says whether the scripts of a capability show that it holds.
func (r *result) proves(c status.Capability) bool {
	proven := false
	for _, p := range proofs {
		for _, script := range p.scripts {
			if p.capability == c {
				proven = proven || r.Scripts[script] == passed
			}
		}
	}
	return proven
}
