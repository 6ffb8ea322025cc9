package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/integration/machines/orders"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func TestMachinesNameKernelsAndScriptsThatExist(t *testing.T) {
	seen, ranSomewhere := map[string]bool{}, map[string]bool{}
	for i := range machines {
		m := &machines[i]
		if seen[m.name] || m.what == "" {
			t.Errorf("%q: a machine needs a name of its own, and a description", m.name)
		}
		seen[m.name] = true
		if !slices.ContainsFunc(kernels, func(k kernel) bool { return k.series == m.kernel }) {
			t.Errorf("%s: no kernel %s", m.name, m.kernel)
		}
		hasSystemd := m.place == orders.Service || m.place == orders.Session
		if hasSystemd == (m.cgroups != "") {
			t.Errorf("%s: cgroups are systemd's, or the machine says how they are mounted", m.name)
		}
		if m.user != (m.place == orders.Session) && m.place != orders.Plain {
			t.Errorf("%s: %s says whose it is", m.name, m.place)
		}
		for _, script := range slices.Concat(m.scripts...) {
			if !slices.ContainsFunc(proofs, func(p proof) bool { return slices.Contains(p.scripts, script) }) {
				t.Errorf("%s runs %s, which proves nothing", m.name, script)
			}
			ranSomewhere[script] = true
		}
		for _, script := range slices.Concat(m.few...) {
			if !slices.Contains(slices.Concat(m.scripts...), script) {
				t.Errorf("%s has %s with every change only", m.name, script)
			}
		}
		if m.cpus < 2 && slices.Contains(slices.Concat(m.scripts...), severalCPUs[0]) {
			t.Errorf("%s has one CPU", m.name)
		}
	}
	for _, k := range kernels {
		if _, err := regexp.Compile(k.pattern); err != nil {
			t.Error(err)
		}
	}
	for _, p := range proofs {
		for _, script := range p.scripts {
			if _, err := os.Stat(filepath.Join("..", "testdata", script+".txtar")); err != nil {
				t.Error(err)
			}
			if !ranSomewhere[script] {
				t.Errorf("%s runs nowhere", script)
			}
		}
	}
}

const ran = `{"version":1,"status":"OK","enforced":{"memory":{"enabled":true,"effective":true,"mechanism":"cgroup2"}}}`

func TestCollectReadsWhatAMachineSaid(t *testing.T) {
	kernel, report, done := orders.Said{Kernel: "6.12.1"}, orders.Said{Report: []byte(ran)}, orders.Said{Done: true}
	line := func(text string) orders.Said { return orders.Said{Line: text} }
	refused := orders.Said{Report: []byte(`{"status":"INTERNAL_ERROR","setup_error":{"step":"start","hint":"do this"}}`)}
	broken := orders.Said{Report: []byte(`{"status":"INTERNAL_ERROR","setup_error":{"step":"start"}}`)}
	for _, c := range []struct {
		name string
		said []orders.Said
		want string // the outcome of "s", "refused", or what the error says
	}{
		{"passed", []orders.Said{kernel, report, line("--- PASS: TestScripts/s (1.00s)"), done}, "PASS"},
		{"skipped", []orders.Said{kernel, report, line("    --- SKIP: TestScripts/s (1.00s)"), done}, "SKIP"},
		{"failed", []orders.Said{kernel, report, line("--- FAIL: TestScripts/s (1.00s)"), line("because"), done}, "because"},
		{"not run", []orders.Said{kernel, report, line("--- PASS: TestScripts/sir (1.00s)"), done}, "never ended"},
		{"refused", []orders.Said{kernel, refused, done}, "refused"},
		{"refused without a hint", []orders.Said{kernel, broken, done}, "no hint"},
		{"cut short", []orders.Said{kernel, report, line("--- PASS: TestScripts/s (1.00s)")}, "ended before"},
		{"no report", []orders.Said{kernel, done}, "ended before"},
		{"a fault", []orders.Said{kernel, {Failed: "no such thing"}}, "no such thing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := collect(c.said, []string{"s"})
			switch {
			case err != nil && !strings.Contains(err.Error(), c.want):
				t.Errorf("%v, want %s", err, c.want)
			case err == nil && r.Refused != (c.want == "refused"):
				t.Errorf("refused is %v", r.Refused)
			case err == nil && !r.Refused && string(r.Scripts["s"]) != c.want:
				t.Errorf("%s, want %s", r.Scripts["s"], c.want)
			}
		})
	}
}

func TestOnlyWhatRanIsProven(t *testing.T) {
	ledger := map[status.Capability]status.Enforcement{
		status.Memory:   {Enabled: true, Effective: true, Mechanism: "cgroup2"},
		status.CPUTime:  {Enabled: true, Effective: true, Mechanism: "timer"},
		status.WallTime: {Enabled: true, Mechanism: "none", FallbackReason: "reason"},
		status.Network:  {Mechanism: "none"},
	}
	r := &result{Ledger: ledger, Scripts: map[string]outcome{"limits_memory": passed, "limits_cpu": skipped}}
	notes := notesOf([]*result{r})
	got := map[status.Capability]string{}
	for c := range ledger {
		got[c] = cell(r, c, notes)
	}
	want := map[status.Capability]string{
		status.Memory: "`cgroup2` ✓", status.CPUTime: "`timer`", status.WallTime: "`none` *partly* (1)", status.Network: "–",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := cell(&result{Refused: true}, status.Memory, nil); got != "refused" {
		t.Error(got)
	}
}

func TestAnUpdateOfTheKernelMakesNoDifference(t *testing.T) {
	m := []*machine{{name: "m", kernel: "6.12", what: "it"}}
	one := pageOf(m, []*result{{Release: "6.12.117+deb12-cloud-amd64"}})
	two := pageOf(m, []*result{{Release: "6.12.119+deb12-cloud-amd64"}})
	if one != two || !strings.Contains(one, "| m | 6.12 | it |") {
		t.Errorf("%s\n%s", one, two)
	}
}

func TestEnforcementPageIsUpToDate(t *testing.T) {
	root := filepath.Join("..", "..")
	known, err := readKnown(root)
	must.Do(t, err)
	if err := hold(root, known, false); err != nil {
		t.Error(err)
	}
	for i := range machines {
		if known[machines[i].name] == nil {
			t.Errorf("%s has never told anything", machines[i].name)
		}
	}
	if len(known) != len(machines) {
		t.Errorf("%d machines are known, and there are %d", len(known), len(machines))
	}
}

func TestScriptsThatWereLeftOutStayKnown(t *testing.T) {
	m := machine{name: "m", scripts: [][]string{{"a", "b"}}}
	known := map[string]*result{"m": {Scripts: map[string]outcome{"a": passed, "b": passed, "gone": passed}}}
	learn(known, []*machine{&m}, []*result{{Scripts: map[string]outcome{"a": skipped}}})
	if want := (map[string]outcome{"a": skipped, "b": passed}); !reflect.DeepEqual(known["m"].Scripts, want) {
		t.Errorf("%v, want %v", known["m"].Scripts, want)
	}
}

func TestOneMachineIsLearntAfterTheOther(t *testing.T) {
	known := map[string]*result{}
	ledger := map[status.Capability]status.Enforcement{status.Memory: {Enabled: true, Mechanism: "cgroup_v2", Details: "of the day"}}
	learn(known, []*machine{&machines[0]}, []*result{{Release: "6.12.1-x", Ledger: ledger}})
	one := pageOfKnown(known)
	learn(known, []*machine{&machines[1]}, []*result{{Release: "6.12.2-x", Ledger: ledger}})
	learn(known, []*machine{&machines[0]}, []*result{{Release: "6.12.9-y", Ledger: ledger}})
	both := pageOfKnown(known)
	if one == both || !strings.Contains(both, machines[0].name) || !strings.Contains(both, machines[1].name) {
		t.Error(both)
	}
	delete(known, machines[1].name)
	if again := pageOfKnown(known); again != one {
		t.Errorf("an update made a difference:\n%s\n%s", one, again)
	}
}
