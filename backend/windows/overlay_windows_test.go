package windows

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/backend/conformance"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// TestRelativeProgramsAreThoseOfTheCopy: a name that counts from where a process starts leads to what the run has made of the tree.
func TestRelativeProgramsAreThoseOfTheCopy(t *testing.T) {
	s := spec(t)
	s.Policy.Filesystem.Workdir = "overlay"
	self := conformance.Does()[0]
	text, err := os.ReadFile(self)
	must.Do(t, err)
	for _, name := range []string{"prog.exe", `sub\below.exe`} {
		at := filepath.Join(s.Dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(at), 0o700))
		must.Do(t, os.WriteFile(at, text, 0o700))
	}
	box := conformance.Open(t, Backend{}, s)
	// exec runs a program that says where it is, below the copy or the caller's own tree.
	exec := func(dir string, words ...string) string {
		t.Helper()
		var out strings.Builder
		p, err := box.Start(t.Context(), &backend.Exec{Argv: words, Dir: dir, Stdout: &out, Stderr: &out})
		if err != nil {
			return err.Error()
		}
		if r := p.Wait(); r.Status != status.OK {
			return string(r.Status)
		}
		_, rel, found := strings.Cut(strings.TrimSpace(out.String()), `\work0\`)
		if !found {
			return "not the copy's: " + out.String()
		}
		return rel
	}
	sub := filepath.Join(s.Dir, "sub")
	for _, c := range []struct{ dir, name, want string }{
		{"", `./prog.exe`, `prog.exe`}, {"", `.\prog`, `prog.exe`}, {"", `sub\below.exe`, `sub\below.exe`}, {sub, `.\below.exe`, `sub\below.exe`}, {sub, `..\prog.exe`, `prog.exe`},
		{"", s.Dir + `\prog.exe`, `prog.exe`}, {"", strings.ToUpper(s.Dir) + `/sub/../prog`, `prog.exe`}, {"", s.Dir[2:] + `\prog.exe`, `prog.exe`},
		{"", s.Dir[:2] + `prog.exe`, "EXEC_FAILED"}, {"", `prog.exe`, "EXEC_FAILED"}, {"", `.\none.exe`, "EXEC_FAILED"}, {"", sub + `\..\..\prog.exe`, "EXEC_FAILED"},
	} {
		if got := exec(c.dir, c.name, conformance.ProgramWord, "self"); got != c.want {
			t.Errorf("%q in %q is %q, want %q", c.name, c.dir, got, c.want)
		}
	}
	if got := exec("", `./prog.exe`, conformance.ProgramWord, "duplicate", "made.exe"); got != "made.exe" {
		t.Fatal(got)
	}
	for _, name := range []string{`./made.exe`, s.Dir + `\made.exe`} {
		if got := exec("", name, conformance.ProgramWord, "self"); got != "made.exe" {
			t.Errorf("what the run has made is %q by the name %q", got, name)
		}
	}
	if info, err := box.Files().Stat(filepath.Join(s.Dir, "made.exe")); err != nil || info.Size() != int64(len(text)) {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "made.exe")); err == nil {
		t.Error("it came to be in the tree itself")
	}
}
