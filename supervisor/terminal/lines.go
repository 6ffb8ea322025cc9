package terminal

import (
	"fmt"
	"strings"
)

// Level says which lines are printed.
type Level uint8

const (
	Quiet   Level = iota // errors
	Normal               // and what a user should know
	Verbose              // and what a curious one may want to
)

// prefix starts every line of ours that isn't JSON.
const prefix = "[confine] "

// hint separates an error from its remedy.
const hint = "\nhint: "

// Lines prints lines of ours.
type Lines struct {
	console *Console
	level   Level
	json    bool
	fields  []Field
}

// Field is one more member of a line in JSON. Lines for people don't show it.
type Field struct{ Key, Value string }

// NewLines prints to c, as text or as one JSON object a line.
func NewLines(c *Console, level Level, json bool) *Lines {
	return &Lines{console: c, level: level, json: json}
}

// With returns Lines that carry more fields.
func (l *Lines) With(fields ...Field) *Lines {
	m := *l
	m.fields = append(m.fields[:len(m.fields):len(m.fields)], fields...)
	return &m
}

// Error prints why something failed. A "hint:" line in it becomes one of its own.
func (l *Lines) Error(format string, args ...any) { l.line(Quiet, "error", format, args) }

// Info prints what a user should know.
func (l *Lines) Info(format string, args ...any) { l.line(Normal, "info", format, args) }

// Debug prints what helps to find out why.
func (l *Lines) Debug(format string, args ...any) { l.line(Verbose, "debug", format, args) }

func (l *Lines) line(at Level, name, format string, args []any) {
	if l == nil || at > l.level {
		return
	}
	msg := format
	if len(args) > 0 {
		msg = fmt.Sprintf(format, args...)
	}
	msg, remedy, hinted := strings.Cut(strings.TrimSuffix(msg, "\n"), hint)
	if l.json {
		l.console.Print(l.object(name, msg, remedy))
		return
	}
	lines := []string{prefix + Visible(msg)}
	if hinted {
		lines = append(lines, prefix+"hint: "+Visible(remedy))
	}
	l.console.Print(lines...)
}

func (l *Lines) object(level, msg, remedy string) string {
	b := []byte("{")
	member := func(key, value string) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = appendJSON(append(appendJSON(b, key), ':'), value)
	}
	member("level", level)
	member("msg", msg)
	if remedy != "" {
		member("hint", remedy)
	}
	for _, f := range l.fields {
		member(f.Key, f.Value)
	}
	return string(append(b, '}'))
}
