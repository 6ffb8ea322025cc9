package selftest

import (
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
)

func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range table() {
		if seen[a.name] || a.name == "" || a.tries == "" || a.inside == "" || a.invariant < 1 || a.invariant > 8 {
			t.Errorf("%q: %+v", a.name, a)
		}
		seen[a.name] = true
		if a.limit && (len(a.walls) != 1 || a.policy == nil) {
			t.Errorf("%s is a limit, and sets none", a.name)
		}
		if a.leaves != strings.Contains(a.inside, "{token}") {
			t.Errorf("%s: what is left is found by its token", a.name)
		}
	}
	// What DESIGN.md names, one for each group.
	for _, name := range []string{"descriptors", "environment", "terminal", "keyring", "abstract_socket", "survivor_kill", "memory", "tcp", "allowlist_port",
		"read", "protected", "mount", "unshare_user", "int80", "x32", "io_uring", "report"} {
		if !seen[name] {
			t.Errorf("no attempt %q", name)
		}
	}
}

func TestPoliciesOfAttemptsKeepTheRest(t *testing.T) {
	for _, a := range table() {
		if a.policy == nil {
			continue
		}
		p := config.Default()
		before := p.Digest()
		a.policy(&p, values{"open": "80"})
		if p.Digest() == before && a.name != "read" && p.Filesystem.Workdir != "ro" {
			t.Errorf("%s asks for a change of the policy that changes nothing", a.name)
		}
		if p.Seccomp != "default" && a.name != "keyring" || p.SeccompAction != "errno" || p.Network.All {
			t.Errorf("%s takes a wall away that it doesn't name", a.name)
		}
	}
}

func TestLedgerForetellsAnAttempt(t *testing.T) {
	here := status.Enforcement{Enabled: true, Effective: true}
	gone := status.Enforcement{Enabled: true, FallbackReason: status.UsernsDenied, Details: "there is none"}
	a := attempt{walls: walls(status.Privileges, status.Syscalls)}
	for name, c := range map[string]struct {
		privileges, syscalls status.Enforcement
		want                 string
	}{
		"both stand":     {here, here, ""},
		"one stands":     {gone, here, ""},
		"none stands":    {gone, gone, "syscalls: there is none (linux_userns_denied)"},
		"not asked for":  {gone, status.Enforcement{}, "syscalls: the policy doesn't ask for it"},
		"the first does": {here, status.Enforcement{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := a.foretell(map[status.Capability]status.Enforcement{status.Privileges: c.privileges, status.Syscalls: c.syscalls})
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	if why := (&attempt{}).foretell(nil); why != "" {
		t.Errorf("what every run holds is foretold to fail: %s", why)
	}
}

func TestForecastNamesWhatTheLedgerLacks(t *testing.T) {
	all := Forecast(nil)
	names := map[string]bool{}
	for _, f := range all {
		names[f.Name] = true
	}
	if !names["tcp"] || !names["io_uring"] || names["memory"] || names["descriptors"] {
		t.Errorf("an empty ledger foretells %v", names)
	}
	set := map[status.Capability]status.Enforcement{status.Memory: {Enabled: true}}
	found := false
	for _, f := range Forecast(set) {
		found = found || f.Name == "memory"
	}
	if !found {
		t.Error("a limit that was asked for, and doesn't hold, is not foretold")
	}
}

func TestNewReport(t *testing.T) {
	r := NewReport([]Result{{Outcome: Held}, {Outcome: NotTestable}, {Outcome: Held}}, Report{Profile: "strict"})
	if !r.OK || r.Held != 2 || r.NotTestable != 1 || r.Profile != "strict" || r.Version != 1 {
		t.Errorf("%+v", r)
	}
	for name, results := range map[string][]Result{
		"a failure": {{Outcome: Held}, {Outcome: Failed}}, "no outcome": {{Outcome: Held}, {}}, "nothing held": {{Outcome: NotTestable}}, "nothing": nil,
	} {
		if NewReport(results, Report{}).OK {
			t.Errorf("%s is OK", name)
		}
	}
}
