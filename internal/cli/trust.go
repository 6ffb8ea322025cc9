package cli

import (
	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/supervisor/terminal"
)

// trust accepts a project file as it is now.
func (s *session) trust(args []string) int {
	c := lookup("trust")
	line, err := words(c, args, 1)
	if err != nil {
		return s.usage(err)
	}
	if line.Help {
		return s.page(c.Name)
	}
	path := ""
	if len(line.Rest) > 0 {
		if path = line.Rest[0]; path == "" {
			return s.usage(&confine.UsageError{Msg: "trust: the name of the file is empty"})
		}
	}
	file, digest, err := confine.Trust(s.sources(nil), path)
	if err != nil {
		return s.usage(err)
	}
	return s.print(terminal.Visible("trusted "+file+" as "+digest) + "\n")
}
