package learn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/confine-run/confine/internal/quote"
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

// String is a line, or several for a list.
func (l *Line) String() string {
	var b strings.Builder
	b.WriteString(l.Key + " = ")
	switch {
	case l.list && len(l.Items) == 0:
		b.WriteString("[]")
	case l.list:
		b.WriteString("[\n")
		for _, i := range l.Items {
			b.WriteString("    " + quote.TOML(i.Word) + ",")
			if i.Why != "" {
				b.WriteString(" # " + i.Why)
			}
			b.WriteString("\n")
		}
		b.WriteString("]")
	default:
		b.WriteString(l.Value)
	}
	if l.Why != "" {
		b.WriteString(" # " + l.Why)
	}
	return b.String()
}

// bareKey quotes a key where it has to be.
func bareKey(k string) string {
	for i := range len(k) {
		if c := k[i]; !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return quote.TOML(k)
		}
	}
	if k == "" {
		return `""`
	}
	return k
}
