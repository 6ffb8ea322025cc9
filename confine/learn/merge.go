package learn

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// ProfileIn is the name of the profile that a file of learn's uses.
func ProfileIn(text string) (string, error) {
	var file struct {
		Sandbox struct {
			Profile  string
			Profiles map[string]any
		}
	}
	if err := toml.Unmarshal([]byte(text), &file); err != nil {
		return "", err
	}
	name := file.Sandbox.Profile
	if _, found := file.Sandbox.Profiles[name]; !found {
		return "", errors.New("it has no profile that it uses itself: [sandbox] profile = \"NAME\", and [sandbox.profiles.NAME]")
	}
	return name, nil
}

// NamesHosts says whether the profile that a file of learn's uses names hosts to reach.
func NamesHosts(text string) bool {
	var file struct {
		Sandbox struct {
			Profile  string
			Profiles map[string]struct {
				Network struct {
					Allow any `toml:"allow_domains"`
				}
			}
		}
	}
	if toml.Unmarshal([]byte(text), &file) != nil {
		return false
	}
	switch words := file.Sandbox.Profiles[file.Sandbox.Profile].Network.Allow.(type) {
	case nil:
		return false
	case []any:
		return len(words) > 0
	}
	return true
}

// NamesCalls says whether the profile that a file of learn's uses names this policy of system
// calls. One that it doesn't name may be anybody's: nothing kept a run from making it.
func NamesCalls(text, name string) bool {
	var file struct {
		Sandbox struct {
			Profile  string
			Profiles map[string]struct{ Seccomp any }
		}
	}
	if toml.Unmarshal([]byte(text), &file) != nil {
		return false
	}
	word, ok := file.Sandbox.Profiles[file.Sandbox.Profile].Seccomp.(string)
	return ok && word != "" && path.Clean(word) == path.Clean(name)
}

// Merge adds a profile to the text of an older file: lists grow, of limits the larger one
// lasts, and what is there of somebody else's stays, comments too.
func (p *Profile) Merge(old string) (string, error) {
	name, err := ProfileIn(old)
	if err != nil {
		return "", err
	}
	if p.Name != name {
		return "", errors.New("its profile is called " + strconv.Quote(name))
	}
	d, err := parseDocument(old)
	if err != nil {
		return "", err
	}
	own := p.document()
	p.Widened = nil
	d.head = mergeHead(d.head, own.head)
	for _, s := range own.sections {
		to := d.find(s.name)
		if to == nil {
			d.sections = append(d.sections, s)
			continue
		}
		for _, e := range s.entries {
			if have := to.find(e.Key); have != nil {
				if before := have.Value; have.merge(e) {
					p.Widened = append(p.Widened, e.Key+" = "+before+" to "+have.Value)
				}
			} else {
				to.entries = append(to.entries, e)
			}
		}
	}
	if fs := d.find("sandbox.profiles." + bareKey(p.Name) + ".filesystem"); fs != nil {
		fs.unneeded(p.project)
	}
	text := d.String()
	var check map[string]any
	if err := toml.Unmarshal([]byte(text), &check); err != nil {
		return "", errShape
	}
	return text, nil
}

// mergeHead keeps a person's comments first, and each of ours once.
func mergeHead(old, own []string) []string {
	all := slices.Clone(old)
	for _, l := range own {
		if !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

// unneeded takes out what learn made writable below a project that is so as a whole now:
// it would only have to be there.
func (s *section) unneeded(project string) {
	dir, list := s.find("workdir"), s.find("allow_write")
	if project == "" || dir == nil || list == nil || !list.list || unquoted(dir.Value) != "rw" || len(list.inside) > 0 {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(list.Items), func(i Item) bool {
		return under(i.Word, project) && strings.HasPrefix(i.Why, "written") || project == "." && strings.HasPrefix(i.Word, "./") && strings.HasPrefix(i.Why, "written")
	})
	if len(kept) < len(list.Items) {
		list.Items, list.raw = kept, ""
	}
}

// merge takes over what a key says in a newer profile. It is true where a value grants
// more than it did.
func (e *entry) merge(own *entry) bool {
	switch {
	case e.list && own.list:
		for _, item := range own.Items {
			if !slices.ContainsFunc(e.Items, func(i Item) bool { return i.Word == item.Word }) {
				e.Items = append(e.Items, item)
				e.raw = ""
			}
		}
	case e.list || own.list || e.Value == "":
		// Somebody has put it otherwise.
	case higher(own.Key, own.Value, e.Value):
		if e.Why != "" && !learned(e.Why, own.Why) {
			e.above = append(e.above, "# "+e.Why) // a person's
		}
		e.Value, e.Why, e.raw = own.Value, own.Why, ""
		return true
	}
	return false
}

// learned says whether a comment is one of learn's: of the form that the newer one has.
func learned(why, newer string) bool {
	for _, ours := range [...]string{whyNotUsed, whyRead, whyNoCall, whyCalls} {
		if why == ours {
			return true
		}
	}
	return strings.HasPrefix(why, whyWritten) || shape(why) == shape(newer)
}

// shape is a comment without its amounts.
func shape(why string) string {
	words := strings.Fields(why)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool {
		return strings.ContainsAny(w, "0123456789") || w == "bytes" || w == "task" || w == "tasks"
	}), " ")
}

// higher says whether a newer value of a key grants more than the older one.
func higher(key, newer, older string) bool {
	a, b := unquoted(newer), unquoted(older)
	switch key {
	case "extends", "profile":
		return false
	case "workdir":
		ranks := []string{"none", "ro", "overlay", "rw"}
		return slices.Index(ranks, a) > slices.Index(ranks, b)
	case "seccomp":
		return b == "strict" && a != b
	}
	x, y := amount(a), amount(b)
	return x > y && y >= 0
}

func unquoted(value string) string {
	var v struct{ V any }
	if toml.Unmarshal([]byte("v = "+value), &v) == nil {
		if s, ok := v.V.(string); ok {
			return s
		}
	}
	return value
}

// amount is a limit as a number; -1 is none, or one that can't be read.
func amount(word string) float64 {
	word = strings.TrimSuffix(strings.TrimSpace(word), "%")
	if f, err := strconv.ParseFloat(word, 64); err == nil {
		return f
	}
	if d, err := time.ParseDuration(word); err == nil {
		return d.Seconds()
	}
	lower := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(word), "b"), "i")
	if n := len(lower); n > 1 {
		if i := strings.IndexByte("kmgtpe", lower[n-1]); i >= 0 {
			if f, err := strconv.ParseFloat(lower[:n-1], 64); err == nil {
				for range i + 1 {
					f *= 1 << 10
				}
				return f
			}
		}
	}
	return -1
}
