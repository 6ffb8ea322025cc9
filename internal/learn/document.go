package learn

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/confine-run/confine/internal/quote"
)

// document is a policy file in blocks, one after the other. What isn't understood stays as it is.
type document struct{ blocks []*block }

// block is a header of a table, or a key with its value; or a blank line or comment.
type block struct {
	text    string // its lines, without the last line feed
	comment bool   // or blank
	table   string // that is begun, or that the key is in
	key     string

	value, why string // of a value on one line that is no list, and its comment
	isList     bool   // of strings
	list       []string
}

// errShape is a file that is TOML, but not of a form that lines can be added to.
var errShape = errors.New("it has more in one line, or one value in more lines, than can be told apart")

// parseDocument reads a file. It is TOML, or this is an error.
func parseDocument(text string) (*document, error) {
	var all map[string]any
	if err := toml.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("it is no TOML: %w", err)
	}
	d, table := &document{}, ""
	for lines := strings.Split(strings.TrimRight(text, "\n"), "\n"); len(lines) > 0; {
		b, n := &block{}, 1
		switch line := strings.TrimSpace(lines[0]); {
		case line == "" || line[0] == '#':
			b.comment = true
		case strings.HasPrefix(line, "[["):
			return nil, errShape
		case line[0] == '[':
			table = tableName(line)
		default:
			if n = b.parse(lines); n > len(lines) {
				return nil, errShape
			}
		}
		b.text, b.table = strings.Join(lines[:n], "\n"), table
		d.blocks, lines = append(d.blocks, b), lines[n:]
	}
	return d, nil
}

// tableName is a header's, without blanks around its dots.
func tableName(header string) string {
	code, _ := cutComment(header)
	parts := strings.Split(strings.Trim(strings.TrimSpace(code), "[]"), ".")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return strings.Join(parts, ".")
}

// parse reads a key, and gives how many lines it has with its value; more than there are if it is none.
func (b *block) parse(lines []string) (n int) {
	var value map[string]any
	for n = 1; n <= len(lines); n++ {
		if value = nil; toml.Unmarshal([]byte(strings.Join(lines[:n], "\n")), &value) == nil {
			break
		}
	}
	key, rest, _ := strings.Cut(lines[0], "=")
	b.key = strings.TrimSpace(key)
	words, isList := value[b.key].([]any)
	if !isList && n == 1 {
		code, comment := cutComment(rest)
		b.value, b.why = strings.TrimSpace(code), comment
	}
	for _, w := range words {
		s, isString := w.(string)
		if !isString {
			return n // left as it is
		}
		b.list = append(b.list, s)
	}
	b.isList = isList
	return n
}

// cutComment parts a line at the "#" that begins its comment.
func cutComment(line string) (code, comment string) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '#':
			return line[:i], strings.TrimSpace(strings.TrimLeft(line[i:], "#"))
		case '"', '\'':
			i = skipString(line, i)
		}
	}
	return line, ""
}

// skipString is where the string ends that begins at i.
func skipString(text string, i int) int {
	quote := text[i]
	for i++; i < len(text) && text[i] != quote; i++ {
		if quote == '"' && text[i] == '\\' {
			i++
		}
	}
	return i
}

func (d *document) String() string {
	var b strings.Builder
	for _, x := range d.blocks {
		b.WriteString(x.text + "\n")
	}
	return b.String()
}

// find is the block of a key; without a key, the last one of a table.
func (d *document) find(table, key string) (at int) {
	at = -1
	for i, b := range d.blocks {
		if !b.comment && b.table == table && (key == "" || b.key == key) {
			at = i
		}
	}
	return at
}

// notes adds comments to those at the head, each once.
func (d *document) notes(lines []string) {
	end := 0
	for i, b := range d.blocks {
		if !b.comment {
			break
		}
		if b.text != "" {
			end = i + 1
		}
	}
	head := d.blocks[:end]
	var added []*block
	for _, l := range lines {
		if !slices.ContainsFunc(head, func(b *block) bool { return strings.TrimSpace(b.text) == l }) {
			added = append(added, &block{comment: true, text: l})
		}
	}
	d.blocks = slices.Insert(d.blocks, end, added...)
}

// put adds a line to a table, or to the line that has its key. widened says that a value grants more than
// it did.
func (d *document) put(table string, l *Line) (widened string, err error) {
	if at := d.find(table, l.Key); at >= 0 {
		return d.blocks[at].merge(l)
	}
	at := d.find(table, "")
	if at < 0 {
		if len(d.blocks) > 0 {
			d.blocks = append(d.blocks, &block{comment: true})
		}
		at = len(d.blocks)
		d.blocks = append(d.blocks, &block{table: table, text: "[" + table + "]"})
	}
	b := &block{table: table, key: l.Key, text: l.String(), value: l.Value, why: l.Why, isList: l.list}
	for _, i := range l.Items {
		b.list = append(b.list, i.Word)
	}
	d.blocks = slices.Insert(d.blocks, at+1, b)
	return "", nil
}

// add puts items at the end of a list.
func (b *block) add(items []Item) error {
	last := strings.IndexByte(b.text, '[') + 1 // where the last item ends, with its comma
	end := last
	for ; end < len(b.text) && b.text[end] != ']'; end++ {
		switch b.text[end] {
		case '#':
			comment, _, _ := strings.Cut(b.text[end:], "\n")
			end += len(comment)
		case '"', '\'':
			end = skipString(b.text, end)
			last = end + 1
		case ',':
			last = end + 1
		}
	}
	if last > end || end >= len(b.text) {
		return errShape
	}
	head, rest := b.text[:last], strings.TrimRight(b.text[last:end], " \t")
	if c := head[last-1]; c != '[' && c != ',' {
		head += ","
	}
	if !strings.HasSuffix(rest, "\n") {
		rest += "\n"
	}
	b.text = head + rest + itemLines(items) + b.text[end:]
	for _, i := range items {
		b.list = append(b.list, i.Word)
	}
	var now block
	if lines := strings.Split(b.text, "\n"); now.parse(lines) != len(lines) || !slices.Equal(now.list, b.list) {
		return errShape
	}
	return nil
}

// itemLines are those of a list's items.
func itemLines(items []Item) string {
	var b strings.Builder
	for _, i := range items {
		b.WriteString("    " + quote.TOML(i.Word) + ",")
		if i.Why != "" {
			b.WriteString(" # " + i.Why)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// String is a line, or several for a list.
func (l *Line) String() string {
	text := l.Key + " = " + l.Value
	switch {
	case l.list && len(l.Items) == 0:
		text += "[]"
	case l.list:
		text += "[\n" + itemLines(l.Items) + "]"
	}
	if l.Why != "" {
		text += " # " + l.Why
	}
	return text
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
