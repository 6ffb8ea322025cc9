package cli

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/redact"
	"github.com/confine-run/confine/status"
)

// explainCommand prints the plan and runs nothing.
func explainCommand(s *session, line *Line) (int, error) {
	asks, settings := questions(line.Settings)
	if len(line.Rest) == 0 && len(asks) == 0 {
		return rcUsage, &config.UsageError{Msg: "explain: no command\nusage: confine explain [options] " + commandArgs}
	}
	r, err := s.resolve(settings)
	if err != nil {
		return rcUsage, err
	}
	broken := status.InternalError.RC(status.Dialect(r.Invocation.ExitCodes), 0, 0)
	if len(asks) > 0 {
		all, err := s.ask(r, line.Rest, asks)
		if err != nil {
			return s.problem(err, broken)
		}
		yes := all.Refused == "" && !slices.ContainsFunc(all.Answers, func(a config.Answer) bool { return !a.Yes() })
		return s.show(yes, r.Invocation.JSON, all, func() string { return answers(all) })
	}
	e, err := s.engine.Explain(s.ctx, r, line.Rest)
	if err != nil {
		return s.problem(err, broken)
	}
	complete(e, r)
	return s.show(e.Refused == "", r.Invocation.JSON, e, func() string { return explanation(e) })
}

// complete adds what this side knows, and empty lists for null.
func complete(e *Explanation, r *config.Resolved) {
	e.Values = values(r)
	e.Files = append([]string{}, r.Files...)
	e.Notices = allNotices(r, e)
	if e.Paths == nil {
		e.Paths = []config.PathRule{}
	}
	if e.Enforced == nil {
		e.Enforced = map[status.Capability]status.Enforcement{}
	}
	if e.Command.Argv == nil {
		e.Command.Argv = []string{}
	}
	e.Profile = cmp.Or(e.Profile, r.Policy.Profile)
}

func allNotices(r *config.Resolved, e *Explanation) []hint.Notice {
	return append(append([]hint.Notice{}, hint.Notices(r.Notices)...), e.Notices...)
}

// explanation is the plan as text.
func explanation(e *Explanation) string {
	var t table
	t.line("command: " + commandLine(e.Command.Argv))
	t.pair("program: ", e.Command.Path)
	t.pair("starts in: ", e.Command.Dir)
	t.pair("problem: ", e.Command.Error)
	t.pair("profile: ", e.Profile)
	t.pair("policy: ", e.PolicyDigest)
	t.pair("backend: ", e.Backend)
	t.pair("would not start: ", e.Refused)
	for _, n := range e.Notices {
		t.line("notice: " + n.Text)
		t.pair("hint: ", n.Remedy)
	}

	t.head("capability", "requested", "mechanism", "holds", "why not more")
	for _, c := range slices.Sorted(maps.Keys(e.Enforced)) {
		line := e.Enforced[c]
		holds := "yes"
		switch {
		case !line.Enabled:
			holds = "not asked for"
		case !line.Effective:
			holds = "NO"
		}
		why := string(line.FallbackReason)
		if line.Details != "" {
			why = strings.TrimPrefix(why+": "+line.Details, ": ")
		}
		t.row(string(c), line.Requested, line.Mechanism, holds, why)
	}
	t.end()
	t.head("path", "access", "why")
	for _, p := range e.Paths {
		t.row(p.Path, p.Access, p.Why)
	}
	t.end()
	t.head("option", "said by", "value")
	for _, v := range e.Values {
		t.row(v.Option, v.Origin, strings.Join(v.Values, " "))
		for _, o := range v.Overridden {
			t.row("", o.Origin, "("+strings.Join(o.Values, " ")+", which doesn't count)")
		}
	}
	t.end()
	return t.String()
}

// questions takes out of settings what asks: each path with each access, in the
// order of the command line, then hosts and system calls.
func questions(settings []config.Setting) (asks []config.Ask, rest []config.Setting) {
	var paths, accesses []string
	var others []config.Ask
	for _, set := range settings {
		switch word := set.Values[0]; set.Option {
		case "path":
			paths = appendNew(paths, word)
		case "access":
			for access := range strings.SplitSeq(word, ",") {
				accesses = appendNew(accesses, access)
			}
		case "host":
			others = append(others, config.Ask{Kind: config.AskHost, Word: word})
		case "syscall":
			others = append(others, config.Ask{Kind: config.AskSyscall, Word: word})
		default:
			rest = append(rest, set)
		}
	}
	for _, p := range paths {
		for _, access := range accesses {
			asks = append(asks, config.Ask{Kind: config.AskPath, Word: p, Access: access})
		}
		if len(accesses) == 0 {
			asks = append(asks, config.Ask{Kind: config.AskPath, Word: p})
		}
	}
	if len(paths) == 0 && len(accesses) > 0 { // of nothing: a mistake that the first question tells
		asks = append(asks, config.Ask{Kind: config.AskPath, Access: accesses[0]})
	}
	return append(asks, others...), rest
}

func appendNew(words []string, w string) []string {
	if slices.Contains(words, w) {
		return words
	}
	return append(words, w)
}

// ask puts questions to the plan. Without a command it is about any. Where nothing would start, nothing
// is allowed.
func (s *session) ask(r *config.Resolved, argv []string, asks []config.Ask) (*Answers, error) {
	if len(argv) == 0 {
		argv = []string{"true"}
	}
	e, err := s.engine.Explain(s.ctx, r, argv)
	if err != nil {
		return nil, err
	}
	all := &Answers{Notices: allNotices(r, e), Refused: e.Refused}
	for _, q := range asks {
		a, err := e.Ask(q)
		if err != nil {
			return nil, err
		}
		if e.Refused != "" {
			a = config.Answer{Kind: a.Kind, Asked: a.Asked, Access: a.Access, Answer: config.AnswerNo, Reason: "would_not_start"}
		}
		all.Answers = append(all.Answers, a)
	}
	return all, nil
}

// answers as text: a line for each, and what there is to say about it below.
func answers(all *Answers) string {
	var t table
	t.pair("would not start: ", all.Refused)
	for i := range all.Answers {
		t.answer(&all.Answers[i], "")
	}
	return t.String()
}

func (t *table) answer(a *config.Answer, indent string) {
	what := a.Asked
	if a.Access != "" {
		what = a.Access + " " + a.Asked
	}
	if indent != "" {
		what = a.Effect
	} else if a.Effect != "" && a.Effect != "allow" {
		what += " (" + a.Effect + ")"
	}
	t.line(indent + a.Answer + ": " + what)
	indent += "  "
	if a.Where != a.Asked && a.Kind == config.AskPath {
		t.pair(indent+"leads to: ", a.Where)
	}
	reason := strings.ReplaceAll(a.Reason, "_", " ")
	if a.At != "" {
		reason += " at " + a.At
	}
	if a.Details != "" {
		reason += ": " + a.Details
	}
	t.line(indent + "because: " + reason)
	t.pair(indent+"rule: ", a.Rule)
	t.pair(indent+"from: ", a.From)
	t.pair(indent+"hint: ", a.Hint)
	for i := range a.Cases {
		t.answer(&a.Cases[i], indent)
	}
}

// values are what holds, in the order of the options, with who said so. What a
// list says in several places adds up, and each has an entry of its own.
func values(r *config.Resolved) []Value {
	all := []Value{}
	options := config.Options()
	for i := range options {
		o := &options[i]
		said := r.Origins[o.Name]
		if len(said) == 0 {
			continue
		}
		if o.IsList() {
			for _, set := range said {
				all = append(all, Value{Option: o.Name, Values: shown(set.Values), Origin: set.Source})
			}
			continue
		}
		last := said[len(said)-1]
		v := Value{Option: o.Name, Values: shown(last.Values), Origin: last.Source}
		for _, set := range slices.Backward(said[:len(said)-1]) {
			v.Overridden = append(v.Overridden, Origin{Values: shown(set.Values), Origin: set.Source})
		}
		all = append(all, v)
	}
	return all
}

// shown are words with the secrets in them masked.
func shown(words []string) []string {
	safe := make([]string, len(words))
	for i, w := range words {
		safe[i] = redact.Word(w)
	}
	return safe
}
