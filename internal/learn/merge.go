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

// Older is a profile that learn has written before, as far as merging with it has to know. The
// zero value is none.
type Older struct {
	Name  string
	Hosts bool // it names some to reach

	calls string // the policy of system calls that it names
}

// ReadOlder reads the profile that a file of learn's uses.
func ReadOlder(text string) (o Older, err error) {
	var file struct {
		Sandbox struct {
			Profile  string
			Profiles map[string]struct {
				Network struct {
					Allow any `toml:"allow_domains"`
				}
				Seccomp any
			}
		}
	}
	if err := toml.Unmarshal([]byte(text), &file); err != nil {
		return o, err
	}
	o.Name = file.Sandbox.Profile
	p, found := file.Sandbox.Profiles[o.Name]
	if !found {
		return o, errors.New("it has no profile that it uses itself: [sandbox] profile = \"NAME\", and [sandbox.profiles.NAME]")
	}
	words, isList := p.Network.Allow.([]any)
	o.Hosts = len(words) > 0 || p.Network.Allow != nil && !isList
	o.calls, _ = p.Seccomp.(string)
	return o, nil
}

// NamesCalls says whether it names this policy of system calls. One that it doesn't name may
// be anybody's: nothing kept a run from making it.
func (o *Older) NamesCalls(name string) bool {
	return o.calls != "" && path.Clean(o.calls) == path.Clean(name)
}

// Merge adds a profile to the text of an older file: lists grow, of limits the larger one
// lasts, and what is there of somebody else's stays, comments too.
func (p *Profile) Merge(old string) (string, error) {
	older, err := ReadOlder(old)
	if err != nil {
		return "", err
	}
	if p.Name != older.Name {
		return "", errors.New("its profile is called " + strconv.Quote(older.Name))
	}
	d, err := parseDocument(old)
	if err != nil {
		return "", err
	}
	own := p.document()
	p.Widened = nil
	for _, l := range own.head { // a person's comments first, and each of ours once
		if !slices.Contains(d.head, l) {
			d.head = append(d.head, l)
		}
	}
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

// unneeded takes out what learn made writable below a project that is so as a whole now:
// it would only have to be there.
func (s *section) unneeded(project string) {
	dir, list := s.find("workdir"), s.find("allow_write")
	if project == "" || dir == nil || list == nil || !list.list || unquoted(dir.Value) != "rw" || len(list.inside) > 0 {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(list.Items), func(i Item) bool {
		return i.written() && (under(i.Word, project) || project == "." && strings.HasPrefix(i.Word, "./"))
	})
	if len(kept) < len(list.Items) {
		list.Items, list.raw = kept, ""
	}
}

// written says whether learn granted it for writing. The comment is all that a file has of that:
// it begins with the verb, as want.why makes it.
func (i *Item) written() bool {
	verb, _, _ := strings.Cut(i.Why, " ")
	return strings.TrimSuffix(verb, ",") == verbWritten
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
