package confine

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/confine/network"
	"github.com/confine-run/confine/confine/seccomp"
)

// Ask answers a question by the plan: by the rules that the gateway asks, by the
// policy that the filter was compiled from, and by the entries that the child mounts.
// The error is a *UsageError about the question.
func (p *Plan) Ask(r *Resolved, q Ask) (Answer, error) {
	a := Answer{Kind: q.Kind, Asked: q.Word, Access: q.Access}
	var err error
	switch q.Kind {
	case AskPath:
		err = p.askPath(r, &a)
	case AskHost:
		err = p.askHost(r, &a)
	case AskSyscall:
		err = p.askSyscall(r, &a)
	default:
		err = &UsageError{Msg: "no such question: " + string(q.Kind)}
	}
	return a, err
}

// askHost answers as the gateway will, or says why there is none.
func (p *Plan) askHost(r *Resolved, a *Answer) error {
	n := &p.policy.Network
	rules, err := network.Compile(network.Policy{Allow: n.Allow, Deny: n.Deny, Ports: n.Ports, BlockInternal: n.BlockInternal})
	if err != nil {
		return &UsageError{Msg: err.Error(), Err: err}
	}
	v, err := rules.Ask(a.Asked)
	if err != nil {
		return &UsageError{Msg: "--host: " + err.Error(), Err: err}
	}
	a.Where = v.Place
	switch {
	case n.All:
		a.Answer, a.Reason, a.Rule = AnswerYes, string(network.ReasonAllowed), "--allow-network all"
		a.From, a.Details = r.From("allow-network", wordAll), "the caller's network as it is"
		return nil
	case p.ground == bare:
		a.Answer, a.Reason, a.Hint = AnswerNo, "no_network", "confine doctor says why there is no network namespace"
		a.Details = "there is no network namespace, so there is no network at all"
		return nil
	}
	a.Answer, a.Reason, a.Hint = yesNo(v.Allowed), string(v.Why), v.Hint
	switch word, denies := strings.CutPrefix(v.Rule, "deny "); {
	case v.Rule == "":
		a.Details = "no rule names it"
	case denies:
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
func (p *Plan) askSyscall(r *Resolved, a *Answer) error {
	words := strings.Split(a.Asked, ",")
	name := strings.TrimSpace(words[0])
	a.Where = name
	f := p.Seccomp
	if f == nil {
		a.Answer, a.Reason, a.Effect = AnswerYes, "no_filter", seccomp.Allow.String()
		a.Rule, a.From = "--seccomp off", r.From("seccomp", "")
		a.Details = "there is no filter; what takes a capability the kernel refuses"
		return nil
	}
	rulings, err := f.Ask(name, seccomp.Arguments(words[1:]), len(p.Child.SeccompNotify) > 0)
	if err != nil {
		msg, hint, _ := strings.Cut(err.Error(), "\nhint: ")
		return &UsageError{Msg: msg, Hint: hint, Err: err}
	}
	cases := make([]Answer, len(rulings))
	for i := range rulings {
		cases[i] = p.ruled(r, a, &rulings[i])
	}
	if len(cases) == 1 {
		*a = cases[0]
		return nil
	}
	a.Answer, a.Reason, a.Cases = AnswerDepends, "arguments", cases
	a.Hint = "ask with arguments: --syscall " + name + ",ARGUMENT…"
	if yes := cases[0].Answer; !slices.ContainsFunc(cases, func(c Answer) bool { return c.Answer != yes }) {
		a.Answer, a.Hint = yes, ""
	}
	return nil
}

// ruled is what one rule of the filter says.
func (p *Plan) ruled(r *Resolved, asked *Answer, v *seccomp.Ruling) Answer {
	a := *asked
	a.Answer, a.Effect, a.Details, a.Hint = yesNo(v.Passes), v.Effect, v.Reason, v.Hint
	a.Rule = "rule \"" + v.Rule + "\" of " + p.Seccomp.Version
	a.From = r.From("seccomp", "")
	switch a.Reason = "rule"; v.Rule {
	case "default":
		a.Reason, a.Rule = "default", "the default of "+p.Seccomp.Version
	case "listener", "unknown":
		a.Reason, a.Rule, a.From = v.Rule, "", unsaid
	case "no-network", "shared-pids", "shared-ipc", "keep-cpus":
		a.From = unsaid // an addition that this host, or another option, makes necessary
	}
	if p.Seccomp.Kind == "file" && a.Reason == "rule" {
		if line := seccomp.Line(p.policy.Seccomp, v.Rule); line > 0 {
			a.From = printable(p.policy.Seccomp) + ":" + strconv.Itoa(line)
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

// groups are those that the target keeps.
func (p *Plan) supplementary() (all []uint32) {
	if p.Child.DropGroups {
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
