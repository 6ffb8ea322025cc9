package inspect

import (
	"github.com/confine-run/confine/confine/seccomp"
)

// Call is what a policy does with a system call, under an action.
type Call struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	Cases  []Case `json:"cases"`
}

// Case is one answer to a call. The first whose conditions hold is given; the last
// has none.
type Case struct {
	Conditions []string `json:"conditions,omitempty"` // all must hold
	Verdict    string   `json:"verdict"`              // "allow", "log", "kill" or "errno NAME"
	Rule       string   `json:"rule"`
	Reason     string   `json:"reason,omitempty"`

	through bool
}

// Listing is a policy as it holds on one architecture.
type Listing struct {
	Policy       string `json:"policy"`
	Digest       string `json:"digest"`
	Arch         string `json:"arch"`
	Action       string `json:"action"`
	Instructions int    `json:"instructions"`
	Newer        Case   `json:"newer"`   // numbers that have no name
	Foreign      Case   `json:"foreign"` // calls of another architecture
	Calls        []Call `json:"calls"`
}

// List gives every call of the architecture, in the order of their numbers.
func List(p *seccomp.Policy, a seccomp.Action, arch string) (*Listing, error) {
	f, err := p.Compile(a, arch)
	if err != nil {
		return nil, err
	}
	names, err := seccomp.Calls(arch)
	if err != nil {
		return nil, err
	}
	newer, foreign := p.Others()
	l := &Listing{Policy: p.Version, Digest: f.Digest, Arch: arch, Action: string(a), Instructions: len(f.Program),
		Newer: worded("", seccomp.Case{Verdict: newer}, a), Foreign: worded("", seccomp.Case{Verdict: foreign}, a), Calls: []Call{}}
	for _, name := range names {
		nr, _ := seccomp.Number(arch, name)
		l.Calls = append(l.Calls, Call{nr, name, answers(p, name, a)})
	}
	return l, nil
}

func answers(p *seccomp.Policy, name string, a seccomp.Action) (all []Case) {
	for _, c := range p.Cases(name, a) {
		all = append(all, worded(name, c, a))
	}
	return all
}

func worded(name string, c seccomp.Case, a seccomp.Action) Case {
	w := Case{Verdict: c.Under(a), Rule: c.Rule, Reason: c.Reason}
	w.through = w.Verdict == "allow" || w.Verdict == "log"
	for _, cond := range c.Conds {
		w.Conditions = append(w.Conditions, cond.Words(name))
	}
	return w
}
