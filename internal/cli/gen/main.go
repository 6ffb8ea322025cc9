// Command gen makes what is made from the tables of options and subcommands: the man page and
// docs/OPTIONS.md. It writes what has changed; with -check it writes nothing and
// fails instead.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Where things go, seen from internal/cli, where go generate starts it.
const (
	manPage      = "../../docs/confine.1"
	optionsTable = "../../docs/OPTIONS.md"
)

func main() {
	check := len(os.Args) > 1 && os.Args[1] == "-check"
	if err := store(".", generate(), check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate makes all files, by name.
func generate() map[string][]byte {
	return map[string][]byte{manPage: man(), optionsTable: markdown()}
}

// store writes what differs.
func store(root string, files map[string][]byte, check bool) error {
	var stale []string
	for name, want := range files {
		path := filepath.Join(root, name)
		if got, err := os.ReadFile(path); err == nil && bytes.Equal(got, want) {
			continue
		}
		stale = append(stale, name)
		if check {
			continue
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			return err
		}
	}
	if slices.Sort(stale); check && len(stale) > 0 {
		return fmt.Errorf("out of date, run go generate ./internal/cli: %v", stale)
	}
	return nil
}
