package inspect

import (
	"github.com/confine-run/confine/internal/seccomp"
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

	passes bool
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
	t, err := seccomp.TableOf(arch)
	if err != nil {
		return nil, err
	}
	l := &Listing{Policy: p.Version, Digest: f.Digest, Arch: arch, Action: string(a), Instructions: len(f.Program), Calls: []Call{}}
	newer, foreign := p.Others()
	l.Newer, l.Foreign = answer("", seccomp.Case{Verdict: newer}, a), answer("", seccomp.Case{Verdict: foreign}, a)
	for _, name := range t.Calls() {
		nr, _ := t.Number(name)
		l.Calls = append(l.Calls, Call{nr, name, answers(p, name, a)})
	}
	return l, nil
}

func answers(p *seccomp.Policy, name string, a seccomp.Action) (all []Case) {
	for _, c := range p.Cases(name, a) {
		all = append(all, answer(name, c, a))
	}
	return all
}

func answer(name string, c seccomp.Case, a seccomp.Action) Case {
	w := Case{Verdict: c.Under(a), Rule: c.Rule, Reason: c.Reason, passes: passes(c.Verdict, a)}
	for _, cond := range c.Conds {
		w.Conditions = append(w.Conditions, cond.Words(name))
	}
	return w
}

// passes says whether a call is made under an action.
func passes(v seccomp.Verdict, a seccomp.Action) bool {
	word := v.Under(a)
	return word == seccomp.Allow.String() || word == seccomp.Log.String()
}
