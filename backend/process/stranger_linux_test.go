package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

func TestTheStrangerIsTheLastIDThatIsMapped(t *testing.T) {
	for text, want := range map[string]uint32{
		"         0          0 4294967295\n":                          4294967294,
		"0 1000 1\n1 100000 65536\n":                                  65536,
		"         0          0          1\n4294967294 4294967294 1\n": 4294967294,
		"0 1000 1\n": 0, "": 0, "x y z\n": 0, "0 0 0\n": 0, "1 2\n": 0,
	} {
		name := filepath.Join(t.TempDir(), "uid_map")
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		if got := lastID(name); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if lastID("/nonexistent") != 0 {
		t.Error("a map that isn't there has an id")
	}
}
