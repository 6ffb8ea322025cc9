// Package golden holds what tests make to files that somebody has looked at.
package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
