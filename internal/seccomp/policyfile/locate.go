package policyfile

import (
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"
)

// locate finds where in a document the value at path stands, or else the value
// that it should have been in. The document is known to be valid.
func locate(text []byte, path []any) (line, column int) {
	if len(path) == 0 {
		return 0, 0
	}
	l := locator{want: path}
	l.p.Reset(text)
	l.arrays = map[string]int{}
	var table []any
	for l.p.NextExpression() {
		switch n := l.p.Expression(); n.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = l.header(n)
		case unstable.KeyValue:
			l.keyValue(n, table)
		}
	}
	if l.best == 0 {
		return 0, 0
	}
	at := l.p.Shape(l.at).Start
	return at.Line, at.Column
}

type locator struct {
	p      unstable.Parser
	want   []any
	arrays map[string]int // how many elements each array of tables has had
	best   int            // how much of want was found
	at     unstable.Range
}

// found notes that the value at path stands at r.
func (l *locator) found(path []any, r unstable.Range) {
	if len(path) >= l.best && len(path) <= len(l.want) && slices.Equal(path, l.want[:len(path)]) && r.Length > 0 {
		l.best, l.at = len(path), r
	}
}

// header gives the path that a [table] or [[array]] opens.
func (l *locator) header(n *unstable.Node) []any {
	var path []any
	name := ""
	var last *unstable.Node
	for keys := n.Key(); keys.Next(); {
		last = keys.Node()
		path = append(path, string(last.Data))
		name += "\x00" + string(last.Data)
		if keys.IsLast() && n.Kind == unstable.ArrayTable {
			l.arrays[name]++
		}
		if count := l.arrays[name]; count > 0 {
			path = append(path, count-1)
		}
	}
	if last != nil {
		l.found(path, last.Raw)
	}
	return path
}

func (l *locator) keyValue(n *unstable.Node, table []any) {
	path := slices.Clone(table)
	for keys := n.Key(); keys.Next(); {
		path = append(path, string(keys.Node().Data))
		l.found(path, keys.Node().Raw)
	}
	l.value(n.Value(), path)
}

func (l *locator) value(n *unstable.Node, path []any) {
	l.found(path, n.Raw)
	i := 0
	for kids := n.Children(); kids.Next(); {
		switch kid := kids.Node(); {
		case kid.Kind == unstable.Comment:
		case n.Kind == unstable.InlineTable:
			l.keyValue(kid, path)
		case n.Kind == unstable.Array:
			l.value(kid, append(slices.Clone(path), i))
			i++
		}
	}
}
