package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/hint"
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
	msg, remedy := hint.Split(err)
	if remedy == "" && errors.Is(err, syscall.EMFILE) {
		remedy = hint.FewDescriptors
	}
	l.emit(record{Level: "error", Msg: msg, Hint: remedy})
}

// notice is for what the user should know and didn't ask for.
func (l *logger) notice(msg string) { l.advise(msg, "") }

// advise is a notice that says what to do about it.
func (l *logger) advise(msg, remedy string) {
	if l.level != "quiet" {
		l.emit(record{Level: "notice", Msg: msg, Hint: remedy})
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

// maxLines bounds the lines about attempts of one kind; the report
// names more, up to a bound of its own, and counts the rest.
const maxLines = 50

// limited emits the first records of a kind, and then says that there are more. It can be called at the same time.
func (l *logger) limited(further string) func(record) {
	var mu sync.Mutex
	told := 0
	return func(r record) {
		mu.Lock()
		defer mu.Unlock()
		switch told++; {
		case told <= maxLines:
			l.emit(r)
		case told == maxLines+1:
			l.notice(further + " are not told here; the report names more of them, and counts them all")
		}
	}
}

// attempts says what a run tried to reach: what was refused always, what was allowed
// with --log-network, and then without a bound.
func (l *logger) attempts(n *config.Network) func(status.Attempt) {
	emit := l.limited("network: further attempts")
	if n.Log {
		emit = l.emit
	}
	return func(a status.Attempt) {
		if l.level != "quiet" && (n.Log || a.Verdict != status.AttemptAllowed) {
			emit(record{Level: "notice", Msg: attempted(&a), Network: &a})
		}
	}
}

// refusedFiles says which accesses to files the rules refuse, with --log-files, each kind
// once; nil says nothing. It is called from several goroutines.
func (l *logger) refusedFiles(f *config.Filesystem) func(status.Violation) {
	if !f.Log || l.level == "quiet" {
		return nil
	}
	emit := l.limited("file: further ones")
	return func(v status.Violation) {
		if v.Kind == "file" {
			emit(record{Level: "notice", Msg: refusedFile(&v), File: &v})
		}
	}
}

// blocked is what was refused and who tried.
func blocked(what, comm string, pid int) string {
	if pid == 0 {
		return what
	}
	return fmt.Sprintf("%s (%s, pid %d)", what, terminal.Visible(comm), pid)
}

// attempted is one attempt in words.
func attempted(a *status.Attempt) string {
	msg := "network: " + a.Verdict + " " + a.What
	if a.Protocol == "udp" {
		msg += "/udp"
	}
	msg = blocked(msg, a.Comm, a.PID)
	if a.Why != "" && a.Why != "not_allowed" {
		msg += ": " + a.Why
	}
	if a.Claimed != "" {
		msg += " " + a.Claimed
	}
	if a.Hint != "" {
		msg += "; allow with " + a.Hint
	}
	return msg
}

// refusedFile is one refused access in words.
func refusedFile(v *status.Violation) string {
	msg := blocked("file: blocked "+v.What, v.Comm, v.PID)
	switch {
	case strings.HasPrefix(v.Hint, "--"):
		msg += "; allow with " + v.Hint
	case v.Hint != "":
		msg += "; " + v.Hint
	case v.Rule != "":
		msg += ": " + v.Rule
	}
	return msg
}
