package config

import (
	"errors"
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
		err := Accept(&c.policy, ledger)
		var cant *Unenforceable
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.refused != "" && (!errors.As(err, &cant) || cant.Capability != c.refused):
			t.Errorf("%s: %v, want a refusal of %s", c.name, err, c.refused)
		}
	}
}
