package process

import (
	"testing"

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
