package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/cli/outputs"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/seccomp"
	"github.com/confine-run/confine/internal/seccomp/inspect"
	"github.com/confine-run/confine/internal/seccomp/policyfile"
)

// rcInvalid: "seccomp check" was given what is no policy.
const rcInvalid = 2

// policies is one call of "confine seccomp".
type policies struct {
	*session
	names  []string // policies that ship, or files
	arch   string   // "" when it wasn't said
	action seccomp.Action
	kernel policyfile.Kernel
	json   bool
	bpf    bool
}

// seccompCommand shows, checks and compares policies over system calls.
func seccompCommand(s *session, line *Line) (int, error) {
	c := lookup("seccomp")
	p := policies{session: s, action: seccomp.ActionErrno}
	if err := p.settings(line); err != nil {
		return rcUsage, err
	}
	if len(line.Rest) == 0 {
		return rcUsage, &config.UsageError{Msg: "seccomp: not said what to do", Hint: "usage: confine seccomp " + c.Args}
	}
	p.names = line.Rest[1:]
	verb, least, most, rest := p.list, 0, 1, "[POLICY]"
	switch line.Rest[0] {
	case "show":
	case "check":
		verb, least, most, rest = p.check, 1, 1, "FILE"
	case "diff":
		verb, least, most, rest = p.diff, 2, 2, "POLICY POLICY"
	default:
		return rcUsage, unknownWord("word after seccomp", line.Rest[0], c.Words)
	}
	if n := len(p.names); n < least || n > most {
		return rcUsage, &config.UsageError{Msg: "seccomp " + line.Rest[0] + ": " + strconv.Itoa(n) + " policies were named",
			Hint: "usage: confine seccomp " + line.Rest[0] + " " + rest}
	}
	if p.bpf && line.Rest[0] != "show" {
		return rcUsage, &config.UsageError{Msg: "--bpf: only \"seccomp show\" prints the program"}
	}
	return verb()
}

// settings reads the options.
func (p *policies) settings(line *Line) (err error) {
	if p.json, err = line.on("json"); err != nil {
		return err
	}
	if p.bpf, err = line.on("bpf"); err != nil {
		return err
	}
	var said bool
	if p.arch, said = line.last("arch"); said && !slices.Contains(policyArches, p.arch) {
		return unknownWord("architecture", p.arch, policyArches)
	}
	if action, said := line.last("action"); said {
		if p.action = seccomp.Action(action); !slices.Contains(policyActions, action) {
			return unknownWord("action", action, policyActions)
		}
	}
	version := host.Current().Kernel()
	if word, said := line.last("kernel"); said {
		if version = host.ParseKernel(word); version.IsZero() {
			return &config.UsageError{Msg: "--kernel: " + strconv.Quote(word) + " is no kernel version", Hint: "--kernel 6.1"}
		}
	}
	p.kernel = policyfile.Kernel(version)
	return nil
}

// ownArch is the architecture that was named, or else this one, or else the most
// frequent one.
func (p *policies) ownArch() string {
	switch {
	case p.arch != "":
		return p.arch
	case slices.Contains(policyArches, runtime.GOARCH):
		return runtime.GOARCH
	}
	return policyArches[0]
}

// load reads a policy by the name it was given: "default", "strict/2" or a file.
func (p *policies) load(name, arch string) (*seccomp.Policy, error) {
	on := policyfile.Target{Arch: arch, Kernel: p.kernel}
	for _, word := range policyWords {
		if name == word || name == seccomp.Builtin(word).Version {
			return policyfile.Load(word, on)
		}
	}
	file, err := policyfile.Load(name, on)
	if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, `/\.`) {
		return nil, unknownWord("policy", name, policyWords)
	}
	return file, err
}

var (
	policyWords   = []string{"default", "strict"}
	policyArches  = []string{"amd64", "arm64"}
	policyActions = []string{"errno", "kill", "log"}
)

// program is what "seccomp show --bpf --json" prints.
type program struct {
	Policy       string   `json:"policy"`
	Digest       string   `json:"digest"`
	Arch         string   `json:"arch"`
	Action       string   `json:"action"`
	Instructions int      `json:"instructions"`
	Program      []string `json:"program"`
}

// list prints what a policy does with every call, or its program.
func (p *policies) list() (int, error) {
	name, arch := "default", p.ownArch()
	if len(p.names) > 0 {
		name = p.names[0]
	}
	policy, err := p.load(name, arch)
	if err != nil {
		return rcUsage, err
	}
	if p.bpf {
		f, err := policy.Compile(p.action, arch)
		if err != nil {
			return rcUsage, err
		}
		text := f.Disassemble()
		out := program{f.Version, f.Digest, arch, string(p.action), len(f.Program), strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
		if p.json {
			return p.print(string(outputs.Encode(out))), nil
		}
		var t table
		t.line(fmt.Sprintf("# %s for %s, %s: %d instructions", out.Policy, arch, out.Action, out.Instructions))
		t.line("# " + out.Digest)
		return p.print(t.String() + text), nil
	}
	list, err := inspect.List(policy, p.action, arch)
	if err != nil {
		return rcUsage, err
	}
	for _, n := range policy.Notices {
		p.log.notice(name + ":" + strconv.Itoa(n.Line) + ":" + strconv.Itoa(n.Column) + ": " + n.String())
	}
	if p.json {
		return p.print(string(outputs.Encode(list))), nil
	}
	return p.print(listing(list)), nil
}

func listing(l *inspect.Listing) string {
	var t table
	t.line(fmt.Sprintf("%s for %s, %s: %d instructions", l.Policy, l.Arch, l.Action, l.Instructions))
	t.line(l.Digest)
	t.head("number", "call", "verdict", "when", "rule", "reason")
	for _, c := range l.Calls {
		for i, answer := range c.Cases {
			number, call, when := strconv.Itoa(c.Number), c.Name, strings.Join(answer.Conditions, " and ")
			if i > 0 {
				number, call = "", ""
			}
			if when == "" && len(c.Cases) > 1 {
				when = "otherwise"
			}
			t.row(number, call, answer.Verdict, when, answer.Rule, answer.Reason)
		}
	}
	t.row("", "any other number", l.Newer.Verdict, "", l.Newer.Rule, l.Newer.Reason)
	t.row("", "another architecture, x32", l.Foreign.Verdict, "", l.Foreign.Rule, l.Foreign.Reason)
	t.end()
	return t.String()
}

// diff prints the calls that two policies don't treat alike. It ends with 0 when
// there are none, and with 1 when there are.
func (p *policies) diff() (int, error) {
	arch := p.ownArch()
	from, err := p.load(p.names[0], arch)
	if err != nil {
		return rcUsage, err
	}
	to, err := p.load(p.names[1], arch)
	if err != nil {
		return rcUsage, err
	}
	d, err := inspect.Compare(from, to, p.action, arch)
	if err != nil {
		return rcUsage, err
	}
	return p.show(len(d.Changes) == 0, p.json, d, func() string { return differences(d) })
}

// kinds are the headings of a difference, the weightiest first.
var kinds = []struct {
	kind  inspect.Kind
	title string
}{
	{inspect.Allowed, "allowed, and was refused"},
	{inspect.Wider, "more of it is let through"},
	{inspect.Refused, "refused, and was let through"},
	{inspect.Narrower, "less of it is let through"},
	{inspect.Otherwise, "decided otherwise"},
	{inspect.Rewritten, "written differently, and no call was found that tells them apart"},
}

func differences(d *inspect.Difference) string {
	var t table
	t.line(fmt.Sprintf("%s → %s for %s, %s: %s", d.From, d.To, d.Arch, d.Action, plural(len(d.Changes), "call")))
	for _, k := range kinds {
		first := true
		for _, c := range d.Changes {
			if c.Kind != k.kind {
				continue
			}
			if first {
				t.line("")
				t.line(k.title + ":")
				first = false
			}
			t.line("  " + c.Call)
			if len(c.Before) == 1 && len(c.After) == 1 {
				t.line("      " + answer(c.Before[0]) + " → " + answer(c.After[0]))
				continue
			}
			for _, b := range c.Before {
				t.line("    - " + answer(b))
			}
			for _, a := range c.After {
				t.line("    + " + answer(a))
			}
			t.pair("      as ", c.Example)
		}
	}
	return t.String()
}

func answer(c inspect.Case) string {
	s := c.Verdict
	if len(c.Conditions) > 0 {
		s += " when " + strings.Join(c.Conditions, " and ")
	}
	return s + " (" + rule(c.Rule) + ")"
}

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
func (p *policies) check() (int, error) {
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
	return p.show(v.OK, p.json, v, func() string { return v.text(warnings, arches) })
}

// invalid ends a check of what is no policy.
func (p *policies) invalid(v *verdict, err error) (int, error) {
	p.log.failure(err)
	if !p.json {
		return rcInvalid, nil
	}
	msg, remedy := hint.Split(err)
	v.Valid, v.Error = false, &policyError{Message: msg, Hint: remedy}
	if place, ok := errors.AsType[*seccomp.PolicyError](err); ok {
		v.Error = &policyError{place.Line, place.Column, place.Msg, place.Hint}
	}
	return p.printRC(string(outputs.Encode(v)), rcInvalid), nil
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
