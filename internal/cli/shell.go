package cli

import (
	"path"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/config"
)

const plainShell = "/bin/sh"

// shell is an interactive shell inside. On a terminal it gets a pty of its own,
// so that line editing, job control and the prompt are what they are outside.
func (s *session) shell(line *Line) (int, error) {
	if len(line.Rest) > 0 {
		return rcUsage, &config.UsageError{
			Msg:  "shell: unexpected word " + strconv.Quote(line.Rest[0]),
			Hint: "to run a command: confine [options] " + commandArgs,
		}
	}
	r, err := s.resolve(line.Settings)
	if err != nil {
		return rcUsage, err
	}
	lift(r)
	return s.start(r, []string{s.shellInside(r)})
}

// lift takes away the limits that a profile sets for single commands and that
// would end an interactive shell at a random moment, or cut what it shows. What
// the user, a file or a variable has set stays.
func lift(r *config.Resolved) {
	for _, l := range []struct {
		option string
		none   func(*config.Policy)
	}{
		{"time-limit", func(p *config.Policy) { p.TimeLimit = 0 }},
		{"cpu-time", func(p *config.Policy) { p.CPUTime = 0 }},
		{"output-limit", func(p *config.Policy) { p.OutputLimit = 0 }},
	} {
		said := r.Origins[l.option]
		if n := len(said); n > 0 && !strings.HasPrefix(said[n-1].Source, "profile ") {
			continue
		}
		l.none(&r.Policy)
		r.Origins[l.option] = append(said, config.Setting{
			Option: l.option, Values: []string{"none"}, Source: "subcommand shell",
		})
	}
}

// shellInside is the caller's shell where it can be seen inside, or else a plain
// one. The plan says which: nothing is started to find out.
func (s *session) shellInside(r *config.Resolved) string {
	own := s.env("SHELL")
	if !path.IsAbs(own) || own == plainShell {
		return plainShell
	}
	e, err := s.engine.Explain(s.ctx, r, []string{own})
	if err != nil || e.Command.Error != "" {
		s.log.notice("shell " + strconv.Quote(own) + " can't be seen inside: " + plainShell + " instead")
		return plainShell
	}
	return own
}
