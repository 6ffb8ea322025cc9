package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/selftest"
	"github.com/confine-run/confine/status"
)

func TestSelftest(t *testing.T) {
	inTemp(t)
	held := selftest.Result{Name: "mount", Tries: "mounts something", Outcome: selftest.Held}
	failed := selftest.Result{Name: "tcp", Tries: "connects", Outcome: selftest.Failed, Why: "it works\x1b[2J", Foretold: "network: the policy doesn't ask for it"}
	untested := selftest.Result{Name: "x32", Tries: "calls", Outcome: selftest.NotTestable, Why: "outside: ENOSYS"}
	for _, c := range []struct {
		name    string
		results []selftest.Result
		rc      int
		says    []string
	}{
		{"all held", []selftest.Result{held, untested}, 0, []string{"held          mount", "not testable  x32", "x32: outside: ENOSYS", "1 held, 0 FAILED, 1 not testable"}},
		{"one got through", []selftest.Result{held, failed}, 1, []string{"FAILED  tcp", "tcp: it works", "the ledger says so: network", "1 held, 1 FAILED"}},
		{"nothing was held", []selftest.Result{untested}, 1, []string{"0 held"}},
		{"an outcome that nobody knows", []selftest.Result{held, {Name: "odd"}}, 1, []string{"1 FAILED"}},
		{"nothing could be tried", nil, 1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := (&call{fake: fake{results: c.results}}).run(t, "selftest", "--profile", "strict")
			if r.rc != c.rc {
				t.Errorf("exit code %d, want %d", r.rc, c.rc)
			}
			for _, s := range c.says {
				if !strings.Contains(r.out, s) {
					t.Errorf("no %q in\n%s", s, r.out)
				}
			}
			if strings.Contains(r.out, "\x1b") {
				t.Errorf("an escape gets out: %q", r.out)
			}
			if r.fake.resolved.Policy.Profile != "strict" {
				t.Errorf("profile %q", r.fake.resolved.Policy.Profile)
			}
		})
	}
}

func TestSelftestAsJSON(t *testing.T) {
	inTemp(t)
	r := (&call{fake: fake{results: []selftest.Result{{Name: "tcp", Outcome: selftest.Failed, Walls: []status.Capability{status.Network}}}}}).run(t, "selftest", "--json")
	var got selftest.Report
	must.Do(t, json.Unmarshal([]byte(r.out), &got))
	if r.rc != 1 || got.OK || got.Failed != 1 || got.Version != 1 || got.Profile != "default" || len(got.Attempts) != 1 {
		t.Errorf("rc %d, %+v", r.rc, got)
	}
}

func TestSelftestTakesNoCommand(t *testing.T) {
	inTemp(t)
	for _, args := range [][]string{{"selftest", "ls"}, {"selftest", "--report", "x"}, {"selftest", "--events=x"}, {"selftest", "--tty", "never"}, {"selftest", "--profile", "nonesuch"}} {
		r := new(call).run(t, args...)
		if r.rc != 125 {
			t.Errorf("%v: exit code %d", args, r.rc)
		}
	}
}

func TestDoctorForetells(t *testing.T) {
	inTemp(t)
	here := status.Enforcement{Enabled: true, Effective: true}
	ledger := map[status.Capability]status.Enforcement{}
	for _, c := range []status.Capability{status.Containment, status.Filesystem, status.Network, status.Syscalls, status.Privileges, status.Memory, status.Tasks,
		status.Disk, status.Files, status.Output, status.WallTime, status.CPUTime, status.FileDescriptors, status.FileSize} {
		ledger[c] = here
	}
	ask := func() string {
		return (&call{fake: fake{checks: []host.Result{{Name: "userns", Answer: host.Yes}}, plan: &Explanation{Enforced: ledger}}}).run(t, "doctor").out
	}
	if out := ask(); strings.Contains(out, "may get through") {
		t.Errorf("where all holds:\n%s", out)
	}
	ledger[status.Network] = status.Enforcement{Enabled: true, FallbackReason: status.UsernsDenied}
	if out := ask(); !strings.Contains(out, "may get through") || !strings.Contains(out, "tcp mptcp udp") || !strings.Contains(out, "network: linux_userns_denied") {
		t.Errorf("without a network of its own:\n%s", out)
	}
}
