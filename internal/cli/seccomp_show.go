package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine/seccomp/inspect"
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

// show prints what a policy does with every call, or its program.
func (p *policies) show() int {
	name, arch := "default", p.ownArch()
	if len(p.names) > 0 {
		name = p.names[0]
	}
	policy, err := p.load(name, arch)
	if err != nil {
		return p.usage(err)
	}
	if p.bpf {
		f, err := policy.Compile(p.action, arch)
		if err != nil {
			return p.usage(err)
		}
		text := f.Disassemble()
		out := program{f.Version, f.Digest, arch, string(p.action), len(f.Program), strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
		if p.json {
			return p.print(string(encode(out)))
		}
		var t table
		t.line(fmt.Sprintf("# %s for %s, %s: %d instructions", out.Policy, arch, out.Action, out.Instructions))
		t.line("# " + out.Digest)
		return p.print(t.String() + text)
	}
	list, err := inspect.List(policy, p.action, arch)
	if err != nil {
		return p.usage(err)
	}
	for _, n := range policy.Notices {
		p.log.notice(name + ":" + strconv.Itoa(n.Line) + ":" + strconv.Itoa(n.Column) + ": " + n.String())
	}
	if p.json {
		return p.print(string(encode(list)))
	}
	return p.print(listing(list))
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
