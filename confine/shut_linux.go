package confine

import (
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine/view"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/quote"
)

const (
	whyShut = ", and Landlock, alone, makes no exceptions from what it allows"
	// A file in the tree would be protected itself.
	hintShut = "directories below can be written to; protect = [] under [sandbox.filesystem] in a --config FILE outside the tree lets all be done, " +
		"also to git's hooks and configuration"
)

// shut says of writable trees on bare ground what can't be done at their top, since programs
// don't: they report a permission that the mode grants.
func (p *planner) shut() {
	last := ""
	for _, d := range p.ruleset.Immutable {
		if last != "" && strings.HasPrefix(d.Dir, last+"/") {
			continue // told with what it is in
		}
		last = strings.TrimSuffix(d.Dir, "/")
		text := "nothing can be made, renamed or removed directly in " + strconv.Quote(d.Dir)
		if deeper := p.shutBelow(last); len(deeper) > 0 {
			text += " and " + quote.Some(deeper)
		}
		remedy, all := "", true
		for _, at := range d.For {
			if p.protects(at) {
				remedy = hintShut
			} else {
				all = false
			}
		}
		names := make([]string, len(d.For))
		for i, at := range d.For {
			names[i] = strings.TrimPrefix(at, last+"/")
		}
		verb, how := "are", "protected"
		if len(names) == 1 {
			verb = "is"
		}
		if !all {
			how = "protected, read-only or hidden"
		}
		p.plan.Notices = append(p.plan.Notices, hint.Notice{Text: text + ", since " + quote.Some(names) + " in it " + verb + " " + how + whyShut, Remedy: remedy})
	}
}

// shutBelow are the other directories in dir of which the same is so.
func (p *planner) shutBelow(dir string) (names []string) {
	for _, d := range p.ruleset.Immutable {
		if rest, ok := strings.CutPrefix(d.Dir, dir+"/"); ok {
			names = append(names, rest)
		}
	}
	return names
}

// protects says whether a path is what the policy protects.
func (p *planner) protects(at string) bool {
	return slices.ContainsFunc(p.plan.Rules, func(r view.Rule) bool { return r.Path == at && r.Access == view.RuleProtected })
}
