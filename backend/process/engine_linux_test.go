package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// A module that makes the engine's own runtime give up is judged as a module, and an engine that says nothing otherwise as a sandbox that failed.
func TestAnEngineThatEndsWithoutAWord(t *testing.T) {
	for code, want := range map[int]struct {
		status status.Status
		rc     int
	}{gaveUp: {status.KilledSignal, 134}, 0: {status.InternalError, 1}, 3: {status.InternalError, 1}} {
		r := &status.Report{Status: status.OK, Cause: status.CauseExit, ExitCode: &code}
		if heard(r, nil); r.Status != want.status || r.RC != want.rc {
			t.Errorf("exit code %d: %s, %d", code, r.Status, r.RC)
		}
	}
}

// Where nothing can be kept of a module, the ledger says why.
func TestWhyNothingIsKeptOfAModule(t *testing.T) {
	here, module := t.TempDir(), filepath.Join(t.TempDir(), "m.wasm")
	for _, err := range []error{os.WriteFile(module, nil, 0o600), os.MkdirAll(filepath.Join(here, "open", "confine", "wasm"), 0o700), os.Chmod(filepath.Join(here, "open", "confine", "wasm"), 0o777)} {
		must.Do(t, err)
	}
	for name, tt := range map[string]struct {
		dir, env string
		want     error
	}{
		"no place":     {"/", "A=b", fs.ErrNotExist},
		"a clone's":    {here, "XDG_CACHE_HOME=" + here, fs.ErrPermission},
		"open to all":  {"/", "XDG_CACHE_HOME=" + filepath.Join(here, "open"), nil},
		"not writable": {"/", "XDG_CACHE_HOME=/proc/self", nil},
	} {
		c := Command{Argv: []string{module}, Dir: tt.dir, Environ: []string{tt.env}}
		if m := c.compile(t.Context(), &config.Policy{}, func() { t.Error("something is compiled") }); m.why == nil || m.cache != "" || tt.want != nil && !errors.Is(m.why, tt.want) {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
