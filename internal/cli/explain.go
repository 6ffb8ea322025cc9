package cli

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/status"
)

// explain prints the plan and runs nothing.
func (s *session) explain(args []string) int {
	line, err := Scan(lookup("explain").Takes, args)
	asks, settings := questions(line.Settings)
	line.Settings = settings
	switch {
	case err != nil:
		s.early(line.Settings)
		return s.usage(err)
	case line.Help:
		return s.page("explain")
	case len(line.Rest) == 0 && len(asks) == 0:
		return s.usage(&confine.UsageError{Msg: "explain: no command\nusage: confine explain [options] " + commandArgs})
	}
	r, err := s.resolve(line.Settings)
	if err != nil {
		return s.usage(err)
	}
	if len(asks) > 0 {
		return s.answer(r, line.Rest, asks)
	}
	e, err := s.engine.Explain(s.ctx, r, line.Rest)
	if err != nil {
		var usage *confine.UsageError
		if errors.As(err, &usage) {
			return s.usage(err)
		}
		s.log.failure(err)
		return status.InternalError.RC(status.Dialect(r.Invocation.ExitCodes), 0, 0)
	}
	complete(e, r)
	rc := rcOK
	if e.Refused != "" {
		rc = rcNo
	}
	if r.Invocation.JSON {
		return s.printRC(string(encode(e)), rc)
	}
	return s.printRC(explanation(e), rc)
}

// complete adds what this side knows, and empty lists for null.
func complete(e *Explanation, r *confine.Resolved) {
	e.Values = values(r)
	e.Files = append([]string{}, r.Files...)
	e.Notices = append(slices.Clone(r.Notices), e.Notices...)
	if e.Notices == nil {
		e.Notices = []string{}
	}
	if e.Paths == nil {
		e.Paths = []PathRule{}
	}
	if e.Enforced == nil {
		e.Enforced = map[status.Capability]status.Enforcement{}
	}
	if e.Command.Argv == nil {
		e.Command.Argv = []string{}
	}
	e.Profile = cmp.Or(e.Profile, r.Policy.Profile)
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
		text, hint, _ := strings.Cut(n, "\nhint: ")
		t.line("notice: " + text)
		t.pair("hint: ", hint)
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
