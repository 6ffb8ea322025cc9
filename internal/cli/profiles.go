package cli

import (
	"strings"

	"github.com/confine-run/confine/confine"
)

// listed is one profile of "profiles --json".
type listed struct {
	Name   string `json:"name"`
	About  string `json:"about,omitempty"`
	Source string `json:"source"`
	TOML   string `json:"toml"`
}

func (s *session) profiles(args []string) int {
	c := lookup("profiles")
	line, err := words(c, args, 1)
	if err != nil {
		return s.usage(err)
	}
	if line.Help {
		return s.page(c.Name)
	}
	asJSON, err := line.wantsJSON()
	if err != nil {
		return s.usage(err)
	}
	src := s.sources(nil)
	list, notices, err := confine.ListProfiles(src)
	if err != nil {
		return s.usage(err)
	}
	for _, n := range notices {
		s.log.notice(n)
	}
	if len(line.Rest) == 0 && !asJSON {
		return s.print(profileTable(list))
	}
	all := []listed{}
	for _, p := range list {
		if len(line.Rest) > 0 && p.Name != line.Rest[0] {
			continue
		}
		text, err := confine.ShowProfile(src, p.Name)
		if err != nil {
			return s.usage(err)
		}
		all = append(all, listed{Name: p.Name, About: p.About, Source: p.Source, TOML: text})
	}
	if len(line.Rest) > 0 && len(all) == 0 {
		var names []string
		for _, p := range list {
			names = append(names, p.Name)
		}
		return s.usage(unknownWord("profile", line.Rest[0], names))
	}
	if asJSON {
		return s.print(string(encode(all)))
	}
	return s.print(all[0].TOML)
}

func profileTable(list []confine.ProfileInfo) string {
	var t table
	t.head("profile", "from", "about")
	for _, p := range list {
		t.row(p.Name, p.Source, p.About)
	}
	t.end()
	return strings.TrimPrefix(t.String(), "\n")
}
