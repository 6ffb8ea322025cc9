package integration

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

// tested is what is looked at of "confine selftest --json".
type tested struct {
	OK       bool `json:"ok"`
	Held     int  `json:"held"`
	Failed   int  `json:"failed"`
	Attempts []struct {
		Name     string `json:"name"`
		Outcome  string `json:"outcome"`
		Why      string `json:"why"`
		Control  string `json:"control"`
		Foretold string `json:"foretold"`
	} `json:"attempts"`
}

// Hosts may refuse these themselves, or lack what they take: there the table says nothing.
var (
	perhaps = []string{"alg", "vsock", "int80", "x32", "kernel_module", "kexec", "sysrq", "kernel_memory", "sysctl", "memfd_secret", "modify_ldt",
		"icmp", "mptcp", "allowlist_address", "allowlist_names", "sysv_memory", "posix_memory", "keyring", "add_key", "keyctl", "cgroup"}
	perhapsUser = []string{"io_uring", "perf_event", "bpf", "userfaultfd", "terminal_input", "terminal_input_high", "console", "by_handle", "device", "set_uid",
		"setuid", "acct", "settimeofday", "syslog"}
)

// The whole table, once for each way in which its walls may stand. Where a wall is missing the
// self-test says so, and there alone; and what it finds the ledger has said before.
func TestSelftest(t *testing.T) {
	t.Parallel()
	attempt, confine := filepath.Join(scene.programs, "attempt"), filepath.Join(scene.programs, "confine")
	selftest := []string{confine, "selftest", "--json"}
	words := func(first []string, more ...string) []string { return append(slices.Clone(first), more...) }
	for _, c := range []struct {
		name  string
		argv  []string
		needs []string
		all   bool     // whatever this host lets anybody try is held, but for what is foretold
		open  []string // none of these may be held, and one has to get through
	}{
		{"the profile default", selftest, []string{"userns", "seccomp"}, true, nil},
		{"the profile strict", words(selftest, "-p", "strict"), []string{"userns", "seccomp"}, true, nil},
		{"the profile development", words(selftest, "-p", "development"), []string{"userns", "seccomp"}, true, nil},
		{"without a filter, by capabilities alone", words(selftest, "--seccomp", "off"), []string{"userns"}, true, []string{"io_uring", "keyctl", "add_key", "vsock"}},
		{"filter and network open", words(selftest, "--seccomp", "off", "--allow-network", "all"), []string{"seccomp"}, false,
			[]string{"io_uring", "keyctl", "add_key", "vsock", "tcp", "udp"}},
		{"no user namespaces", words([]string{attempt, "no-userns"}, selftest...), []string{"seccomp"}, false, nil},
		{"nor Landlock", words([]string{attempt, "older", "landlock_create_ruleset", attempt, "no-userns"}, selftest...), []string{"seccomp"}, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			needs(t, c.needs...)
			got := selftestOf(t, c.argv)
			opened := len(c.open) == 0
			for _, a := range got.Attempts {
				if a.Outcome == "failed" && a.Foretold == "" {
					t.Errorf("%s: %s, which nothing has foretold", a.Name, a.Why)
				}
				if a.Outcome != "not_testable" && a.Control != "it works" {
					t.Errorf("%s: %s without a control: %q", a.Name, a.Outcome, a.Control)
				}
				mayLack := slices.Contains(perhaps, a.Name) || os.Geteuid() != 0 && slices.Contains(perhapsUser, a.Name)
				if c.all && a.Outcome == "not_testable" && !mayLack && !strings.HasPrefix(a.Why, "the policy") {
					t.Errorf("%s was not tried: %s", a.Name, a.Why)
				}
				if slices.Contains(c.open, a.Name) {
					opened = opened || a.Outcome == "failed"
					if a.Outcome == "held" {
						t.Errorf("%s: held, and there is nothing to hold it (%s)", a.Name, a.Why)
					}
				}
			}
			if !opened {
				t.Errorf("none of %v got through", c.open)
			}
			if got.Held < 20 {
				t.Errorf("only %d were held", got.Held)
			}
		})
	}
}

// An interrupt ends all of it.
func TestSelftestInterrupted(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	cmd := exec.Command(filepath.Join(scene.programs, "confine"), "selftest")
	cmd.Dir, cmd.Env = tmp, append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp)
	must.Do(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for begun := false; !begun; {
		select {
		case err := <-ended:
			t.Fatal("it ended before it was interrupted:", err)
		case <-time.After(5 * time.Millisecond):
		}
		found, err := filepath.Glob(tmp + "/confine-selftest-*/inside/*")
		must.Do(t, err)
		begun = len(found) > 3
	}
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	if err := <-ended; cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, want exit code 1", err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	// The runs end with their supervisor, in their own time.
	if !must.Within(10*time.Second, func() bool { return len(attemptsLeft(tmp)) == 0 }) {
		t.Fatalf("processes left: %v", attemptsLeft(tmp))
	}
}

// attemptsLeft are processes of a self-test that had its scene there.
func attemptsLeft(tmp string) (left []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err == nil && bytes.Contains(b, []byte("TMPDIR="+tmp)) && bytes.Contains(b, []byte("_CONFINE_SELFTEST=")) {
			left = append(left, filepath.Dir(name))
		}
	}
	return left
}

// selftestOf looks also whether anything is left.
func selftestOf(t *testing.T, argv []string) (got tested) {
	t.Helper()
	tmp := t.TempDir()
	must.Do(t, os.Chmod(tmp, 0o755))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = tmp
	// The scene is not in what a profile may show of the home directory.
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+t.TempDir())
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	must.Do(t, broken(err))
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s%s", err, out, said.String())
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 && got.OK || code != 1 && !got.OK || got.OK != (got.Failed == 0) {
		t.Errorf("exit code %d, ok %v, %d failed", code, got.OK, got.Failed)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return got
}
