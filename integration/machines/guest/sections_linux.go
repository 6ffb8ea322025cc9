package main

import (
	"os"
	"strings"

	"github.com/confine-run/confine/integration/machines/orders"
)

// sections is what a test binary printed, by tests. All of it would be too much
// for a serial port.
type sections struct {
	current string
	lines   map[string][]string
	failed  []string
}

// What is shown of a failed test, at most.
const (
	mostLines = 300
	mostWidth = 1000
)

func newSections() *sections { return &sections{lines: map[string][]string{}} }

// take passes on at once what says how far it is.
func (s *sections) take(line string) {
	trimmed := strings.TrimSpace(line)
	word, name, isMark := strings.Cut(strings.TrimPrefix(trimmed, "=== "), " ")
	switch {
	case strings.HasPrefix(trimmed, "=== ") && isMark:
		s.current = strings.TrimSpace(name)
		if word == "PAUSE" {
			return
		}
	case strings.HasPrefix(trimmed, "--- "):
		name, isFailure := strings.CutPrefix(trimmed, "--- FAIL: ")
		if name, _, _ = strings.Cut(name, " "); isFailure {
			s.failed = append(s.failed, name)
		}
	default:
		lines := append(s.lines[s.current], line[:min(len(line), mostWidth)])
		s.lines[s.current] = lines[max(0, len(lines)-mostLines):]
		return
	}
	say(os.Stdout, orders.Said{Line: trimmed})
}

// tellFailed is for the end. What belongs to no test may say why there is none.
func (s *sections) tellFailed() {
	for _, name := range append([]string{""}, s.failed...) {
		for _, line := range s.lines[name] {
			say(os.Stdout, orders.Said{Line: line})
		}
	}
}
