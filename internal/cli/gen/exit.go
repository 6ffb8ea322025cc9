package main

import (
	"strconv"

	"github.com/confine-run/confine/status"
)

var dialects = []status.Dialect{status.Normalized, status.GNU, status.Simple}

// exitCode is how the code of a status is written: it is asked for what it makes
// of a code and of a signal that no row has as a constant.
func exitCode(s status.Status, d status.Dialect) string {
	const code, signal = 77, 55
	switch {
	case s.RC(d, code, signal) == code:
		return "own"
	case s.RC(d, code, signal) == 128+signal:
		return "128+n"
	case s.RC(d, 126, 0) == 126 && s.RC(d, 127, 0) == 127:
		return "127, 126"
	}
	return strconv.Itoa(s.RC(d, code, signal))
}

// exitRows is the table of exit codes: status, meaning, and a code per dialect.
func exitRows() [][]string {
	var rows [][]string
	for _, s := range status.Statuses() {
		row := []string{string(s), exitMeanings[string(s)]}
		for _, d := range dialects {
			row = append(row, exitCode(s, d))
		}
		rows = append(rows, row)
	}
	return rows
}
