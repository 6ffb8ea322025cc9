package cli

import (
	"os"

	"github.com/confine-run/confine/confine"
)

// resolve puts flags, environment, files and profile together, and from then on
// says things in the manner asked for.
func (s *session) resolve(settings []confine.Setting) (*confine.Resolved, error) {
	return s.resolveWith(settings, func(*confine.Resolved) {})
}

// resolveWith changes what was found before anything is said of it.
func (s *session) resolveWith(settings []confine.Setting, change func(*confine.Resolved)) (*confine.Resolved, error) {
	s.early(settings)
	r, err := confine.Resolve(s.sources(settings))
	if err != nil {
		return nil, err
	}
	s.log.level = r.Invocation.Log
	s.log.json = r.Invocation.LogFormat == "json"
	change(r)
	for _, n := range r.Notices {
		s.log.notice(n)
	}
	return r, nil
}

// early finds out how a mistake is to be worded, before anything is checked.
func (s *session) early(settings []confine.Setting) {
	for _, set := range settings {
		if set.Option == "log-format" {
			s.log.json = set.Values[0] == "json"
		}
	}
}

func (s *session) sources(settings []confine.Setting) confine.Sources {
	dir, err := os.Getwd()
	if err != nil {
		dir = "" // it was removed
	}
	return confine.Sources{
		Flags:      settings,
		Environ:    s.Environ,
		Dir:        dir,
		Home:       s.env("HOME"),
		ConfigHome: s.env("XDG_CONFIG_HOME"),
		DataHome:   s.env("XDG_DATA_HOME"),
		SystemFile: s.SystemFile,
		UID:        os.Getuid(),
	}
}
