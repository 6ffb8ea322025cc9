package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/files"
)

// TestMessagesWhenNothingWasLearned: a run that could not be set up had no listener either, which
// says nothing about the host.
func TestMessagesWhenNothingWasLearned(t *testing.T) {
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
		l := &learnRun{session: &session{log: logger{level: "normal", write: func(line []byte) error { b.Write(line); return nil }}}, blind: c.blind}
		r := &status.Report{Status: status.OK, SetupError: c.setup}
		if c.setup != nil {
			r.Status = status.InternalError
		}
		l.notWatched(r)
		if got := b.String(); !strings.Contains(got, c.want) || strings.Contains(got, c.not) ||
			strings.Contains(got, "seccomp notification") != (c.setup == nil || c.setup.Op == "seccomp") {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// TestMergeReadsOnlyTheCompanionThatTheProfileUses: a policy of system calls that the profile doesn't go
// by was not protected from runs, and may be theirs.
func TestMergeReadsOnlyTheCompanionThatTheProfileUses(t *testing.T) {
	const foreign = "default_action = \"allow\"\n"
	for _, c := range []struct {
		name, seccomp    string
		overwrite        bool
		refused, takenOn bool
	}{
		{"in use", "./x.seccomp.toml", false, false, true},
		{"another", "strict", false, true, false},
		{"another, to be replaced", "strict", true, false, false},
	} {
		dir := t.TempDir()
		profile := filepath.Join(dir, "x.confine.toml")
		for name, text := range map[string]string{
			profile:                              "[sandbox]\nprofile = \"x\"\n[sandbox.profiles.x]\nseccomp = \"" + c.seccomp + "\"\n",
			filepath.Join(dir, "x.seccomp.toml"): foreign,
		} {
			must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		}
		l := &learnRun{session: &session{}, merge: profile, overwrite: c.overwrite}
		if err := l.readOlder(); (err != nil) != c.refused || (l.oldCompanion == foreign) != c.takenOn {
			t.Errorf("%s: %v, took over %q", c.name, err, l.oldCompanion)
		}
	}
}

// What isn't read first is replaced only by who says so: another output's companion, too.
func TestLearnReplacesNoFileUnasked(t *testing.T) {
	for _, c := range []struct {
		name            string
		there           string
		merge, out      string
		overwrite, fine bool
	}{
		{"nothing is there", "", "", "b/x.confine.toml", false, true},
		{"the output", "b/x.confine.toml", "", "b/x.confine.toml", false, false},
		{"its companion", "b/x.seccomp.toml", "", "b/x.confine.toml", false, false},
		{"a companion, to be replaced", "b/x.seccomp.toml", "", "b/x.confine.toml", true, true},
		{"what is merged with", "a/x.confine.toml", "a/x.confine.toml", "a/x.confine.toml", false, true},
		{"the companion of what is merged with", "a/x.seccomp.toml", "a/x.confine.toml", "a/x.confine.toml", false, true},
		{"another output", "b/x.confine.toml", "a/x.confine.toml", "b/x.confine.toml", false, false},
		{"another output's companion", "b/x.seccomp.toml", "a/x.confine.toml", "b/x.confine.toml", false, false},
	} {
		t.Chdir(t.TempDir())
		for _, dir := range []string{"a", "b"} {
			must.Do(t, os.Mkdir(dir, 0o755))
		}
		if c.there != "" {
			must.Do(t, os.WriteFile(c.there, nil, 0o600))
		}
		l := &learnRun{session: &session{Process: &Process{}}, name: "x", merge: c.merge, out: c.out, overwrite: c.overwrite}
		profile, companion, err := l.openOutputs(&config.Resolved{})
		if (err == nil) != c.fine {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			profile.Close()
			companion.Close()
		}
	}
}

// TestNothingIsLearnedOfWhatCanNotBeMade: the kernel refuses it, and a flood of such names
// would take long to be asked about.
func TestNothingIsLearnedOfWhatCanNotBeMade(t *testing.T) {
	var l learnRun
	l.access(files.Access{Path: "/no/such/x", Wish: "create"})
	if all, _ := l.recorder.Accesses(); len(all) != 0 {
		t.Errorf("kept %v", all)
	}
	l.access(files.Access{Path: "/work/x", Wish: "create", InPlace: true})
	l.access(files.Access{Path: "/work/y", Wish: "create", Exists: true})
	l.access(files.Access{Path: "/work/z", Wish: "create", Unknown: true})
	if all, _ := l.recorder.Accesses(); len(all) != 3 {
		t.Errorf("kept %v", all)
	}
}
