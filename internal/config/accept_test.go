package confine

import (
	"errors"
	"strings"
	"testing"

	"github.com/confine-run/confine/status"
)

func TestAccept(t *testing.T) {
	good := status.Enforcement{Requested: "512M", Enabled: true, Effective: true, Mechanism: "tree_watchdog"}
	missing := status.Enforcement{Requested: "a.example", Enabled: true, Mechanism: "none", FallbackReason: status.NotInBuild}
	unasked := status.Enforcement{Requested: "none", Mechanism: "none"}
	ledger := map[status.Capability]status.Enforcement{
		status.Memory: good, status.Network: missing, status.Disk: unasked,
	}
	for _, c := range []struct {
		name    string
		policy  Policy
		refused status.Capability // "" is accepted
	}{
		{"nothing said: what is missing refuses", Policy{}, status.Network},
		{"partial for it", Policy{AllowPartial: []string{"network"}}, ""},
		{"partial for all", Policy{AllowPartial: []string{"all"}}, ""},
		{"partial for another", Policy{AllowPartial: []string{"memory"}}, status.Network},
		{"required and there", Policy{AllowPartial: []string{"all"}, Require: []string{"memory"}}, ""},
		{"required by its mechanism", Policy{AllowPartial: []string{"all"}, Require: []string{"memory=tree_watchdog"}}, ""},
		{"required by another mechanism", Policy{AllowPartial: []string{"all"}, Require: []string{"memory=cgroup"}}, status.Memory},
		{"required and missing", Policy{AllowPartial: []string{"all"}, Require: []string{"network"}}, status.Network},
		{"required and not asked for", Policy{AllowPartial: []string{"all"}, Require: []string{"disk"}}, status.Disk},
		{"required and unknown to the ledger", Policy{AllowPartial: []string{"all"}, Require: []string{"publish"}}, status.Publish},
	} {
		err := accept(&c.policy, ledger)
		var cant *Unenforceable
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.refused != "" && (!errors.As(err, &cant) || cant.Capability != c.refused):
			t.Errorf("%s: %v, want a refusal of %s", c.name, err, c.refused)
		}
	}
}

func TestRefusedReport(t *testing.T) {
	e := &Unenforceable{
		Capability: status.Network, Requested: "a.example", Reason: status.NotInBuild, Details: "no", Hint: "h",
		Ledger: map[status.Capability]status.Enforcement{
			status.Network: {Enabled: true}, status.Memory: {Enabled: true, Effective: true, Applied: true},
		},
	}
	r := Refused(e, &Policy{Profile: "x"}, &Command{Argv: []string{"sh", "--token=abc"}, Environ: []string{}})
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
