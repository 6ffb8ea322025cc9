package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/seccomp"
)

// Level is how much a finding weighs.
type Level string

const (
	Warning Level = "warning" // ordinary programs fail, or a wall has a hole
	Note    Level = "note"    // worth knowing
)

// Finding is something about a policy that whoever wrote it should know.
type Finding struct {
	Level   Level    `json:"level"`
	Arches  []string `json:"arches"`
	What    string   `json:"what"`              // "socket(AF_VSOCK, SOCK_STREAM, …)"
	Verdict string   `json:"verdict,omitempty"` // "allow", "errno EPERM" …
	Rule    string   `json:"rule,omitempty"`
	Why     string   `json:"why"`
	Line    int      `json:"line,omitempty"` // where that is known
	Column  int      `json:"column,omitempty"`
}

// Check says what a policy denies of what ordinary programs need, and what it lets
// through that the policies that ship don't.
func Check(p *seccomp.Policy, a seccomp.Action, arch string) (all []Finding, err error) {
	if _, err := p.Compile(a, arch); err != nil {
		return nil, err
	}
	t, err := seccomp.TableOf(arch)
	if err != nil {
		return nil, err
	}
	for _, n := range p.Notices {
		f := Finding{Level: Note, What: n.Text, Why: n.Hint, Line: n.Line, Column: n.Column}
		if n.Doubtful {
			f.Level = Warning
		}
		all = append(all, f)
	}
	look := func(level Level, tries []attempt, odd func(v seccomp.Verdict) bool) {
		for _, try := range tries {
			if _, there := t.Number(try.call); !there {
				continue
			}
			if plain := try.plain(); plain != try.args && odd(p.Decide(try.call, plain)) {
				continue // it need not be dodged
			}
			if v := p.Decide(try.call, try.args); odd(v) {
				all = append(all, Finding{Level: level, What: try.words(t), Verdict: v.Under(a), Rule: v.Rule, Why: try.why})
			}
		}
	}
	through := func(v seccomp.Verdict) bool { return passes(v, a) }
	look(Warning, needed[:], func(v seccomp.Verdict) bool { return !through(v) && v.Under(a) != "errno ENOSYS" })
	look(Warning, dangerous[:], through)
	look(Warning, namespaces[:], through)
	look(Note, worthKnowing[:], through)
	if newer, _ := p.Others(); through(newer) {
		all = append(all, Finding{Level: Note, What: "calls that are newer than the table", Verdict: newer.Under(a), Rule: newer.Rule,
			Why: "whatever a later kernel brings is let through with them"})
	}
	for i := range all {
		all[i].Arches = []string{arch}
	}
	return all, nil
}

// plain are the arguments without the bits that the kernel ignores.
func (a *attempt) plain() [6]uint64 {
	args := a.args
	for i := range args {
		args[i] &^= upper
	}
	return args
}

// words are the attempt as a report would name it.
func (a *attempt) words(t *seccomp.Table) string {
	s := t.Words(a.call, a.args)
	for i, v := range a.args {
		if v >= upper {
			s += fmt.Sprintf(" with arg %d = %#x", i, v)
		}
	}
	return s
}

// Merge joins the findings of several architectures.
func Merge(lists ...[]Finding) (all []Finding) {
	for _, list := range lists {
		for _, f := range list {
			same := func(g Finding) bool {
				return g.What == f.What && g.Verdict == f.Verdict && g.Rule == f.Rule && g.Line == f.Line && g.Column == f.Column
			}
			if i := slices.IndexFunc(all, same); i >= 0 {
				if !slices.Contains(all[i].Arches, f.Arches[0]) {
					all[i].Arches = append(slices.Clip(all[i].Arches), f.Arches...)
				}
				continue
			}
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(f, g Finding) int { return strings.Compare(string(g.Level), string(f.Level)) })
	return all
}
