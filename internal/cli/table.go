package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/confine-run/confine/supervisor/terminal"
)

// table collects lines, and rows whose columns stand below each other. What it
// shows can't break out of its line.
type table struct {
	b    strings.Builder
	rows [][]string
}

func (t *table) line(s string) { t.b.WriteString(terminal.Visible(s) + "\n") }

// pair is a line that is left out when there is nothing to say.
func (t *table) pair(name, value string) {
	if value != "" {
		t.line(name + value)
	}
}

// hint is a remedy, whose further lines stand below its first one.
func (t *table) hint(indent, remedy string) {
	lead := indent + "hint: "
	for line := range strings.SplitSeq(remedy, "\n") {
		if line != "" {
			t.line(lead + line)
			lead = indent + "      "
		}
	}
}

func (t *table) head(cells ...string) {
	for i, c := range cells {
		cells[i] = strings.ToUpper(c)
	}
	t.rows = [][]string{cells}
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = terminal.Visible(c)
		if cells[i] == "" && i < len(cells)-1 {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

// end writes the rows, if there are any below the head.
func (t *table) end() {
	rows := t.rows
	if t.rows = nil; len(rows) < 2 {
		return
	}
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	t.b.WriteString("\n")
	for _, r := range rows {
		line := ""
		for i, c := range r {
			line += fmt.Sprintf("%-*s  ", width[i], c)
		}
		t.b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

func (t *table) String() string { return t.b.String() }

const lineWidth = 80

// fill breaks text into lines; line breaks in it stay.
func fill(text, first, rest string) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		lead := first
		width := 0
		for _, w := range strings.Fields(paragraph) {
			n := utf8.RuneCountInString(w)
			switch {
			case width == 0:
				b.WriteString(lead + w)
				width = utf8.RuneCountInString(lead) + n
			case width+1+n > lineWidth:
				b.WriteString("\n" + rest + w)
				width = utf8.RuneCountInString(rest) + n
			default:
				b.WriteString(" " + w)
				width += 1 + n
			}
		}
	}
	return b.String()
}

// column is a name and its text beside it, or below it when the name is long.
func column(name, text string, at int) string {
	name = "  " + name
	indent := strings.Repeat(" ", at)
	if n := utf8.RuneCountInString(name); n+2 <= at {
		return fill(text, name+strings.Repeat(" ", at-n), indent)
	}
	return name + "\n" + fill(text, indent, indent)
}
