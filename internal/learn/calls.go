package learn

import (
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/seccomp"
)

// companion is the policy over system calls that lets through what was needed beyond
// strict, or "". Where hosts may be reached, strict has sockets for that by itself; where
// none is, a program's own servers on its own loopback need them as well.
func (s *Seen) companion(n *notes, network bool) string {
	var rules []string
	for i := range s.Calls {
		c := &s.Calls[i]
		if network && !c.Refused && seccomp.OfNetwork(c.Name, c.Args) {
			continue
		}
		rule, ok := seccomp.Narrow(c.Name, c.Args)
		if c.Refused || !ok {
			n.refused(word(c.What), c.Comm, "not even the policy \"default\" lets it through")
			continue
		}
		rule.Reason = "learned: " + c.What
		if c.Comm != "" {
			rule.Reason += " by " + word(c.Comm)
		}
		if text := rule.TOML(); !alreadyRuled(rules, text) {
			rules = append(rules, text)
		}
	}
	if len(rules) == 0 && !(network && s.Beside.Companion) {
		return ""
	}
	text := mark + "What the command needs beyond \"strict\", by its arguments where policies look at them.\n"
	if network {
		text += mark + "The last rule is what \"strict\" has by itself where hosts may be reached.\n"
		for _, r := range seccomp.Network.Rules() {
			rules = append(rules, r.TOML())
		}
	}
	return text + "extends = \"strict\"\n" + strings.Join(rules, "")
}

// alreadyRuled: the same but for its reason.
func alreadyRuled(rules []string, text string) bool {
	return slices.ContainsFunc(rules, func(r string) bool { return bare(r) == bare(text) })
}

// bare is a rule without its name and its reason.
func bare(rule string) string {
	var b strings.Builder
	for line := range strings.Lines(rule) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !strings.HasPrefix(line, "reason ") && !strings.HasPrefix(line, "rule ") {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// MergeCompanion adds the rules of one policy to an older one that lacks them.
func MergeCompanion(old, text string) string {
	if strings.TrimSpace(old) == "" {
		return text
	}
	const begin = "[[rules]]"
	blocks := func(s string) []string { return strings.Split("\n"+s, "\n"+begin) }
	have := blocks(old)
	// What was learned comes before what extends and the network's rule give.
	added := ""
	for _, b := range blocks(text)[1:] {
		if !alreadyRuled(have[1:], b) {
			added += begin + strings.TrimRight(b, "\n") + "\n\n"
		}
	}
	if added == "" {
		return old
	}
	return strings.TrimRight(old, "\n") + "\n\n" + strings.TrimRight(added, "\n") + "\n"
}
