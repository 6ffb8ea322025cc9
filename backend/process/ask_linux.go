package process

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/explain"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/landlock"
	"github.com/confine-run/confine/internal/network"
	"github.com/confine-run/confine/internal/seccomp"
	"github.com/confine-run/confine/internal/seccomp/policyfile"
	"github.com/confine-run/confine/internal/shell"
	"github.com/confine-run/confine/internal/view"
)

// Ask answers a question by the plan: by the rules that the gateway asks, by the
// policy that the filter was compiled from, and by the entries that the child mounts.
// The error is a *UsageError about the question.
func (p *Plan) Ask(r *config.Resolved, q config.Ask) (config.Answer, error) {
	a := config.Answer{Kind: q.Kind, Asked: q.Word, Access: q.Access}
	var err error
	switch q.Kind {
	case config.AskPath:
		err = p.askPath(r, &a)
	case config.AskHost:
		err = p.askHost(r, &a)
	case config.AskSyscall:
		err = p.askSyscall(r, &a)
	default:
		err = &config.UsageError{Msg: "no such question: " + string(q.Kind)}
	}
	return a, err
}

// askHost answers as the gateway will, or says why there is none.
func (p *Plan) askHost(r *config.Resolved, a *config.Answer) error {
	n := &p.policy.Network
	v, err := p.rules.Ask(a.Asked)
	if err != nil {
		return &config.UsageError{Msg: "--host: " + err.Error(), Err: err}
	}
	a.Where = v.Place
	switch {
	case n.All:
		a.Answer, a.Reason, a.Rule = config.AnswerYes, string(network.ReasonAllowed), "--allow-network all"
		a.From, a.Details = r.From("allow-network", config.WordAll), "the caller's network as it is"
		return nil
	case p.tier == tierNoNS:
		a.Answer, a.Reason, a.Hint = config.AnswerNo, "no_network", "confine doctor says why there is no network namespace"
		a.Details = "there is no network namespace, so there is no network at all"
		return nil
	}
	a.Answer, a.Reason, a.Hint = yesNo(v.Allowed), string(v.Why), v.Hint
	switch word, denied := v.Word(); {
	case v.Rule == "":
		a.Details = "no rule names it"
	case denied:
		a.Rule, a.From = "--deny-network "+word, r.From("deny-network", word)
	default:
		a.Rule, a.From = "--allow-network "+word, r.From("allow-network", word)
	}
	switch {
	case v.Allowed && v.Paths:
		a.Details = "plain HTTP, and only some paths"
	case v.Allowed && v.Needs != network.Any && v.Needs != 0:
		a.Details = "only " + v.Needs.String()
	case v.Allowed && v.Resolved && v.Internal:
		a.Details = "unless it leads to an internal address that no rule names"
	case v.Why == network.ReasonInternal && v.Kind != "":
		a.Details = v.Kind
	case v.Why == network.ReasonPort && len(n.Ports) > 0 && v.Rule != "":
		a.Details = "on other ports; see --allow-port"
	}
	return nil
}

// askSyscall answers as the filter will.
func (p *Plan) askSyscall(r *config.Resolved, a *config.Answer) error {
	words := strings.Split(a.Asked, ",")
	name := strings.TrimSpace(words[0])
	a.Where = name
	f := p.Seccomp
	if f == nil {
		a.Answer, a.Reason, a.Effect = config.AnswerYes, "no_filter", seccomp.Allow.String()
		a.Rule, a.From = "--seccomp off", r.From("seccomp", "")
		a.Details = "there is no filter; what takes a capability the kernel refuses"
		return nil
	}
	rulings, err := f.Ask(name, seccomp.Arguments(words[1:]), len(p.Exec.SeccompNotify) > 0)
	if err != nil {
		return usageOf(err)
	}
	cases := make([]config.Answer, len(rulings))
	for i := range rulings {
		cases[i] = p.ruled(r, a, &rulings[i])
	}
	if len(cases) == 1 {
		*a = cases[0]
		return nil
	}
	a.Answer, a.Reason, a.Cases = config.AnswerDepends, "arguments", cases
	a.Hint = "ask with arguments: --syscall " + name + ",ARGUMENT…"
	if yes := cases[0].Answer; !slices.ContainsFunc(cases, func(c config.Answer) bool { return c.Answer != yes }) {
		a.Answer, a.Hint = yes, ""
	}
	return nil
}

// ruled is what one rule of the filter says.
func (p *Plan) ruled(r *config.Resolved, asked *config.Answer, v *seccomp.Ruling) config.Answer {
	a := *asked
	a.Answer, a.Effect, a.Details, a.Hint = yesNo(v.Passes), v.Effect, v.Reason, v.Hint
	a.Rule = "rule \"" + v.Rule + "\" of " + p.Seccomp.Version
	a.From = r.From("seccomp", "")
	switch a.Reason = "rule"; v.Rule {
	case "default":
		a.Reason, a.Rule = "default", "the default of "+p.Seccomp.Version
	case "listener", "unknown":
		a.Reason, a.Rule, a.From = v.Rule, "", config.BuiltIn
	case "no-network", "shared-pids", "shared-ipc", "keep-cpus":
		a.From = config.BuiltIn // an addition that this host, or another option, makes necessary
	}
	if p.Seccomp.Kind == "file" && a.Reason == "rule" {
		if line := policyfile.Line(p.policy.Seccomp, v.Rule); line > 0 {
			a.From = config.Printable(p.policy.Seccomp) + ":" + strconv.Itoa(line)
		}
	}
	return a
}

// inside makes a path absolute as it was meant.
func (p *Plan) inside(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return p.command.Dir + "/" + name
}

// supplementary are the groups that the target keeps.
func (p *Plan) supplementary() (all []uint32) {
	if p.Box.DropGroups {
		return nil
	}
	list, err := os.Getgroups()
	if err != nil {
		return nil
	}
	for _, g := range list {
		all = append(all, uint32(g))
	}
	return all
}

// askPath answers by the mount table, and by the ruleset where there is one.
func (p *Plan) askPath(r *config.Resolved, a *config.Answer) error {
	op := explain.Op(a.Access)
	if op == "" {
		op, a.Access = explain.Read, string(explain.Read)
	}
	switch {
	case !slices.Contains(explain.Ops(), op):
		return &config.UsageError{Msg: "--access " + strconv.Quote(a.Access) + " is none of " + strings.Join(config.Accesses(), ", ") + config.Meant(a.Access, config.Accesses())}
	case a.Asked == "" || strings.ContainsRune(a.Asked, 0):
		return &config.UsageError{Msg: "--path: " + strconv.Quote(a.Asked) + " is no path"}
	}
	if p.tier == tierUserNS && p.policy.Filesystem.Etc {
		// The child will find out; who asks has to be told beforehand.
		ok, err := host.Has("overlay")
		if !ok || err != nil || hostfs.MountedBelow(hostfs.This(), "/etc") {
			p.viewer.Bound = p.Box.Stranger == 0 && p.table.BindsBeneath(hostfs.This())
			p.viewer.NoBeneath = !p.viewer.Bound
		}
	}
	s := p.see(p.inside(a.Asked), op)
	a.Answer, a.Reason, a.Details = yesNo(s.Granted), string(s.Reason), s.Details
	if s.Reason == explain.Process {
		a.Answer = config.AnswerDepends
	}
	a.Where, a.At = s.Meant, s.At
	if a.At == a.Where {
		a.At = ""
	}
	p.ruleOf(r, a, &s)
	a.Hint = p.hintFor(&s)
	if s.Granted && p.table.KeptAbsent(s.Source) {
		a.Details = "protected: it is removed again when the run ends"
	}
	return nil
}

// byLandlock is in the details of what only the ruleset refuses.
const byLandlock = "Landlock"

// see is the one evaluator: what the target may do with an absolute path.
func (p *Plan) see(name string, op explain.Op) explain.Decision {
	p.seen.Lock()
	defer p.seen.Unlock()
	if p.view == nil {
		p.viewer.Groups, p.viewer.Host = p.supplementary(), hostfs.ThisInspector()
		p.view = explain.New(p.table.View, p.viewer)
	}
	s := p.view.Check(name, op)
	if p.tier == tierNoNS {
		s.Rule = view.NearestRule(p.Rules, s.Path)
	}
	if s.Granted && !p.ruleset.Gives(rightsFor(&s)) {
		s.Granted, s.Reason = false, explain.ReadOnly
		if !p.ruleset.Gives(s.Path, landlock.ReadFile) {
			s.Reason = explain.Hidden
		}
		s.Details = byLandlock
	}
	return s
}

// rightsFor are the rights of Landlock's that an operation takes, and where.
func rightsFor(s *explain.Decision) (at string, rights uint64) {
	switch {
	case s.Op == explain.Create:
		return path.Dir(s.Path), landlock.MakeReg | landlock.WriteFile
	case s.Op == explain.Write && s.IsDir:
		return s.Path, landlock.MakeReg | landlock.WriteFile
	case s.Op == explain.Write:
		return s.Path, landlock.WriteFile
	case s.Op == explain.Exec:
		return s.Path, landlock.Execute
	case s.IsDir:
		return s.Path, landlock.ReadDir
	}
	return s.Path, landlock.ReadFile
}

// ruleOf names the rule that decided, and who said it.
func (p *Plan) ruleOf(r *config.Resolved, a *config.Answer, s *explain.Decision) {
	if s.Rule.Path == "" {
		a.Details = strings.TrimPrefix(a.Details+"; no rule shows it", "; ")
		return
	}
	a.Rule = ruleWords(s)
	a.From, a.Origin = p.fromOf(r, s.Rule.Origin), s.Rule.Origin
}

// ruleWords are a rule's, and where it is when that is another place.
func ruleWords(s *explain.Decision) string {
	if s.Rule.Path == s.Path {
		return s.Rule.Why
	}
	return s.Rule.Why + " (" + s.Rule.Path + ")"
}

// fromOf finds who said what a rule comes from.
func (p *Plan) fromOf(r *config.Resolved, by view.Origin) string {
	for _, word := range []string{by.Word, by.Word + ":ro", ""} {
		if from := r.From(by.Option, word); from != "" {
			return from
		}
	}
	return config.BuiltIn
}

// hintFor is the option that would allow it, if one would.
func (p *Plan) hintFor(s *explain.Decision) string {
	option := map[explain.Op]string{explain.Read: "--allow-read ", explain.Exec: "--allow-read "}[s.Op]
	target := s.Meant // not where the way there ended, above which far more is hidden
	if option == "" {
		if option = "--allow-write "; s.Op == explain.Create {
			target = path.Dir(target) // nothing smaller can be granted of what isn't there
		}
	}
	switch s.Reason {
	case explain.Hidden, explain.ReadOnly:
	default:
		return ""
	}
	by := s.Rule.Origin
	if by.Option == view.FromProtect {
		return "protect = [] under [sandbox.filesystem] in a --config FILE outside of the tree protects nothing; --workdir overlay takes what is written"
	}
	if m := p.mountOf(s, target); m != nil {
		return mountHintFor(m, s, target)
	}
	switch {
	case p.policy.Filesystem.Virtual:
		return "" // nothing but mounts is visible, and those are elsewhere
	case denied(by):
		return option + shell.Word(target) + ", which is more specific, or leave out --deny " + by.Word
	case s.Rule.Access == view.RuleProtected, strings.HasPrefix(s.Rule.Path, "/proc"), target == "/", strings.HasPrefix(target, "/proc"), strings.HasPrefix(target, "/dev"):
		return ""
	}
	return option + shell.Word(target)
}

// denied says whether the caller's own words hide it.
func denied(by view.Origin) bool { return by.Option == view.FromDeny && by != view.FromSecrets }

// mountOf is the mount that shows a place, or would if nothing were hidden in it. Options that
// name a path outside say nothing about what is there.
func (p *Plan) mountOf(s *explain.Decision, target string) (best *config.Mount) {
	if by := s.Rule.Origin; by.Option != view.FromMount && by.Option != view.FromDeny {
		return nil
	}
	all := p.policy.Filesystem.Mounts
	for i := range all {
		m := &all[i]
		if hostfs.Under(target, m.Dst) && (best == nil || len(m.Dst) > len(best.Dst)) {
			best = m
		}
	}
	return best
}

// mountHintFor is the mount that would allow it, in the place of m or in addition.
func mountHintFor(m *config.Mount, s *explain.Decision, target string) string {
	writes := s.Op == explain.Write || s.Op == explain.Create
	switch {
	case denied(s.Rule.Origin):
		return "leave out --deny " + s.Rule.Origin.Word // a pattern of files outside holds in any mount
	case m.Size > 0:
		return ""
	case s.Rule.Origin == view.FromSecrets: // what is named beats the set
		one := config.Mount{Src: filepath.Join(m.Src, strings.TrimPrefix(target, m.Dst)), Dst: target, Mode: m.Mode}
		if writes && (one.Mode == "" || one.Mode == "ro") {
			one.Mode = "rw"
		}
		return "--mount " + shell.Word(one.String())
	case s.Reason == explain.ReadOnly && writes && (m.Mode == "" || m.Mode == "ro"):
		return "--mount " + shell.Word(config.Mount{Src: m.Src, Dst: m.Dst, Mode: "rw"}.String())
	}
	return ""
}

func yesNo(yes bool) string {
	if yes {
		return config.AnswerYes
	}
	return config.AnswerNo
}
