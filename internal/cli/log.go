package cli

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/terminal"
)

// prefix stands before every line of ours: one never has a control character in it,
// and a command's last line without an end is ended first by who passes it on.
const prefix = terminal.Prefix

// logger says things on stderr.
type logger struct {
	console *terminal.Console // shared with the command's own output; nil: write
	write   func([]byte) error
	level   string // "quiet", "normal" or "verbose"
	json    bool
}

// record is one line of --log-format json.
type record struct {
	Level  string `json:"level"` // "error", "notice" or "info"
	Msg    string `json:"msg"`
	Hint   string `json:"hint,omitempty"`
	Status string `json:"status,omitempty"`
	// Network is the attempt that the line is about.
	Network *status.Attempt `json:"network,omitempty"`
	// File is the refused access that the line is about.
	File *status.Violation `json:"file,omitempty"`
}

// failure is said even when quiet: without it a non-zero exit would explain nothing.
func (l *logger) failure(err error) {
	msg, hint := err.Error(), ""
	var usage *confine.UsageError
	if errors.As(err, &usage) {
		msg, hint = usage.Msg, usage.Hint
	} else if m, h, ok := strings.Cut(msg, "\nhint: "); ok {
		msg, hint = m, h
	}
	l.emit(record{Level: "error", Msg: msg, Hint: hint})
}

// notice is for what the user should know and didn't ask for.
func (l *logger) notice(msg string) {
	if l.level != "quiet" {
		msg, hint, _ := strings.Cut(msg, "\nhint: ")
		l.emit(record{Level: "notice", Msg: msg, Hint: hint})
	}
}

// outcome is how a run ended, when that needs saying.
func (l *logger) outcome(r record) {
	if l.level != "quiet" || r.Status == string(status.InternalError) {
		r.Level = "error"
		l.emit(r)
	}
}

func (l *logger) info(msg string) {
	if l.level == "verbose" {
		l.emit(record{Level: "info", Msg: msg})
	}
}

// emit writes one record in one write, so that lines of several runs don't mix. That
// stderr is gone is nothing that could be said anywhere.
func (l *logger) emit(r record) {
	if l.json {
		r.Msg, r.Hint, r.Status = cleanLines(r.Msg), cleanLines(r.Hint), terminal.Visible(r.Status)
		b, _ := json.Marshal(r)
		l.print([]string{string(b)})
		return
	}
	msg := r.Msg
	if r.Status != "" {
		msg = r.Status + ": " + msg
	}
	var lines []string
	for line := range strings.SplitSeq(msg, "\n") {
		lines = append(lines, prefix+terminal.Visible(line))
	}
	if r.Hint != "" {
		lead := "hint: "
		for line := range strings.SplitSeq(r.Hint, "\n") {
			lines = append(lines, prefix+lead+terminal.Visible(line))
			lead = "      "
		}
	}
	l.print(lines)
}

// print writes lines in one write, from the start of a line, whatever the
// command has left on the terminal.
func (l *logger) print(lines []string) {
	if l.console != nil {
		l.console.Print(lines...)
		return
	}
	_ = l.write([]byte(strings.Join(lines, "\n") + "\n"))
}

// cleanLines is terminal.Visible for a place where a line break is an escape anyway.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = terminal.Visible(l)
	}
	return strings.Join(lines, "\n")
}
