package selftest

import (
	"context"
	"strconv"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

// attempt is one line of the table. Words in braces are the scene's.
type attempt struct {
	name      string
	invariant int
	tries     string // in one sentence
	walls     []status.Capability
	limit     bool // a limit, which the attempt sets itself: a policy may have none

	inside  string // words of package attempts
	outside string // of the control; empty: the same, all of it where inside any of it is enough
	rooted  root   // how the control is made, where it may need privileges or would change the host

	policy  func(*config.Policy, values) // what has to be so for it to be tried, and small limits
	streams bool                         // its three streams are files
	traces  bool                         // what counts is whether anything outside has changed, not what it believes
	leaves  bool                         // it is held when nothing with the token is left
	ends    []status.Status              // other ends that are as good as a refusal
	special func(*driver, context.Context, *attempt, *Result) (Outcome, string)
	skip    func(*config.Policy, values) string // why there is nothing to try
}

// root is a control as root of namespaces of its own. They cost something: no more
// than it needs.
type root int

const (
	asItIs  root = iota
	ownView      // mounts, host name
	ownNet       // the network, too
)

// values are the scene's words.
type values map[string]string

func (v values) port(name string) int {
	n, _ := strconv.Atoi(v[name])
	return n
}

// table is made when it is asked for, which is seldom.
func table() (all []attempt) {
	all = append(all, leaks()...)
	all = append(all, survivors()...)
	all = append(all, limits()...)
	all = append(all, reach()...)
	all = append(all, files()...)
	all = append(all, privileges()...)
	all = append(all, calls()...)
	return append(all, reports()...)
}

func walls(all ...status.Capability) []status.Capability { return all }

// rank is higher for what takes longer.
func (a *attempt) rank() int {
	if a.limit || a.leaves {
		return 1
	}
	return 0
}

// foretell says why the ledger doesn't promise that an attempt is held; "" where
// it does. One wall that stands is enough.
func (a *attempt) foretell(ledger map[status.Capability]status.Enforcement) string {
	why := ""
	for _, wall := range a.walls {
		e := ledger[wall]
		switch {
		case e.Enabled && e.Effective:
			return ""
		case !e.Enabled:
			why = string(wall) + ": the policy doesn't ask for it"
		case e.Details != "" && e.FallbackReason != "":
			why = string(wall) + ": " + e.Details + " (" + string(e.FallbackReason) + ")"
		default:
			why = string(wall) + ": " + e.Details + string(e.FallbackReason)
		}
	}
	return why
}

// Forecast names the attempts that the ledger says would not be held. A limit that
// the policy doesn't set is none of them.
func Forecast(ledger map[status.Capability]status.Enforcement) (all []Foretold) {
	for _, a := range table() {
		if a.limit && !ledger[a.walls[0]].Enabled {
			continue
		}
		if why := a.foretell(ledger); why != "" {
			all = append(all, Foretold{a.name, a.tries, why})
		}
	}
	return all
}
