package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/confine-run/confine/status"
)

// What is written, from the root of the tree: what the machines told, and the
// document that is made of it.
const (
	record   = "integration/machines/known.json"
	document = "docs/ENFORCEMENT.md"
)

// A capability of the record is a line.
var inOneLine, spaces = regexp.MustCompile(`\{\s*"requested"[^{}]*\}`), regexp.MustCompile(`\n\s*`)

// readKnown gives what machines told before, by their names.
func readKnown(root string) (map[string]*result, error) {
	known := map[string]*result{}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(record)))
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	return known, err
}

// learn puts what machines told just now in the place of what they told before, but
// for scripts of theirs that were left out now. Of the ledger stays what the document shows, which an update of a kernel doesn't change.
func learn(known map[string]*result, list []*machine, results []*result) {
	for i, m := range list {
		r := *results[i]
		r.Release = series(r.Release)
		r.Ledger = map[status.Capability]status.Enforcement{}
		for c, e := range results[i].Ledger {
			r.Ledger[c] = status.Enforcement{Enabled: e.Enabled, Effective: e.Effective, Mechanism: e.Mechanism, FallbackReason: e.FallbackReason}
		}
		r.Scripts = maps.Clone(r.Scripts)
		for _, script := range slices.Concat(m.scripts...) {
			if before := known[m.name]; before != nil && !r.Refused && r.Scripts[script] == "" && before.Scripts[script] != "" {
				r.Scripts[script] = before.Scripts[script]
			}
		}
		known[m.name] = &r
	}
}

// pageOfKnown is the document, of all machines that have told something.
func pageOfKnown(known map[string]*result) string {
	var list []*machine
	var results []*result
	for i := range machines {
		if r := known[machines[i].name]; r != nil {
			list, results = append(list, &machines[i]), append(results, r)
		}
	}
	return pageOf(list, results)
}

// hold writes the document and what it is made of, or holds it against what came of
// the machines.
func hold(root string, known map[string]*result, write bool) error {
	page := pageOfKnown(known)
	path := filepath.Join(root, filepath.FromSlash(document))
	if write {
		text, err := json.MarshalIndent(known, "", " ")
		text = inOneLine.ReplaceAllFunc(text, func(b []byte) []byte { return spaces.ReplaceAll(b, []byte(" ")) })
		if err == nil {
			err = os.WriteFile(filepath.Join(root, filepath.FromSlash(record)), append(text, '\n'), 0o644)
		}
		return errors.Join(err, os.WriteFile(path, []byte(page), 0o644))
	}
	was, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if d := diff.Diff(document, was, "these machines", []byte(page)); d != nil {
		return fmt.Errorf("%s is out of date\nhint: go run ./integration/machines -write\n%s", document, d)
	}
	return nil
}
