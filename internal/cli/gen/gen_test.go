package main

import (
	"strings"
	"testing"

	"github.com/confine-run/confine/confine"
	command "github.com/confine-run/confine/internal/cli"
)

func TestFilesAreUpToDate(t *testing.T) {
	files := generate()
	t.Chdir("..") // names are seen from internal/cli
	if err := store(".", files, true); err != nil {
		t.Fatal(err)
	}
}

func TestStaleFilesAreFound(t *testing.T) {
	dir := t.TempDir()
	files := map[string][]byte{"pages/a.txt": []byte("a")}
	if err := store(dir, files, true); err == nil {
		t.Error("a missing file is not found")
	}
	if err := store(dir, files, false); err != nil {
		t.Fatal(err)
	}
	if err := store(dir, files, true); err != nil {
		t.Errorf("control: %v", err)
	}
	if err := store(dir, map[string][]byte{"pages/a.txt": []byte("b")}, true); err == nil {
		t.Error("a changed file is not found")
	}
	if err := store(dir, nil, true); err == nil {
		t.Error("a file that nothing makes is not found")
	}
	if err := store(dir, nil, false); err != nil {
		t.Fatal(err)
	}
	if err := store(dir, nil, true); err != nil {
		t.Errorf("it was not removed: %v", err)
	}
}

func TestEveryOptionIsEverywhere(t *testing.T) {
	files := generate()
	places := map[string]func(*confine.Option) string{
		"pages/run.txt":     func(o *confine.Option) string { return "--" + o.Name },
		"pages/explain.txt": func(o *confine.Option) string { return "--" + o.Name },
		manPage:             func(o *confine.Option) string { return roffText(o.EnvName()) },
		optionsTable:        func(o *confine.Option) string { return o.EnvName() },
	}
	for _, o := range flags() {
		for name, spelt := range places {
			if !strings.Contains(string(files[name]), spelt(&o)) {
				t.Errorf("%s: %q is missing", name, spelt(&o))
			}
		}
	}
	for _, c := range command.Commands() {
		for _, name := range []string{"pages/confine.txt", manPage, optionsTable} {
			if !strings.Contains(string(files[name]), c.Name) {
				t.Errorf("%s: subcommand %s is missing", name, c.Name)
			}
		}
	}
}

func TestLinesOfHelpAreShort(t *testing.T) {
	files := generate()
	for name, text := range files {
		if !strings.HasSuffix(name, ".txt") {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSuffix(line, "\n"); len([]rune(line)) > lineWidth || strings.TrimRight(line, " ") != line {
				t.Errorf("%s: %q", name, line)
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
