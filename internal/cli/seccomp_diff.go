package cli

import (
	"fmt"
	"strings"

	"github.com/confine-run/confine/confine/seccomp/inspect"
)

// diff prints the calls that two policies don't treat alike. It ends with 0 when
// there are none, and with 1 when there are.
func (p *policies) diff() int {
	arch := p.ownArch()
	from, err := p.load(p.names[0], arch)
	if err != nil {
		return p.usage(err)
	}
	to, err := p.load(p.names[1], arch)
	if err != nil {
		return p.usage(err)
	}
	d, err := inspect.Compare(from, to, p.action, arch)
	if err != nil {
		return p.usage(err)
	}
	rc := rcOK
	if len(d.Changes) > 0 {
		rc = rcNo
	}
	if p.json {
		return p.printRC(string(encode(d)), rc)
	}
	return p.printRC(differences(d), rc)
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
