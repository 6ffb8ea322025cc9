package darwin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/integration/built"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func TestLaunch(t *testing.T) {
	c := command(t, built.Everywhere, "--", "/bin/cat")
	c.Stdin = strings.NewReader("some\x00bytes\n")
	if out, errs, rc := built.Run(t, c); out != "some\x00bytes\n" || rc != 0 {
		t.Errorf("%d, %q, %q", rc, out, errs)
	}
	for code, want := range map[string]int{"0": 0, "3": 3, "255": 255} {
		r := built.Report(t, command(t, does("exit", code)...))
		if r.RC != want || r.Backend != "darwin-seatbelt" || !r.Enforced[status.Filesystem].Effective || !r.Enforced[status.Containment].Effective {
			t.Errorf("exit %s: %d, %+v", code, r.RC, r)
		}
	}
	for words, want := range map[string]int{"no-such-program": 127, "./none": 127, "/etc": 126} {
		if _, errs, rc := built.Run(t, command(t, built.Everywhere, "--", words)); rc != want {
			t.Errorf("%s: %d, %q", words, rc, errs)
		}
	}
	c = command(t, append([]string{"--env", "OWN=set"}, does("env", "SECRET_OF_THE_CALLER")...)...)
	c.Env = append(os.Environ(), "SECRET_OF_THE_CALLER=x")
	if out, errs, _ := built.Run(t, c); strings.TrimSpace(out) != "" {
		t.Errorf("%q, %q", out, errs)
	}
}

// TestPrograms: what people run there starts, and does its work in a directory of theirs.
func TestPrograms(t *testing.T) {
	for _, words := range [][]string{
		{"/bin/sh", "-c", "echo yes"}, {"/bin/zsh", "-c", "echo yes"}, {"/bin/bash", "-c", "echo yes | /usr/bin/tr a-z a-z"}, {"/usr/bin/perl", "-e", `print "yes\n"`},
		{"/usr/bin/awk", `BEGIN { print "yes" }`}, {"/bin/sh", "-c", "/usr/bin/touch a && /bin/mv a b && /bin/ls b >/dev/null && /bin/rm b && echo yes"},
		{"/bin/sh", "-c", "/usr/bin/git init -q . && /usr/bin/git -c user.name=a -c user.email=b commit -q --allow-empty -m c && echo yes"},
		{"/usr/bin/python3", "-c", "import tempfile, subprocess, ssl; tempfile.TemporaryFile(); print(subprocess.check_output(['/bin/echo', 'yes'], text=True).strip())"},
	} {
		c := command(t, append([]string{built.Everywhere, "--workdir", "rw", "--"}, words...)...)
		if out, errs, rc := built.Run(t, c); rc != 0 || strings.TrimSpace(out) != "yes" {
			t.Errorf("%q: %d, %q, %q", words, rc, out, errs)
		}
	}
}

// TestRefused: what isn't held is named, and nothing is started without leave.
func TestRefused(t *testing.T) {
	c := command(t, "--profile", "testing", "--workdir", "rw", "--", "/usr/bin/touch", "ran")
	dir := c.Dir
	r := built.Report(t, c)
	if r.Status != status.InternalError || r.RC != 1 || r.SetupError == nil || !strings.Contains(r.SetupError.Hint, "--allow-partial") {
		t.Errorf("%+v", r)
	}
	if e := r.Enforced[status.Syscalls]; !e.Enabled || e.Effective || e.FallbackReason == "" {
		t.Errorf("%+v", e)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("it was run")
	}
}

// TestNested: confine in confine, and in any other sandbox, is refused by name.
func TestNested(t *testing.T) {
	outside(t)
	out, _ := exec.Command("/usr/bin/sandbox-exec", "-p", "(version 1)(allow default)", built.Confine, "--json", built.Everywhere, "--", "/usr/bin/true").Output()
	var r status.Report
	if err := json.Unmarshal(out, &r); err != nil || r.Status != status.InternalError || r.Enforced[status.Filesystem].FallbackReason != status.NestedSandbox {
		t.Errorf("%v: %s", err, out)
	}
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		options, does []string
		status        status.Status
		hit           status.Capability
	}{
		"wall clock":  {[]string{"-t", "1s", "--grace", "0s"}, []string{"sleep"}, status.Timeout, status.WallTime},
		"CPU time":    {[]string{"--cpu-time", "1s"}, []string{"spin"}, status.CPULimit, status.CPUTime},
		"memory":      {[]string{"--memory-limit", "128M"}, []string{"allocate", "512", "stay"}, status.MemLimit, status.Memory},
		"tasks":       {[]string{"--processes", "30", "-t", "10s"}, []string{"fork", "20"}, "", status.Tasks},
		"disk":        {[]string{"--disk-limit", "8M", "--workdir", "rw"}, []string{"fill", "big"}, "", status.Disk},
		"a file":      {[]string{"--max-file-size", "1M", "--workdir", "rw"}, []string{"fill", "big"}, "", ""},
		"descriptors": {[]string{"--file-descriptors", "64"}, []string{"open", "100"}, status.Failed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := built.Report(t, command(t, append(c.options, does(c.does...)...)...))
			if r.Status == status.OK || c.status != "" && r.Status != c.status || c.hit != "" && !slices.Contains(r.LimitsHit, string(c.hit)) {
				t.Errorf("%s: %s, %q", r.Status, r.Reason, r.LimitsHit)
			}
		})
	}
	if r := built.Report(t, command(t, append([]string{"--memory-limit", "512M"}, does("exit", "0")...)...)); r.Status != status.OK {
		t.Errorf("control: %s: %s", r.Status, r.Reason)
	}
}

// TestKilledSupervisorLeavesNoProcess: the keeper ends everybody, in whatever session, and removes the run's directory.
func TestKilledSupervisorLeavesNoProcess(t *testing.T) {
	temp := t.TempDir()
	c := command(t, append([]string{"--workdir", "rw"}, does("tree", "pid")...)...)
	c.Env = append(os.Environ(), "TMPDIR="+temp)
	must.Do(t, c.Start())
	pid := built.Await(t, filepath.Join(c.Dir, "pid"))
	places := func() (n int) {
		list, _ := filepath.Glob(filepath.Join(temp, "confine-*"))
		return len(list)
	}
	if places() != 1 {
		t.Errorf("%d directories of runs", places())
	}
	must.Do(t, c.Process.Kill())
	_ = c.Wait()
	gone(t, pid)
}

func TestTimeLimitEndsTheTree(t *testing.T) {
	c := command(t, append([]string{"--workdir", "rw", "-t", "3s", "--grace", "0s"}, does("tree", "pid")...)...)
	done := make(chan *status.Report, 1)
	go func() { done <- built.Report(t, c) }()
	pid := built.Await(t, filepath.Join(c.Dir, "pid"))
	if r := <-done; r.Status != status.Timeout || r.RC != 124 {
		t.Errorf("%s, %d", r.Status, r.RC)
	}
	gone(t, pid)
}

// TestGateway: what the rules allow is reached by programs that ask the proxy, and nothing by others.
func TestGateway(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer server.Close()
	at := strings.TrimPrefix(server.URL, "http://")
	port := at[strings.LastIndex(at, ":")+1:]
	curl := func(options ...string) []string {
		return append([]string{"--", "/usr/bin/curl", "-sS", "-m", "20"}, options...)
	}
	for _, c := range []struct {
		name  string
		words []string
		want  string
	}{
		{"by the proxy", append([]string{built.Everywhere, "--allow-network", "localhost:" + port}, curl("http://localhost:"+port+"/")...), "hello"},
		{"by a tunnel", append([]string{built.Everywhere, "--allow-network", "localhost:" + port}, curl("-p", "http://localhost:"+port+"/")...), "hello"},
		{"around it", append([]string{built.Everywhere, "--allow-network", "localhost:" + port}, curl("--noproxy", "*", "http://127.0.0.1:"+port+"/")...), ""},
		{"another port", append([]string{built.Everywhere, "--allow-network", "localhost:1"}, curl("-f", "http://localhost:"+port+"/")...), ""},
		{"without a network", append([]string{built.Everywhere}, curl("http://127.0.0.1:"+port+"/")...), ""},
		{"the caller's network", append([]string{built.Everywhere, "--allow-network", "all"}, curl("http://127.0.0.1:"+port+"/")...), "hello"},
	} {
		out, errs, rc := built.Run(t, command(t, c.words...))
		if (rc == 0) != (c.want != "") || c.want != "" && out != c.want {
			t.Errorf("%s: %d, %q, %q", c.name, rc, out, errs)
		}
	}
	r := built.Report(t, command(t, append([]string{built.Everywhere, "--allow-network", "localhost:1"}, curl("-f", "http://evil.test/")...)...))
	if r.Status != status.SandboxDenied || r.Network == nil || len(r.Network.Attempts) == 0 || r.Enforced[status.Network].Mechanism != "proxy" {
		t.Errorf("%s, %+v", r.Status, r.Network)
	}
}

// TestExplainAgrees: what it says of paths is what comes of trying.
func TestExplainAgrees(t *testing.T) {
	home, err := os.UserHomeDir()
	must.Do(t, err)
	secret, err := os.CreateTemp(home, ".confine-test-")
	must.Do(t, err)
	defer os.Remove(secret.Name())
	defer secret.Close()
	for _, c := range []struct {
		access, path string
		try          string
	}{
		{"read", "/usr/share/zoneinfo/UTC", `/bin/cat "$1" >/dev/null`}, {"read", "/etc/hosts", `/bin/cat "$1" >/dev/null`}, {"read", secret.Name(), `/bin/cat "$1" >/dev/null`},
		{"read", "a", `/bin/cat "$1"`}, {"write", "a", `echo x >"$1"`}, {"create", "new", `echo x >"$1"`}, {"create", ".envrc", `echo x >"$1"`}, {"read", "denied", `/bin/cat "$1"`},
		{"write", "/usr/bin/true", `echo x >>"$1"`}, {"create", "/private/tmp/confine-new", `echo x >"$1"`}, {"exec", "/bin/ls", `"$1" / >/dev/null`},
	} {
		options := []string{built.Everywhere, "--workdir", "rw", "--deny", "denied"}
		c0 := command(t, append(append([]string{"explain"}, options...), "--path", c.path, "--access", c.access)...)
		for _, name := range []string{"a", "denied"} {
			must.Do(t, os.WriteFile(filepath.Join(c0.Dir, name), nil, 0o600))
		}
		said, errs, rc := built.Run(t, c0)
		try := command(t, append(options, "--", "/bin/sh", "-c", c.try, "sh", c.path)...)
		try.Dir = c0.Dir
		_, failed, got := built.Run(t, try)
		if (rc == 0) != (got == 0) {
			t.Errorf("%s %s: explain exits with %d and trying with %d\n%s%s%s", c.access, c.path, rc, got, said, errs, failed)
		}
	}
}

func TestDoctor(t *testing.T) {
	out, errs, _ := built.Run(t, command(t, "doctor", "--json"))
	if !strings.Contains(out, `"seatbelt"`) {
		t.Errorf("%q, %q", out, errs)
	}
	if text, _, _ := built.Run(t, command(t, "doctor")); !strings.Contains(text, "seatbelt") {
		t.Errorf("%q", text)
	}
}

// TestProtectedPathsStay: what comes to be there all the same is removed, and told.
func TestProtectedPathsStay(t *testing.T) {
	c := command(t, built.Everywhere, "--workdir", "rw", "--", "/bin/sh", "-c", "/bin/mkdir -p made/hooks && echo x >made/hooks/pre-commit && /bin/mv made .git; echo x >.ENVRC; true")
	dir := c.Dir
	r := built.Report(t, c)
	for _, name := range []string{".git/hooks", ".envrc"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	for _, v := range r.Violations {
		if v.Rule == status.RuleLeft {
			t.Errorf("%+v", v)
		}
	}
}
