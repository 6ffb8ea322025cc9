package selftest

import (
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// Outcome is how one attempt ended.
type Outcome string

const (
	Held        Outcome = "held"
	Failed      Outcome = "failed"       // the attempt got through, or nobody knows why it didn't
	NotTestable Outcome = "not_testable" // here: it doesn't work outside either, or the policy has nothing to say about it
)

// Result is what came of one attempt.
type Result struct {
	Name       string              `json:"name"`
	Invariant  int                 `json:"invariant"` // 1 nothing leaks in, 2 nothing outlives, 4 paths, 5 privileges, 6 system calls, 8 the report; 3 limits and the network
	Tries      string              `json:"tries"`
	Walls      []status.Capability `json:"walls"` // each holds it by itself; none: every run holds it
	Outcome    Outcome             `json:"outcome"`
	Why        string              `json:"why"`
	Control    string              `json:"control"` // what became of the same attempt outside
	DurationMS int64               `json:"duration_ms"`
	Foretold   string              `json:"foretold,omitempty"` // why the ledger says that it isn't held here
}

// Report is the whole self-test.
type Report struct {
	Version      int         `json:"version"`
	OK           bool        `json:"ok"`
	Profile      string      `json:"profile"`
	PolicyDigest string      `json:"policy_digest"`
	Held         int         `json:"held"`
	Failed       int         `json:"failed"`
	NotTestable  int         `json:"not_testable"`
	DurationMS   int64       `json:"duration_ms"`
	Host         status.Host `json:"host"`
	// Refused is why a run under this policy would not even start here. The attempts
	// are then made with what the host lacks left out, as by --allow-partial all.
	Refused  string   `json:"refused,omitempty"`
	Attempts []Result `json:"attempts"`
}

// Foretold is an attempt that the ledger says would not be held.
type Foretold struct {
	Name  string `json:"name"`
	Tries string `json:"tries"`
	Why   string `json:"why"`
}

// order is what the caller is told to do.
type order struct {
	Policy      config.Policy
	ConfigFiles []string
	Dir         string // the scene's
	Key         string // in its session keyring
	Variable    string // in its environment
}

// NewReport counts results; of the rest it takes what it is told.
func NewReport(results []Result, r Report) *Report {
	r.Version, r.Attempts = 1, results
	for _, a := range results {
		switch a.Outcome {
		case Held:
			r.Held++
		case NotTestable:
			r.NotTestable++
		default:
			r.Failed++
		}
	}
	r.OK = r.Failed == 0 && r.Held > 0
	return &r
}
