package confine

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// shape is what stands on the right of a key.
type shape uint8

const (
	shapeString shape = iota + 1
	shapeNumber
	shapeBool
	shapeList
	shapeTable // a table's own line, or an empty inline table
	shapeTables
	shapeOther // a date, a nested value that no key takes
)

// entry is one key of a file with its value.
type entry struct {
	key    []string
	shape  shape
	text   string  // of a string, number or bool
	items  []entry // of a list
	keyAt  int     // offset of the key
	at     int     // offset of the value
	inline bool    // an empty inline table: it says something
}

// document is a file as a flat list of keys, in its order.
type document struct {
	path    string
	lines   []int // offset of each line's start
	entries []entry
}

// where is "path:line:col" of an offset.
func (d *document) where(offset int) string {
	n := d.line(offset)
	return d.source(offset) + ":" + strconv.Itoa(offset-d.lines[n-1]+1)
}

// source is "path:line" of an offset.
func (d *document) source(offset int) string {
	return printable(d.path) + ":" + strconv.Itoa(d.line(offset))
}

func (d *document) line(offset int) int {
	return sort.Search(len(d.lines), func(i int) bool { return d.lines[i] > offset })
}

// parseDocument reads TOML twice: the decoder knows all of its rules (what may
// be said twice, which numbers there are), the parser where each thing stands.
func parseDocument(path string, data []byte) (*document, error) {
	d := &document{path: path, lines: []int{0}}
	for i, c := range data {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	var all map[string]any
	if err := toml.Unmarshal(data, &all); err != nil {
		var de *toml.DecodeError
		if errors.As(err, &de) {
			line, col := de.Position()
			return nil, &UsageError{Msg: fmt.Sprintf("%s:%d:%d: %s", printable(path), line, max(col, 1), strings.TrimPrefix(de.Error(), "toml: "))}
		}
		return nil, &UsageError{Msg: printable(path) + ": " + err.Error(), Err: err}
	}
	var p unstable.Parser
	p.Reset(data)
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		key, at := keyOf(e)
		switch e.Kind {
		case unstable.Table:
			table = key
			d.entries = append(d.entries, entry{key: key, shape: shapeTable, keyAt: at, at: at})
		case unstable.ArrayTable:
			table = key
			d.entries = append(d.entries, entry{key: key, shape: shapeTables, keyAt: at, at: at})
		case unstable.KeyValue:
			d.keyValue(table, e)
		}
	}
	if err := p.Error(); err != nil {
		return nil, &UsageError{Msg: printable(path) + ": " + err.Error(), Err: err}
	}
	return d, nil
}

func keyOf(n *unstable.Node) (key []string, at int) {
	it := n.Key()
	for it.Next() {
		k := it.Node()
		if key == nil {
			at = int(k.Raw.Offset)
		}
		key = append(key, string(k.Data))
	}
	return key, at
}

func (d *document) keyValue(table []string, n *unstable.Node) {
	key, at := keyOf(n)
	key = slices.Concat(table, key)
	v := n.Value()
	if v.Kind == unstable.InlineTable {
		empty := true
		it := v.Children()
		for it.Next() {
			empty = false
			d.keyValue(key, it.Node())
		}
		if empty {
			d.entries = append(d.entries, entry{key: key, shape: shapeTable, keyAt: at, at: at, inline: true})
		}
		return
	}
	e := valueOf(v, at)
	e.key, e.keyAt = key, at
	d.entries = append(d.entries, e)
}

// valueOf reads a value. A list has no place of its own in the tree, and stands
// where its key does.
func valueOf(v *unstable.Node, keyAt int) entry {
	e := entry{at: keyAt, text: string(v.Data)}
	if v.Raw.Length > 0 {
		e.at = int(v.Raw.Offset)
	}
	switch v.Kind {
	case unstable.String:
		e.shape = shapeString
	case unstable.Bool:
		e.shape = shapeBool
	case unstable.Integer:
		e.shape = shapeNumber
		if n, err := strconv.ParseInt(strings.TrimPrefix(e.text, "+"), 0, 64); err == nil {
			e.text = strconv.FormatInt(n, 10)
		}
	case unstable.Float:
		e.shape = shapeNumber
		if f, err := strconv.ParseFloat(strings.ReplaceAll(e.text, "_", ""), 64); err == nil {
			e.text = strconv.FormatFloat(f, 'f', -1, 64)
		}
	case unstable.Array:
		e.shape = shapeList
		it := v.Children()
		for it.Next() {
			e.items = append(e.items, valueOf(it.Node(), e.at))
		}
	default:
		e.shape = shapeOther
	}
	return e
}
