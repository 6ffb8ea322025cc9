package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine/seccomp"
	"github.com/confine-run/confine/confine/seccomp/inspect"
)

// verdict is what "seccomp check --json" prints.
type verdict struct {
	Policy   string            `json:"policy"`
	Valid    bool              `json:"valid"`
	OK       bool              `json:"ok"` // valid, and no warnings
	Error    *policyError      `json:"error,omitempty"`
	Digests  map[string]string `json:"digests"` // by architecture
	Findings []inspect.Finding `json:"findings"`
}

type policyError struct {
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// check says whether a file is a policy, and what is doubtful about it. It ends with
// 0 when nothing is, with 1 when something is, with 2 when it is no policy.
func (p *policies) check() int {
	name := p.names[0]
	v := verdict{Policy: name, Valid: true, Digests: map[string]string{}, Findings: []inspect.Finding{}}
	arches := policyArches
	if p.arch != "" {
		arches = []string{p.arch}
	}
	var found [][]inspect.Finding
	for _, arch := range arches {
		policy, err := p.load(name, arch)
		if err != nil {
			return p.invalid(&v, err)
		}
		// Of every action: they differ in what is let through, and in length.
		for _, a := range policyActions {
			if _, err := policy.Compile(seccomp.Action(a), arch); err != nil {
				return p.invalid(&v, err)
			}
		}
		list, err := inspect.Check(policy, p.action, arch)
		if err != nil {
			return p.invalid(&v, err)
		}
		found = append(found, list)
		v.Digests[arch] = policy.Digest()
	}
	v.Findings = append(v.Findings, inspect.Merge(found...)...)
	warnings := 0
	for _, f := range v.Findings {
		if f.Level == inspect.Warning {
			warnings++
		}
	}
	v.OK = warnings == 0
	rc := rcOK
	if !v.OK {
		rc = rcNo
	}
	if p.json {
		return p.printRC(string(encode(v)), rc)
	}
	return p.printRC(v.text(warnings, arches), rc)
}

// invalid ends a check of what is no policy.
func (p *policies) invalid(v *verdict, err error) int {
	p.log.failure(err)
	if !p.json {
		return rcInvalid
	}
	msg, hint, _ := strings.Cut(err.Error(), "\nhint: ")
	v.Valid, v.Error = false, &policyError{Message: msg, Hint: hint}
	var place *seccomp.PolicyError
	if errors.As(err, &place) {
		v.Error = &policyError{place.Line, place.Column, place.Msg, place.Hint}
	}
	return p.printRC(string(encode(v)), rcInvalid)
}

func (v *verdict) text(warnings int, arches []string) string {
	var t table
	for _, f := range v.Findings {
		place := v.Policy
		if f.Line > 0 {
			place += ":" + strconv.Itoa(f.Line) + ":" + strconv.Itoa(f.Column)
		}
		text := place + ": " + string(f.Level) + ": " + f.What
		if f.Verdict != "" {
			text += ": " + f.Verdict + ", by " + rule(f.Rule)
		}
		if f.Why != "" {
			text += ": " + f.Why
		}
		if len(f.Arches) < len(arches) {
			text += " (" + strings.Join(f.Arches, ", ") + ")"
		}
		t.line(text)
	}
	t.line(fmt.Sprintf("%s is a policy for %s; %s, %s", v.Policy, strings.Join(arches, " and "),
		plural(warnings, "warning"), plural(len(v.Findings)-warnings, "note")))
	return t.String()
}

// rule names a rule, or what decides when there is none.
func rule(name string) string {
	switch name {
	case "default", "unknown":
		return "default"
	}
	return "rule " + strconv.Quote(name)
}
