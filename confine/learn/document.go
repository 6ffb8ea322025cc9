package learn

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// document is a policy file by its lines: what isn't understood stays as it is.
type document struct {
	head     []string // comments before the first table
	sections []*section
	tail     []string // comments after the last key
}

// section is one table.
type section struct {
	name    string
	above   []string // comments
	header  string   // as it stands; "" for keys before any table
	entries []*entry
}

// entry is one key.
type entry struct {
	Line
	above []string
	// inside are comments on lines of their own in a list, by the number of the item that
	// they stand before.
	inside map[int][]string
	raw    string // as it stands, if it is not to be written anew
}

// section finds the table of a name, or begins it.
func (d *document) section(name string) *section {
	if s := d.find(name); s != nil {
		return s
	}
	s := &section{name: name, header: "[" + name + "]"}
	d.sections = append(d.sections, s)
	return s
}

func (d *document) find(name string) *section {
	for _, s := range d.sections {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (s *section) set(l Line) { s.entries = append(s.entries, &entry{Line: l}) }

func (s *section) find(key string) *entry {
	for _, e := range s.entries {
		if e.Key == key {
			return e
		}
	}
	return nil
}

func (d *document) String() string {
	var b strings.Builder
	lines := func(all []string) {
		for _, l := range all {
			b.WriteString(l + "\n")
		}
	}
	lines(d.head)
	for _, s := range d.sections {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		lines(s.above)
		if s.header != "" {
			b.WriteString(s.header + "\n")
		}
		for _, e := range s.entries {
			lines(e.above)
			b.WriteString(e.text() + "\n")
		}
	}
	if len(d.tail) > 0 {
		b.WriteString("\n")
		lines(d.tail)
	}
	return b.String()
}

func (e *entry) text() string {
	if e.raw != "" {
		return e.raw
	}
	if len(e.inside) == 0 {
		return e.Line.String()
	}
	plain := e.Line
	plain.Items, plain.Why = nil, ""
	text := strings.TrimSuffix(plain.String(), "]") + "\n"
	for i := 0; i <= len(e.Items); i++ {
		for _, c := range e.inside[i] {
			text += "    " + c + "\n"
		}
		if i < len(e.Items) {
			one := Line{Key: "k", Items: e.Items[i : i+1], list: true}
			text += strings.TrimSuffix(strings.TrimPrefix(one.String(), "k = [\n"), "]")
		}
	}
	text += "]"
	if e.Why != "" {
		text += " # " + e.Why
	}
	return text
}

// errShape is a file that is TOML, but not of a form that lines can be added to.
var errShape = errors.New("it has more in one line, or one value in more lines, than can be told apart")

// parseDocument reads a file. It is TOML, or this is an error.
func parseDocument(text string) (*document, error) {
	var all map[string]any
	if err := toml.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("it is no TOML: %w", err)
	}
	d := &document{}
	var cur *section
	var pending []string
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		switch {
		case line == "":
			if cur == nil && len(d.head) == 0 {
				d.head, pending = pending, nil
			}
		case line[0] == '#':
			pending = append(pending, line)
		case strings.HasPrefix(line, "[["):
			return nil, errShape
		case line[0] == '[':
			code, _ := cutComment(line)
			cur = &section{name: tableName(code), header: line, above: pending}
			if pending = nil; d.find(cur.name) != nil {
				return nil, errShape
			}
			if len(d.sections) == 0 && len(d.head) == 0 {
				d.head, cur.above = cur.above, nil
			}
			d.sections = append(d.sections, cur)
		default:
			if cur == nil {
				cur = &section{}
				d.sections = append(d.sections, cur)
			}
			n, e, err := parseEntry(lines[i:])
			if err != nil {
				return nil, err
			}
			e.above, pending = pending, nil
			cur.entries = append(cur.entries, e)
			i += n - 1
		}
	}
	d.tail = pending
	return d, nil
}

// tableName is a header's, without blanks around its dots.
func tableName(code string) string {
	parts := strings.Split(strings.Trim(strings.TrimSpace(code), "[]"), ".")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return strings.Join(parts, ".")
}

// parseEntry reads a key: so many lines that they are one.
func parseEntry(lines []string) (n int, e *entry, err error) {
	var value map[string]any
	for n = 1; n <= len(lines); n++ {
		if value = nil; toml.Unmarshal([]byte(strings.Join(lines[:n], "\n")), &value) == nil {
			break
		}
	}
	if n > len(lines) {
		return 0, nil, errShape
	}
	key, rest, _ := strings.Cut(lines[0], "=")
	e = &entry{Line: Line{Key: strings.TrimSpace(key)}, raw: strings.Join(lines[:n], "\n")}
	words, ok := value[e.Key].([]any)
	if !ok {
		if n == 1 {
			code, comment := cutComment(rest)
			e.Value, e.Why = strings.TrimSpace(code), comment
		}
		return n, e, nil
	}
	for _, w := range words {
		s, isString := w.(string)
		if !isString {
			return n, e, nil // left as it is
		}
		e.Items = append(e.Items, Item{Word: s})
	}
	e.list = true
	e.comments(append([]string{rest}, lines[1:n]...))
	return n, e, nil
}

// comments finds those of a list's items.
func (e *entry) comments(lines []string) {
	at := 0
	for i, line := range lines {
		code, comment := cutComment(line)
		before := at
		at += countStrings(code)
		switch {
		case comment == "":
		case i == len(lines)-1:
			e.Why = comment
		case at > before && at <= len(e.Items):
			e.Items[at-1].Why = comment
		default:
			if e.inside == nil {
				e.inside = map[int][]string{}
			}
			e.inside[at] = append(e.inside[at], "# "+comment)
		}
	}
}

// cutComment parts a line at the "#" that begins its comment.
func cutComment(line string) (code, comment string) {
	end, _ := scan(line)
	if end < 0 {
		return line, ""
	}
	return line[:end], strings.TrimSpace(strings.TrimLeft(line[end:], "#"))
}

func countStrings(code string) int {
	_, n := scan(code)
	return n
}

// scan goes through a line that has no multi-line string, and gives where its comment
// begins, or -1, and how many strings there are before.
func scan(line string) (comment, n int) {
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case '#':
			return i, n
		case '"', '\'':
			for i++; i < len(line) && line[i] != c; i++ {
				if c == '"' && line[i] == '\\' {
					i++
				}
			}
			n++
		}
	}
	return -1, n
}

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
