package config

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

func TestSecretsThatOthersCanReadAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mode says nothing on Windows")
	}
	path := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(path, []byte("sesame\n"), 0o600))
	for mode, want := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: true, 0o644: false, 0o604: false, 0o602: false} {
		must.Do(t, os.Chmod(path, mode))
		text, err := ReadSecret("--token-file", path)
		var refused *UsageError
		switch {
		case want && (err != nil || string(text) != "sesame\n"):
			t.Errorf("mode %#o: %q, %v; want it read", mode, text, err)
		case !want && (!errors.As(err, &refused) || !strings.Contains(err.Error(), "others can read") || refused.Hint == ""):
			t.Errorf("mode %#o: %v; want it refused with a hint", mode, err)
		}
	}
	if _, err := ReadSecret("--creds", path+"x"); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "--creds: ") {
		t.Errorf("a file that isn't there: %v", err)
	}
}
