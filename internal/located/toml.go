// Package located reads TOML as a tree of values that know where they stand, so that whoever
// interprets a file can name each mistake with its line and column.
package located

import (
	"errors"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Kind is what a value is. The zero value is that of one that isn't there.
type Kind byte

const (
	Table Kind = iota + 1
	List
	String
	Integer
	Float
	Bool
	Null
	Other // a date or a time
)

// Value is one value of a document. A number has the text of its canonical form, in decimal.
type Value struct {
	Kind  Kind
	Text  string // of a string, number or bool
	At    int    // offset; of what has no place of its own, that of its key
	Keys  []Key  // of a table
	Items []Value

	// Said: a table has a line or an empty pair of braces of its own; a list is made of [[tables]].
	Said bool
	// Inline: it is a pair of braces.
	Inline bool
}

// Key is a key of a table, whose value is the item of the same index.
type Key struct {
	Name string
	At   int
}

// Error is a mistake at an offset.
type Error struct {
	At  int
	Msg string
}

func (e *Error) Error() string { return e.Msg }

// TOML reads a document; the error is an *Error. It is read twice: the decoder knows all of the rules (what may
// be said twice, which numbers there are), the parser where each thing stands.
func TOML(text []byte) (Value, error) {
	var all map[string]any
	if err := toml.Unmarshal(text, &all); err != nil {
		var at *toml.DecodeError
		if !errors.As(err, &at) {
			return Value{}, &Error{0, err.Error()}
		}
		line, column := at.Position()
		return Value{}, &Error{NewLines(text)[line-1] + max(column, 1) - 1, strings.TrimPrefix(at.Error(), "toml: ")}
	}
	top := Value{Kind: Table}
	table := &top
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = header(&top, e)
		case unstable.KeyValue:
			table.assign(e)
		}
	}
	if err := p.Error(); err != nil {
		return Value{}, &Error{0, err.Error()}
	}
	return top, nil
}

// header gives the table that a [table] or [[array]] opens. It stands where the first part of its name does.
func header(top *Value, n *unstable.Node) *Value {
	v, at := top, -1
	for keys := n.Key(); keys.Next(); {
		key := keys.Node()
		if at < 0 {
			at = int(key.Raw.Offset)
		}
		if v = v.child(string(key.Data), at); !keys.IsLast() || n.Kind == unstable.Table {
			v = v.table()
			continue
		}
		v.Kind, v.Said = List, true
		v.Items = append(v.Items, Value{Kind: Table, At: at})
		return &v.Items[len(v.Items)-1]
	}
	v.Said, v.At = true, at
	return v
}

// child finds or makes what stands under a key.
func (v *Value) child(name string, at int) *Value {
	for i := range v.Keys {
		if v.Keys[i].Name == name {
			return &v.Items[i]
		}
	}
	v.Keys, v.Items = append(v.Keys, Key{name, at}), append(v.Items, Value{At: at})
	return &v.Items[len(v.Items)-1]
}

// table is a value as one; of a list of tables, the last.
func (v *Value) table() *Value {
	if v.Kind == List && len(v.Items) > 0 {
		return &v.Items[len(v.Items)-1]
	}
	v.Kind = Table
	return v
}

// assign reads KEY = VALUE.
func (v *Value) assign(n *unstable.Node) {
	at := -1
	for keys := n.Key(); keys.Next(); {
		if at < 0 {
			v.Kind, at = Table, int(keys.Node().Raw.Offset)
		}
		v = v.child(string(keys.Node().Data), at)
		if !keys.IsLast() {
			v.Kind = Table
		}
	}
	v.read(n.Value())
}

var kinds = [...]Kind{unstable.String: String, unstable.Integer: Integer, unstable.Float: Float, unstable.Bool: Bool,
	unstable.Array: List, unstable.InlineTable: Table}

func (v *Value) read(n *unstable.Node) {
	if n.Raw.Length > 0 {
		v.At = int(n.Raw.Offset)
	}
	v.Kind, v.Text = Other, string(n.Data)
	if int(n.Kind) < len(kinds) && kinds[n.Kind] != 0 {
		v.Kind = kinds[n.Kind]
	}
	switch v.Kind {
	case Integer:
		if i, err := strconv.ParseInt(strings.TrimPrefix(v.Text, "+"), 0, 64); err == nil {
			v.Text = strconv.FormatInt(i, 10)
		}
	case Float:
		if f, err := strconv.ParseFloat(strings.ReplaceAll(v.Text, "_", ""), 64); err == nil {
			v.Text = strconv.FormatFloat(f, 'f', -1, 64)
		}
	case List, Table:
		for kids := n.Children(); kids.Next(); {
			switch kid := kids.Node(); {
			case kid.Kind == unstable.Comment:
			case v.Kind == Table:
				v.assign(kid)
			default:
				item := Value{At: v.At}
				item.read(kid)
				v.Items = append(v.Items, item)
			}
		}
		v.Inline = v.Kind == Table
		v.Said = v.Inline && len(v.Keys) == 0
	}
}

// Lines are the offsets at which the lines of a text start.
type Lines []int

// NewLines finds them.
func NewLines(text []byte) Lines {
	lines := Lines{0}
	for i, c := range text {
		if c == '\n' {
			lines = append(lines, i+1)
		}
	}
	return lines
}

// Place gives the line and the column of an offset, counted from 1.
func (l Lines) Place(at int) (line, column int) {
	line = sort.Search(len(l), func(i int) bool { return l[i] > at })
	return line, at - l[line-1] + 1
}
