package main

import (
	"strings"
	"unicode/utf8"
)

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
