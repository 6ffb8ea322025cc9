package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/status"
)

// questions takes out of settings what asks: each path with each access, in the
// order of the command line, then hosts and system calls.
func questions(settings []confine.Setting) (asks []confine.Ask, rest []confine.Setting) {
	var paths, accesses []string
	var others []confine.Ask
	for _, set := range settings {
		switch word := set.Values[0]; set.Option {
		case "path":
			paths = once(paths, word)
		case "access":
			for access := range strings.SplitSeq(word, ",") {
				accesses = once(accesses, access)
			}
		case "host":
			others = append(others, confine.Ask{Kind: confine.AskHost, Word: word})
		case "syscall":
			others = append(others, confine.Ask{Kind: confine.AskSyscall, Word: word})
		default:
			rest = append(rest, set)
		}
	}
	for _, p := range paths {
		for _, access := range accesses {
			asks = append(asks, confine.Ask{Kind: confine.AskPath, Word: p, Access: access})
		}
		if len(accesses) == 0 {
			asks = append(asks, confine.Ask{Kind: confine.AskPath, Word: p})
		}
	}
	if len(paths) == 0 && len(accesses) > 0 { // of nothing: a mistake that the first question tells
		asks = append(asks, confine.Ask{Kind: confine.AskPath, Access: accesses[0]})
	}
	return append(asks, others...), rest
}

func once(words []string, w string) []string {
	if slices.Contains(words, w) {
		return words
	}
	return append(words, w)
}

// answer says yes or no to each question. Without a command it is about any.
func (s *session) answer(r *confine.Resolved, argv []string, asks []confine.Ask) int {
	if len(argv) == 0 {
		argv = []string{"true"}
	}
	all, err := s.engine.Ask(s.ctx, r, argv, asks)
	if err != nil {
		var usage *confine.UsageError
		if errors.As(err, &usage) {
			return s.usage(err)
		}
		s.log.failure(err)
		return status.InternalError.RC(status.Dialect(r.Invocation.ExitCodes), 0, 0)
	}
	rc := rcOK
	if all.Refused != "" || slices.ContainsFunc(all.Answers, func(a confine.Answer) bool { return !a.Yes() }) {
		rc = rcNo
	}
	if all.Notices = append(slices.Clone(r.Notices), all.Notices...); all.Notices == nil {
		all.Notices = []string{}
	}
	if r.Invocation.JSON {
		return s.printRC(string(encode(all)), rc)
	}
	return s.printRC(answers(all), rc)
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

func (t *table) answer(a *confine.Answer, indent string) {
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
	if a.Where != a.Asked && a.Kind == confine.AskPath {
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
