package confine

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine/landlock"
	"github.com/confine-run/confine/confine/rootfs"
)

// askPath answers by the mount table, and by the ruleset where there is one.
func (p *Plan) askPath(r *Resolved, a *Answer) error {
	wish := rootfs.Wish(a.Access)
	if wish == "" {
		wish, a.Access = rootfs.WishRead, string(rootfs.WishRead)
	}
	switch {
	case !slices.Contains(rootfs.Wishes(), wish):
		return &UsageError{Msg: "--access " + strconv.Quote(a.Access) + " is none of " + strings.Join(Accesses(), ", ") + meant(a.Access, Accesses())}
	case a.Asked == "" || strings.ContainsRune(a.Asked, 0):
		return &UsageError{Msg: "--path: " + strconv.Quote(a.Asked) + " is no path"}
	}
	s := p.see(p.inside(a.Asked), wish)
	a.Answer, a.Reason, a.Details = yesNo(s.Granted), string(s.Reason), s.Details
	if s.Reason == rootfs.ReasonProcess {
		a.Answer = AnswerDepends
	}
	a.Where, a.At = s.Meant, s.At
	if a.At == a.Where {
		a.At = ""
	}
	p.ruleOf(r, a, &s)
	a.Hint = p.hintFor(&s)
	if s.Granted && p.table.KeptAbsent(&s) {
		a.Details = "protected: it is removed again when the run ends"
	}
	return nil
}

// byLandlock is in the details of what only the ruleset refuses.
const byLandlock = "Landlock"

// see is the one evaluator: what the target may do with an absolute path.
func (p *Plan) see(name string, wish rootfs.Wish) rootfs.Sight {
	p.seen.Lock()
	defer p.seen.Unlock()
	if p.view == nil {
		p.viewer.Groups, p.viewer.Host = p.supplementary(), rootfs.ThisHostInspector()
		p.view = p.table.View(p.viewer)
	}
	s := p.view.See(name, wish)
	if p.ground == bare {
		s.Rule = nearestRule(p.Rules, s.Path)
	}
	if s.Granted && !p.ruleset.Gives(rightsFor(&s)) {
		s.Granted, s.Reason = false, rootfs.ReasonReadOnly
		if !p.ruleset.Gives(s.Path, landlock.ReadFile) {
			s.Reason = rootfs.ReasonHidden
		}
		s.Details = byLandlock
	}
	return s
}

// rightsFor are the rights of Landlock's that a wish takes, and where.
func rightsFor(s *rootfs.Sight) (at string, rights uint64) {
	switch {
	case s.Wish == rootfs.WishCreate:
		return path.Dir(s.Path), landlock.MakeReg | landlock.WriteFile
	case s.Wish == rootfs.WishWrite && s.IsDir:
		return s.Path, landlock.MakeReg | landlock.WriteFile
	case s.Wish == rootfs.WishWrite:
		return s.Path, landlock.WriteFile
	case s.Wish == rootfs.WishExec:
		return s.Path, landlock.Execute
	case s.IsDir:
		return s.Path, landlock.ReadDir
	}
	return s.Path, landlock.ReadFile
}

func nearestRule(rules []rootfs.Rule, at string) (best rootfs.Rule) {
	for _, rule := range rules {
		if (rule.Path == "/" || at == rule.Path || strings.HasPrefix(at, rule.Path+"/")) && len(rule.Path) >= len(best.Path) {
			best = rule
		}
	}
	return best
}

// ruleOf names the rule that decided, and who said it.
func (p *Plan) ruleOf(r *Resolved, a *Answer, s *rootfs.Sight) {
	if s.Rule.Path == "" {
		a.Details = strings.TrimPrefix(a.Details+"; no rule shows it", "; ")
		return
	}
	a.Rule = ruleWords(s)
	a.From = p.fromOf(r, s.Rule.Why)
}

// ruleWords are a rule's, and where it is when that is another place.
func ruleWords(s *rootfs.Sight) string {
	if s.Rule.Path == s.Path {
		return s.Rule.Why
	}
	return s.Rule.Why + " (" + s.Rule.Path + ")"
}

// saidBy are the options behind what a rule says that names none.
var saidBy = [...]struct{ why, option string }{
	{"current directory", "workdir"},
	{"git directory of the current directory", "workdir"},
	{"home directory, except secrets", "home"},
	{"temporary files", "temp-dir"},
	{"secret", "deny"},
	{"protected", "protect"},
}

// fromOf finds who said a rule: its words begin with those of the option.
func (p *Plan) fromOf(r *Resolved, why string) string {
	if flag, rest, ok := strings.Cut(why, " "); ok && strings.HasPrefix(flag, "--") {
		option := strings.TrimSuffix(strings.TrimPrefix(flag, "--"), ",")
		for _, word := range []string{rest, rest + ":ro"} {
			if from := r.From(option, word); from != "" {
				return from
			}
		}
		return r.From(option, "")
	}
	for _, s := range saidBy {
		if strings.HasPrefix(why, s.why) {
			if from := r.From(s.option, ""); from != "" {
				return from
			}
		}
	}
	return unsaid
}
