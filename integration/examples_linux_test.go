package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// TestJudgeIsRightOnABusyHost: its verdicts are those of the README beside more work than there are
// CPUs for, since they go by CPU time.
func TestJudgeIsRightOnABusyHost(t *testing.T) {
	needs(t, "program:python3")
	python, err := exec.LookPath("python3")
	must.Do(t, err)
	dir := filepath.Join(t.TempDir(), "judge")
	must.Do(t, os.CopyFS(dir, os.DirFS("../examples/judge")))
	for range 4 {
		burner := exec.CommandContext(t.Context(), "/bin/sh", "-c", "while :; do :; done")
		must.Do(t, burner.Start())
		t.Cleanup(func() {
			_ = burner.Process.Kill()
			_ = burner.Wait()
		})
	}
	for _, c := range []struct {
		program string
		code    int
		want    string
	}{
		{"good.py", 0, "1: AC (OK; 2: AC (OK; 3: AC (OK; "},
		{"bad.py", 1, "1: WA (OK; 2: MLE (MEM_LIMIT; 3: TLE (CPU_LIMIT; "},
	} {
		cmd := exec.Command("/bin/sh", "judge.sh", "sum", python, c.program)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CONFINE="+filepath.Join(scene.programs, "confine"), "HOME="+t.TempDir(), "CONFINE_ALLOW_PARTIAL=all")
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || broken(err) != nil {
			t.Errorf("%s: %v", c.program, err)
		}
		var verdicts string
		for line := range strings.Lines(string(out)) {
			verdict, _, _ := strings.Cut(line, ",")
			verdicts += verdict + "; "
		}
		if verdicts != c.want {
			t.Errorf("%s: %q, want %q\n%s", c.program, verdicts, c.want, out)
		}
	}
}

// TestTryMakesAnEnvironmentWithoutPytest: the README's first command runs the main job with a python3 that has
// pytest, with an environment that it makes, and with the one that it made before; its code is the job's.
func TestTryMakesAnEnvironmentWithoutPytest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{"tree/examples", "tree/bin", "path"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	program := func(name, text string) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	script, err := os.ReadFile("../examples/try.sh")
	must.Do(t, err)
	program("tree/examples/try.sh", string(script))
	program("tree/bin/confine", `echo "ran $*"; exit 7`)
	const without = `case "$*" in
	"-c import pytest") exit 1 ;;
	"-m venv .try") mkdir -p .try/bin; printf '#!/bin/sh\necho "$*" >>installed\n' >.try/bin/python; chmod +x .try/bin/python ;;
	esac`
	for _, c := range []struct{ name, python, want, installed string }{
		{"a python3 with it", "exit 0", "python3 -m pytest -q", ""},
		{"one without", without, ".try/bin/python -m pytest -q", "-m pip install --quiet --disable-pip-version-check --retries 1 --timeout 15 pytest\n"},
		{"the second time", without, ".try/bin/python -m pytest -q", "-c import pytest\n"},
	} {
		program("path/python3", c.python)
		_ = os.Remove(filepath.Join(dir, "tree/installed"))
		cmd := exec.Command("/bin/sh", filepath.Join(dir, "tree/examples/try.sh"), "-q")
		cmd.Env = []string{"PATH=" + filepath.Join(dir, "path") + ":/usr/bin:/bin"}
		out, _ := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != 7 || string(out) != "ran --profile testing -- "+c.want+"\n" {
			t.Errorf("%s: %d, %q; want %q", c.name, code, out, c.want)
		}
		if text, _ := os.ReadFile(filepath.Join(dir, "tree/installed")); string(text) != c.installed {
			t.Errorf("%s: the environment was asked for %q, want %q", c.name, text, c.installed)
		}
	}
}

// The loops of an agent: a step that fails is taken back, what the others changed is applied.
func TestAgentsTakeBackWhatFails(t *testing.T) {
	t.Parallel()
	needs(t, "userns")
	needs(t, "overlay")
	agent := filepath.Join(scene.programs, "agent")
	script, err := filepath.Abs("../examples/agent/agent.sh")
	must.Do(t, err)
	for name, c := range map[string]struct {
		argv []string
		said string
	}{
		"in Go":      {[]string{agent, "-apply"}, "applied 1"},
		"in a shell": {[]string{"/bin/sh", script, "apply"}, "applied 1 change of session"},
	} {
		dir, own := t.TempDir(), t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "old"), []byte("as it was\n"), 0o644))
		cmd := exec.Command(c.argv[0], c.argv[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CONFINE="+filepath.Join(scene.programs, "confine"), "HOME="+own, "XDG_RUNTIME_DIR="+own, "XDG_STATE_HOME="+own)
		cmd.Stdin = strings.NewReader("echo hello >greeting\nrm -rf ./*; false\ncat greeting old\n")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "taken back\n") || !strings.Contains(string(out), "hello\nas it was\n") || !strings.Contains(string(out), c.said) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		for file, want := range map[string]string{"greeting": "hello\n", "old": "as it was\n"} {
			if text, err := os.ReadFile(filepath.Join(dir, file)); string(text) != want {
				t.Errorf("%s: %s: %q, %v", name, file, text, err)
			}
		}
	}
}

// The units are ones for systemd, and ask for nothing that it doesn't know.
func TestUnitsOfSystemd(t *testing.T) {
	t.Parallel()
	needs(t, "program:systemd-analyze")
	dir := t.TempDir()
	var user, system []string
	units, err := filepath.Glob("../examples/systemd/confine-serve*")
	if err != nil || len(units) != 4 {
		t.Fatal(units, err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		must.Do(t, err)
		name := filepath.Join(dir, filepath.Base(unit))
		at := strings.ReplaceAll(string(text), "/usr/local/bin/confine ", filepath.Join(scene.programs, "confine")+" ")
		must.Do(t, os.WriteFile(name, []byte(at), 0o644))
		if strings.Contains(name, "system.") {
			system = append(system, name)
		} else {
			user = append(user, name)
		}
	}
	for manager, names := range map[string][]string{"--user": user, "--system": system} {
		cmd := exec.Command("systemd-analyze", append([]string{"verify", manager}, names...)...)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "confine-serve") {
			t.Errorf("%s: %v\n%s", manager, err, out)
		}
	}
}

// triedBy says which test tries each example: by its file, or what is below a directory.
var triedBy = map[string]string{
	"agent/": "TestAgentsTakeBackWhatFails", "cluster/": "TestTheExampleOfAServerHoldsTeamsApart", "docker/": "TestImages", "github/": "TestAction", "github/install.sh": "TestActionInstalls", "goapi/": "TestGoAPIExample",
	"judge/": "TestJudgeIsRightOnABusyHost", "kubernetes/": "TestClusterExamples", "kubernetes/containerd.toml": "TestOCIContainerd", "nomad/": "TestClusterExamples", "migration/": "TestMigration", "python/": "TestPythonExample", "systemd/": "TestUnitsOfSystemd",
	"try.sh": "TestTryMakesAnEnvironmentWithoutPytest", "untrusted/": "TestMischiefComesToNothing",
}

// TestEveryExampleIsTried: there is no example that nothing tries.
func TestEveryExampleIsTried(t *testing.T) {
	tests := ""
	files, err := filepath.Glob("*_linux_test.go")
	must.Do(t, err)
	if len(files) == 0 {
		t.Skip("the ordinary user's copy has no sources")
	}
	files = append(files, "../internal/jobs/secure_test.go") // what a server of NATS makes of one
	for _, file := range files {
		text, err := os.ReadFile(file)
		must.Do(t, err)
		tests += string(text)
	}
	seen := map[string]bool{}
	err = filepath.WalkDir("../examples", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, "../examples/"))
		key := name
		if triedBy[key] == "" {
			dir, _, _ := strings.Cut(name, "/")
			key = dir + "/"
		}
		if seen[key] = true; triedBy[key] == "" {
			t.Errorf("nothing tries examples/%s", name)
		}
		return nil
	})
	must.Do(t, err)
	for key, test := range triedBy {
		if !seen[key] || !strings.Contains(tests, "func "+test+"(") {
			t.Errorf("%s: there is no such example, or no %s", key, test)
		}
	}
}

// TestMischiefComesToNothing: what the script tries works outside, some of it, and inside nothing.
func TestMischiefComesToNothing(t *testing.T) {
	needs(t, "userns")
	script, err := filepath.Abs("../examples/untrusted/mischief.sh")
	must.Do(t, err)
	env := append(os.Environ(), "API_TOKEN=x", "CONFINE_ALLOW_PARTIAL=all")
	outside := exec.Command("sh", script)
	outside.Env = env
	if out, err := outside.Output(); err != nil || !strings.Contains(string(out), "sees a token in the environment: yes") || !strings.Contains(string(out), "sees other processes: yes") {
		t.Errorf("outside: %v\n%s", err, out)
	}
	inside := exec.Command(filepath.Join(scene.programs, "confine"), "--level", "strict", "--allow-read", script, "--", "sh", script)
	inside.Env = env
	out, err := inside.Output()
	if err != nil || strings.Count(string(out), ": no\n") != 8 || strings.Contains(string(out), ": yes") {
		t.Errorf("inside: %v\n%s", err, out)
	}
}

// TestPythonExample runs the suite as the README does, by make, too: nothing of it stays.
func TestPythonExample(t *testing.T) {
	t.Parallel()
	needs(t, "userns", "overlay", "debian:pytest", "program:make")
	dir := filepath.Join(t.TempDir(), "python")
	must.Do(t, os.CopyFS(dir, os.DirFS("../examples/python")))
	confine := filepath.Join(scene.programs, "confine")
	for _, c := range []struct {
		want string
		argv []string
	}{
		{"6 passed", []string{confine, "--profile", "testing", "--", "/usr/bin/python3", "-m", "pytest", "-q"}},
		{"made-by-make\n", []string{"make", "--silent", "all-confined", "CONFINE=" + confine}},
	} {
		cmd := exec.Command(c.argv[0], c.argv[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CONFINE_ALLOW_PARTIAL=all")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestGoAPIExample builds it and runs it.
func TestGoAPIExample(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the ordinary user has no checkout")
	}
	needs(t, "userns", "program:go")
	program := filepath.Join(t.TempDir(), "goapi")
	must.Do(t, build(program, "../examples/goapi"))
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "CONFINE_ALLOW_PARTIAL=all")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "hello from confine") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestClusterExamples runs the command lines that examples for clusters have, with what the cluster fills in, and looks that what they name is the same everywhere.
func TestClusterExamples(t *testing.T) {
	needs(t, "userns")
	read := func(name string) string {
		text, err := os.ReadFile("../examples/" + name)
		must.Do(t, err)
		return string(text)
	}
	// words are those of the one line that begins so: a list, as JSON has it too.
	words := func(text, begin string) (list []string) {
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(line), begin); ok {
				if err := json.Unmarshal([]byte(rest), &list); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
			}
		}
		if len(list) == 0 {
			t.Fatalf("no %q", begin)
		}
		return list
	}
	job, nomad := words(read("kubernetes/job.yaml"), "command: "), words(read("nomad/judge.nomad.hcl"), "args    = ")
	dir := t.TempDir()
	for i := range nomad {
		nomad[i] = strings.NewReplacer("${NOMAD_MEMORY_LIMIT}", "128", "${NOMAD_TASK_DIR}", dir).Replace(nomad[i])
	}
	if job[0] != "confine" {
		t.Fatal(job)
	}
	for name, args := range map[string][]string{"a Job": job[1:], "Nomad": nomad} {
		cmd := exec.Command(filepath.Join(scene.programs, "confine"), args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "CONFINE_ALLOW_PARTIAL=all")
		if out, err := cmd.Output(); err != nil || string(out) != "judged\n" {
			t.Errorf("%s: %v, %q", name, err, out)
		}
	}
	class := read("kubernetes/runtimeclass.yaml")
	for _, c := range []struct{ text, want string }{
		{class, "\n  name: confine\n"}, {class, "\nhandler: confine\n"}, {read("kubernetes/pod.yaml"), "\n  runtimeClassName: confine\n"},
		{read("kubernetes/containerd.toml"), ".containerd.runtimes.confine]\n"},
	} {
		if !strings.Contains(c.text, c.want) {
			t.Errorf("no %q in\n%s", c.want, c.text)
		}
	}
	if !strings.Contains(class, "kind: RuntimeClass") || !strings.Contains(read("nomad/judge.nomad.hcl"), `driver = "raw_exec"`) {
		t.Error("they are something else")
	}
}
