package cli

import (
	"strings"

	"github.com/confine-run/confine/internal/cli/outputs"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/supervisor/terminal"
)

// listed is one profile of "profiles --json".
type listed struct {
	Name   string `json:"name"`
	About  string `json:"about,omitempty"`
	Source string `json:"source"`
	TOML   string `json:"toml"`
}

func profilesCommand(s *session, line *Line) (int, error) {
	asJSON, err := line.on("json")
	if err != nil {
		return rcUsage, err
	}
	src := s.sources(nil)
	list, notices, err := config.ListProfiles(src)
	if err != nil {
		return rcUsage, err
	}
	for _, n := range notices {
		s.log.notice(n)
	}
	if len(line.Rest) == 0 && !asJSON {
		return s.print(profileTable(list)), nil
	}
	all := []listed{}
	for _, p := range list {
		if len(line.Rest) > 0 && p.Name != line.Rest[0] {
			continue
		}
		text, err := config.ShowProfile(src, p.Name)
		if err != nil {
			return rcUsage, err
		}
		all = append(all, listed{Name: p.Name, About: p.About, Source: p.Source, TOML: text})
	}
	if len(line.Rest) > 0 && len(all) == 0 {
		var names []string
		for _, p := range list {
			names = append(names, p.Name)
		}
		return rcUsage, unknownWord("profile", line.Rest[0], names)
	}
	if asJSON {
		return s.print(string(outputs.Encode(all))), nil
	}
	return s.print(all[0].TOML), nil
}

func profileTable(list []config.ProfileInfo) string {
	var t table
	t.head("profile", "from", "about")
	for _, p := range list {
		t.row(p.Name, p.Source, p.About)
	}
	t.end()
	return strings.TrimPrefix(t.String(), "\n")
}

// trustCommand accepts a project file as it is now.
func trustCommand(s *session, line *Line) (int, error) {
	path := ""
	if len(line.Rest) > 0 {
		if path = line.Rest[0]; path == "" {
			return rcUsage, &config.UsageError{Msg: "trust: the name of the file is empty"}
		}
	}
	file, digest, err := config.Trust(s.sources(nil), path)
	if err != nil {
		return rcUsage, err
	}
	return s.print(terminal.Visible("trusted "+file+" as "+digest) + "\n"), nil
}
