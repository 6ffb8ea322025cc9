package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/confine-run/confine/status"
)

// TestWhyNothingWasLearned: a run that could not be set up had no listener either, which
// says nothing about the host.
func TestWhyNothingWasLearned(t *testing.T) {
	for _, c := range []struct {
		name      string
		blind     error
		setup     *status.SetupError
		want, not string
	}{
		{"set-up failed", errors.New("nobody could listen"), &status.SetupError{Step: "mounts", Op: "openat2"}, "could not be set up", "listen"},
		{"and there is no filter", nil, &status.SetupError{Step: "filter", Op: "seccomp"}, "seccomp notification", "listen"},
		{"nobody could listen", errors.New("nobody could listen"), nil, "nobody could listen\n", "set up"},
	} {
		var b strings.Builder
		l := &lesson{session: &session{log: logger{level: "normal", write: func(line []byte) error { b.Write(line); return nil }}}, blind: c.blind}
		r := &status.Report{Status: status.OK, SetupError: c.setup}
		if c.setup != nil {
			r.Status = status.InternalError
		}
		l.nothing(r)
		if got := b.String(); !strings.Contains(got, c.want) || strings.Contains(got, c.not) ||
			strings.Contains(got, "seccomp notification") != (c.setup == nil || c.setup.Op == "seccomp") {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
