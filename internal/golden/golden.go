// Package golden holds what tests make to files that somebody has looked at.
package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
)

// Check compares with a file, or writes it where UPDATE_GOLDEN is set. How lines end is no difference: git may have changed it.
func Check(t testing.TB, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if lines := strings.NewReplacer("\r\n", "\n"); err != nil || lines.Replace(string(want)) != lines.Replace(got) {
		t.Errorf("%s is not what it was, %v; if that is meant: UPDATE_GOLDEN=1 go test -run %s\n%s", file, err, t.Name(), got)
	}
}

// CheckAlike compares texts that are much alike: the base with a file of its own, of each other how it differs from the base.
func CheckAlike(t testing.TB, dir, base string, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		if name != base {
			text = string(diff.Diff(base, []byte(texts[base]), name, []byte(text)))
		}
		Check(t, filepath.Join(dir, name+".golden"), text)
	}
}
