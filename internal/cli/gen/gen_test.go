package main

import (
	"strings"
	"testing"

	command "github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
)

func TestFilesAreUpToDate(t *testing.T) {
	files := generate()
	t.Chdir("..") // names are seen from internal/cli
	must.Do(t, store(".", files, true))
}

func TestStaleFilesAreFound(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"a", "b"} { // one that is missing, and one that has changed
		files := map[string][]byte{"a": []byte(text)}
		if store(dir, files, true) == nil {
			t.Error("a stale file is not found")
		}
		must.Do(t, store(dir, files, false))
		if err := store(dir, files, true); err != nil {
			t.Errorf("control: %v", err)
		}
	}
}

func TestEveryOptionIsEverywhere(t *testing.T) {
	files := generate()
	places := map[string]func(*config.Option) string{
		manPage:      func(o *config.Option) string { return roffText(o.EnvName()) },
		optionsTable: func(o *config.Option) string { return o.EnvName() },
	}
	for _, o := range flags() {
		for name, spelt := range places {
			if !strings.Contains(string(files[name]), spelt(&o)) {
				t.Errorf("%s: %q is missing", name, spelt(&o))
			}
		}
	}
	for _, c := range command.Commands() {
		for _, name := range []string{manPage, optionsTable} {
			if !strings.Contains(string(files[name]), c.Name) {
				t.Errorf("%s: subcommand %s is missing", name, c.Name)
			}
		}
	}
}

func TestExitCodesInDocs(t *testing.T) {
	var rows []string
	for _, r := range exitRows() {
		if r[1] == "" {
			t.Errorf("%s has no meaning", r[0])
		}
		rows = append(rows, r[0]+" "+strings.Join(r[2:], " "))
	}
	got := strings.Join(rows, "\n")
	for _, want := range []string{
		"OK 0 0 0", "FAILED own own own", "CPU_LIMIT 152 124 124", "MEM_LIMIT 137 137 125", "KILLED_SIGNAL 128+n 128+n 128+n",
		"EXEC_FAILED 127, 126 127, 126 127, 126", "INTERNAL_ERROR 1 125 1", "SANDBOX_DENIED own own own",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}
