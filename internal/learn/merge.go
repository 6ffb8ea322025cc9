package learn

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/quote"
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
	if err := p.addTo(d); err != nil {
		return "", err
	}
	d.dropUnneeded(p.table("filesystem"), p.project)
	text := d.String()
	var check map[string]any
	if err := toml.Unmarshal([]byte(text), &check); err != nil {
		return "", errShape
	}
	return text, nil
}

// dropUnneeded takes out what learn made writable below a project that is so as a whole now:
// it would only have to be there.
func (d *document) dropUnneeded(table, project string) {
	dir, list := d.find(table, "workdir"), d.find(table, "allow_write")
	if project == "" || dir < 0 || list < 0 || unquoted(d.blocks[dir].value) != "rw" {
		return
	}
	b := d.blocks[list]
	lines := strings.Split(b.text, "\n")
	b.list = slices.DeleteFunc(b.list, func(word string) bool {
		if !hostfs.Under(word, project) && !(project == "." && strings.HasPrefix(word, "./")) {
			return false
		}
		own := slices.IndexFunc(lines, func(line string) bool {
			code, comment := cutComment(line)
			return strings.TrimSpace(code) == quote.TOML(word)+"," && written(comment)
		})
		if own >= 0 {
			lines = slices.Delete(lines, own, own+1)
		}
		return own >= 0
	})
	if b.text = strings.Join(lines, "\n"); len(lines) == 2 {
		b.text = strings.Join(lines, "")
	}
}

// written says whether learn granted an item for writing. The comment is all that a file has of that:
// it begins with the verb, as want.why makes it.
func written(why string) bool {
	verb, _, _ := strings.Cut(why, " ")
	return strings.TrimSuffix(verb, ",") == verbWritten
}

// merge takes over what a key says in a newer profile.
func (b *block) merge(own *Line) (widened string, err error) {
	switch {
	case b.isList && own.list:
		items := slices.DeleteFunc(slices.Clone(own.Items), func(i Item) bool { return slices.Contains(b.list, i.Word) })
		if len(items) > 0 {
			return "", b.add(items)
		}
	case b.isList || own.list || b.value == "":
		// Somebody has put it otherwise.
	case higher(own.Key, own.Value, b.value):
		widened = own.Key + " = " + b.value + " to " + own.Value
		b.text = own.String()
		if b.why != "" && !learned(b.why, own.Why) {
			b.text = "# " + b.why + "\n" + b.text // a person's
		}
		b.value, b.why = own.Value, own.Why
	}
	return widened, nil
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
