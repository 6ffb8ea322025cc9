package backend

import (
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

func TestRefusedReport(t *testing.T) {
	e := &config.Unenforceable{
		Capability: status.Network, Requested: "a.example", Reason: status.NotInBuild, Details: "no", Hint: "h",
		Ledger: map[status.Capability]status.Enforcement{
			status.Network: {Enabled: true}, status.Memory: {Enabled: true, Effective: true, Applied: true},
		},
	}
	r := Refused("none", e, &Spec{Policy: &config.Policy{Profile: "x"}, Argv: []string{"sh", "--token=abc"}})
	if r.Status != status.InternalError || r.RC != 1 || r.SetupError == nil || r.SetupError.Hint != "h" {
		t.Errorf("%+v", r)
	}
	for c, entry := range r.Enforced {
		if entry.Applied || entry.Effective {
			t.Errorf("%s: nothing was started, but %+v", c, entry)
		}
	}
	if strings.Contains(strings.Join(r.Cmd, " "), "abc") {
		t.Errorf("a secret: %q", r.Cmd)
	}
}

func TestPartialKeepsTheNativeName(t *testing.T) {
	for native, want := range map[string]string{"": partialEnforcement, "STATUS_DLL_NOT_FOUND (0xC0000135)": partialEnforcement + ": STATUS_DLL_NOT_FOUND (0xC0000135)"} {
		r := Complete(&status.Report{
			Status: status.Failed, Reason: "exited with 3: " + native, Ending: status.Ending{Native: native},
			Enforced: map[status.Capability]status.Enforcement{status.Network: {Enabled: true}},
		}, &Spec{Policy: &config.Policy{}})
		if r.Reason != want {
			t.Errorf("%q, want %q", r.Reason, want)
		}
	}
}
