package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/confine-run/confine/status"
)

const intro = `# What holds what, and where

Written by ` + "`go run ./integration/machines -write`" + `; don't edit. Each column is a machine that was really booted, with
a kernel of Debian's. confine ran there with every capability asked for, and its ledger says by which mechanism each one is held.
**✓** says that it is proven: an integration test of that capability really ran on that machine, and passed.
*partly* says that it does not hold as asked, and the run goes on only because ` + "`--allow-partial`" + ` says so. *refused* says
that nothing was started: there confine can't build the sandbox, and says why.

`

// pageOf is docs/ENFORCEMENT.md.
func pageOf(list []*machine, results []*result) string {
	var s strings.Builder
	s.WriteString(intro)
	s.WriteString("| machine | Linux | |\n|---|---|---|\n")
	for i, m := range list {
		fmt.Fprintf(&s, "| %s | %s | %s |\n", m.name, series(results[i].Release), m.what)
	}
	notes := notesOf(results)
	s.WriteString("\n|")
	for _, m := range list {
		s.WriteString(" | " + m.name)
	}
	s.WriteString(" |\n|---" + strings.Repeat("|---", len(list)) + "|\n")
	for _, p := range proofs {
		if !inAnyLedger(results, p.capability) {
			continue
		}
		fmt.Fprintf(&s, "| `%s`", p.capability)
		for _, r := range results {
			s.WriteString(" | " + cell(r, p.capability, notes))
		}
		s.WriteString(" |\n")
	}
	if len(notes) > 0 {
		s.WriteString("\nWhy not by something stronger:\n\n")
	}
	for i, n := range notes {
		fmt.Fprintf(&s, "%d. `%s`\n", i+1, n)
	}
	for i, m := range list {
		if results[i].Refused {
			fmt.Fprintf(&s, "\nRefused on %s: %s\n", m.name, results[i].Hint)
		}
	}
	return s.String()
}

// cell is the mechanism, whether it holds as asked, why it is not a stronger
// one, and whether that is proven.
func cell(r *result, c status.Capability, notes []status.FallbackReason) string {
	if r.Refused {
		return "refused"
	}
	e := r.Ledger[c]
	if !e.Enabled {
		return "–"
	}
	words := []string{"`" + e.Mechanism + "`"}
	if !e.Effective {
		words = append(words, "*partly*")
	}
	if r.proves(c) {
		words = append(words, "✓")
	}
	if n := slices.Index(notes, e.FallbackReason); n >= 0 {
		words = append(words, fmt.Sprintf("(%d)", n+1))
	}
	return strings.Join(words, " ")
}

// notesOf are the reasons, each once, in the order of the table.
func notesOf(results []*result) (notes []status.FallbackReason) {
	for _, p := range proofs {
		for _, r := range results {
			e := r.Ledger[p.capability]
			if e.Enabled && e.FallbackReason != "" && !slices.Contains(notes, e.FallbackReason) {
				notes = append(notes, e.FallbackReason)
			}
		}
	}
	return notes
}

func inAnyLedger(results []*result, c status.Capability) bool {
	return slices.ContainsFunc(results, func(r *result) bool { return r.Ledger[c].Enabled })
}
