package host

import (
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestHasKnowsItsConditions(t *testing.T) {
	for _, cond := range []string{
		"userns", "overlay", "seccomp", "procmount", "proc_mount", "landlock", "landlock:1", "cgroup2", "cgroup2:memory",
		"cgroup1:pids", "kernel:5.10", "root", "linux", "program:go",
	} {
		if _, err := Has(cond); err != nil {
			t.Errorf("%s: %v", cond, err)
		}
	}
	for _, cond := range []string{
		"", "usernamespace", "userns:1", "landlock:x", "landlock:0", "cgroup2:rdma", "cgroup1", "cgroup1:", "kernel", "kernel:x",
		"program:", "program", "root:1", "ROOT",
	} {
		if ok, err := Has(cond); err == nil || ok {
			t.Errorf("%q is taken for a condition", cond)
		}
	}
}

func TestHasAnswers(t *testing.T) {
	for cond, want := range map[string]bool{
		"root":                     os.Geteuid() == 0,
		"linux":                    runtime.GOOS == "linux",
		"kernel:2.6":               runtime.GOOS == "linux",
		"kernel:999.0":             false,
		"landlock:999":             false,
		"program:no-such-program":  false,
		"program:/no/such/program": false,
	} {
		if got, err := Has(cond); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", cond, got, err, want)
		}
	}
}

func TestMustRunForbidsSkips(t *testing.T) {
	for _, c := range []struct {
		list, cond string
		forbidden  bool
	}{
		{"", "userns", false},
		{"userns,overlay", "overlay", true},
		{"userns, overlay", "overlay", true},
		{"userns", "overlay", false},
		{"all", "anything", true},
		{"program:*", "program:node", true},
		{"program:*", "userns", false},
		{"landlock:4", "landlock:4", true},
	} {
		t.Setenv(mustRunVar, c.list)
		err := MustRun(c.cond)
		if (err != nil) != c.forbidden {
			t.Errorf("%s=%s: %q: %v", mustRunVar, c.list, c.cond, err)
		}
		if err != nil && !strings.Contains(err.Error(), c.cond) {
			t.Errorf("%v does not name the condition", err)
		}
	}
}
