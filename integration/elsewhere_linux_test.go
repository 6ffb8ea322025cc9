package integration

import (
	"archive/tar"
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

// tool is one that people come from, as far as it is tried here.
type tool struct {
	name  string
	needs []string
	tasks string // that it has a way for, and that are tried
	env   []string
	shell string // in its tree
}

// TestMigration tries the five tasks of docs/MIGRATION.md with confine and with what people come from: what it says of them there is so.
func TestMigration(t *testing.T) { // not beside another that uses podman: the two have one state in /run
	tools := []tool{
		{name: "confine", needs: []string{"userns"}, tasks: "offline limits project host verdict"},
		{name: "bubblewrap", needs: []string{"userns", "program:bwrap", "program:timeout", "program:prlimit"}, tasks: "offline limits project verdict"},
	}
	if os.Geteuid() == 0 { // an ordinary user without a name in passwd gets nothing from firejail, nor from podman
		tools = append(tools, tool{name: "firejail", needs: []string{"program:firejail"}, tasks: "offline limits project"},
			tool{name: "podman", needs: []string{"program:podman", "program:runc", "program:busybox"}, tasks: "offline limits project verdict", shell: "/bin/busybox"})
	}
	for _, tool := range tools {
		t.Run(tool.name, func(t *testing.T) {
			needs(t, tool.needs...)
			if tool.name == "podman" {
				tool.env = []string{"IMAGE=" + busyboxImage(t), "OPTIONS=--runtime runc --ulimit nofile=1024:1024 --ulimit nproc=100:100"}
			}
			for _, task := range strings.Fields("offline limits project host verdict") {
				t.Run(task, func(t *testing.T) {
					if !slices.Contains(strings.Fields(tool.tasks), task) {
						tool.cannot(t, task)
						return
					}
					tool.try(t, task)
				})
			}
		})
	}
}

// run runs a shell's text by the script of a tool.
func (tool *tool) run(t *testing.T, dir, task, text string) (out string, code int, took time.Duration) {
	t.Helper()
	script, err := filepath.Abs(filepath.Join("../examples/migration", tool.name+".sh"))
	must.Do(t, err)
	shell := []string{"sh"}
	if tool.shell != "" {
		shell = []string{tool.shell, "sh"}
	}
	cmd := exec.Command("/bin/sh", slices.Concat([]string{script, task}, shell, []string{"-c", text})...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append(tool.env, "PATH="+scene.programs+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "HOST=allowed.example", "SECRET=sesame")...)
	begun := time.Now()
	b, _ := cmd.CombinedOutput()
	return string(b), cmd.ProcessState.ExitCode(), time.Since(begun)
}

func (tool *tool) try(t *testing.T, task string) {
	dir := t.TempDir()
	switch task {
	case "offline":
		out, code, _ := tool.run(t, dir, task, `touch /usr/planted 2>/dev/null && echo writes; tail -n +3 /proc/net/dev | grep -v " lo:"; cat /etc/shadow 2>/dev/null; [ "$(ls -d /proc/[0-9]* | wc -l)" -lt 12 ] && echo alone; touch /tmp/x && echo tmp`)
		if want := "alone\ntmp\n"; tool.name != "firejail" && (out != want || code != 0) {
			t.Errorf("%d, %q, want %q", code, out, want)
		} else if tool.name == "firejail" && (code != 0 || strings.Contains(out, "writes") || !strings.HasSuffix(out, want)) { // as root it shows /etc/shadow: the page says so
			t.Errorf("%d, %q", code, out)
		}
	case "limits":
		_, code, took := tool.run(t, dir, task, "while :; do :; done")
		if code == 0 || took < time.Second || took > 25*time.Second {
			t.Errorf("an endless loop ended with %d after %s", code, took)
		}
	case "project":
		out, code, _ := tool.run(t, dir, task, "echo made >file && cat file; touch /usr/planted 2>/dev/null && echo writes")
		if text, err := os.ReadFile(filepath.Join(dir, "file")); !strings.HasPrefix(out, "made\n") || strings.Contains(out, "writes") || string(text) != "made\n" || err != nil {
			t.Errorf("%d, %q; outside %q, %v", code, out, text, err)
		}
	case "host":
		out, code, _ := tool.run(t, dir, task, "getent hosts refused.example || exit 5")
		if code != 5 || !strings.Contains(out, "--allow-network refused.example") {
			t.Errorf("%d, %q", code, out)
		}
	case "verdict":
		_, code, _ := tool.run(t, dir, task, "exit 7")
		text, err := os.ReadFile(filepath.Join(dir, "verdict.json"))
		if err != nil || code != 7 {
			t.Fatal(code, err)
		}
		found := false
		for d := json.NewDecoder(bytes.NewReader(text)); ; {
			var doc map[string]any
			if d.Decode(&doc) != nil {
				break
			}
			found = found || doc["exit_code"] == 7.0 || doc["exit-code"] == 7.0
		}
		if !found {
			t.Errorf("no exit code 7 in %s", text)
		}
	}
}

// cannot holds what has no way to its word: the script says so, or needs what only an administrator can give.
func (tool *tool) cannot(t *testing.T, task string) {
	text, err := os.ReadFile(filepath.Join("../examples/migration", tool.name+".sh"))
	must.Do(t, err)
	_, after, found := strings.Cut(string(text), "\n"+task+")\n")
	what, _, _ := strings.Cut(after, ";;")
	if !found || !strings.Contains(what, "exit 64") && !strings.Contains(what, "root gives") {
		t.Errorf("%s %s is neither tried nor said to have no way: %q", tool.name, task, what)
	}
}

// TestMigrationPage holds the page to the scripts: each command of theirs is in it, in the same words, and what was not tried says so.
func TestMigrationPage(t *testing.T) {
	page, err := os.ReadFile("../docs/MIGRATION.md")
	if err != nil {
		if os.Geteuid() != 0 && os.IsNotExist(err) {
			t.Skip("the ordinary user's copy has no docs")
		}
		t.Fatal(err)
	}
	scripts, err := filepath.Glob("../examples/migration/*.sh")
	if err != nil || len(scripts) != 6 {
		t.Fatal(scripts, err)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		must.Do(t, err)
		name := strings.TrimSuffix(filepath.Base(script), ".sh")
		if tried := !strings.Contains(string(text), "NOT tried"); tried == strings.Contains(string(page), "| "+name+" | not tried") {
			t.Errorf("%s: the page and the script don't agree on whether it was tried", name)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			command, is := strings.CutPrefix(line, "exec ")
			if !is {
				continue
			}
			command = strings.ReplaceAll(strings.ReplaceAll(command, `"$engine"`, "podman"), `"$@"`, "CMD")
			command = strings.ReplaceAll(command, "$OPTIONS ", "")
			if !strings.Contains(string(page), command) {
				t.Errorf("%s: not on the page: %s", name, command)
			}
		}
		if out, err := exec.Command("/bin/sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", name, err, out)
		}
	}
}

// busyboxImage makes an image of one program, which podman has until the test ends.
func busyboxImage(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("busybox")
	must.Do(t, err)
	program, err := os.ReadFile(path)
	must.Do(t, err)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range []string{"bin/", "usr/", "tmp/", "etc/"} {
		must.Do(t, w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}))
	}
	must.Do(t, w.WriteHeader(&tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))}))
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "cat", "touch", "tail", "grep", "ls", "wc"} {
		must.Do(t, w.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}))
	}
	must.Do(t, w.Close())
	const image = "localhost/confine-tests-migration:1"
	cmd := exec.Command("podman", "import", "-q", "-", image)
	cmd.Stdin = &b
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("podman import: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("podman", "rmi", "--force", image).Run() })
	return image
}

// TestImages builds the Dockerfile, and the example on top of it, which an ordinary user without a capability runs in full.
func TestImages(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("podman is tried as root")
	}
	needs(t, "userns", "procmount", "program:podman", "program:runc", "program:busybox")
	t.Parallel()
	base, tree := busyboxImage(t), t.TempDir()
	for name, from := range map[string]string{"bin/confine": filepath.Join(scene.programs, "confine"), "bin/confine-server": filepath.Join(scene.programs, "confine-server"),
		"bin/confine-worker": filepath.Join(scene.programs, "confine-worker"),
		"Dockerfile":         "../Dockerfile", ".dockerignore": "../.dockerignore", "example": "../examples/docker/Dockerfile"} {
		must.Do(t, os.MkdirAll(filepath.Join(tree, filepath.Dir(name)), 0o755))
		must.Do(t, copyProgram(from, filepath.Join(tree, name)))
	}
	podman := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("podman", args...)
		cmd.Dir = tree
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("podman %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	const alone, example = "localhost/confine-tests-alone:1", "localhost/confine-tests-example:1"
	t.Cleanup(func() { _ = exec.Command("podman", "rmi", "--force", example, alone).Run() })
	podman("build", "-q", "-t", alone, ".")
	podman("build", "-q", "-t", example, "--build-arg", "BASE="+base, "--build-arg", "CONFINE="+alone, "-f", "example", ".")
	run := []string{"run", "--rm", "--runtime", "runc", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=100:100", "--network", "none"}
	if out := podman(append(run, alone, "version")...); !strings.HasPrefix(out, "confine ") {
		t.Error(out)
	}
	out := podman(append(run, "--security-opt", "seccomp=unconfined", "--security-opt", "unmask=ALL", example, "--report", "fd:2", "--", "sh", "-c", "cat /proc/self/status")...)
	if !strings.Contains(out, `"status":"OK"`) || !strings.Contains(out, `"reason":"exited 0"`) || !strings.Contains(out, "Uid:\t1000") || !strings.Contains(out, "CapBnd:\t0000000000000000") {
		t.Error(out)
	}
}

// TestAction runs the scripts of action.yml with what a runner gives them, and holds the file itself to what keeps a workflow's text out of a shell.
func TestAction(t *testing.T) {
	t.Parallel()
	needs(t, "userns", "program:bash")
	temp := t.TempDir()
	scripts, err := filepath.Abs("../examples/github")
	must.Do(t, err)
	step := func(script string, env ...string) (out string, code int) {
		cmd := exec.Command("bash", filepath.Join(scripts, script))
		cmd.Dir = temp
		cmd.Env = append([]string{"PATH=" + scene.programs + ":" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "RUNNER_TEMP=" + temp, "GITHUB_TOKEN=sesame", "CONFINE_ALLOW_PARTIAL=all",
			"GITHUB_OUTPUT=" + filepath.Join(temp, "output"), "GITHUB_STEP_SUMMARY=" + filepath.Join(temp, "summary"), "GITHUB_PATH=" + filepath.Join(temp, "path")}, env...)
		b, _ := cmd.CombinedOutput()
		return string(b), cmd.ProcessState.ExitCode()
	}
	out, code := step("run.sh", "ACTION_OPTIONS=--time-limit\n20s\n", "ACTION_RUN=echo token=$GITHUB_TOKEN; '/bin/sh' -c 'sleep 0.2' '````' '$(touch planted)'; exit 9")
	if code != 9 || !strings.Contains(out, "token=\n") {
		t.Errorf("%d, %s", code, out)
	}
	for file, wants := range map[string][]string{"output": {"status=FAILED\n", "directory=" + temp + "/confine."}, "summary": {"````text\nFAILED  exited 9\n", "of 20 s"}} {
		text, err := os.ReadFile(filepath.Join(temp, file))
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s, %v: no %q in\n%s", file, err, want, text)
			}
		}
		if strings.Count(string(text), "````") > 2 {
			t.Errorf("%s: a name ends the block\n%s", file, text)
		}
	}
	if pages, err := filepath.Glob(filepath.Join(temp, "confine.*", "report.html")); len(pages) != 1 {
		t.Error(pages, err)
	}
	if _, err := os.Stat(filepath.Join(temp, "planted")); err == nil {
		t.Error("text of the script was run by a shell of the action's")
	}
	action, err := os.ReadFile("../action.yml")
	if err != nil {
		if os.Geteuid() != 0 && os.IsNotExist(err) {
			return // the ordinary user's copy has the examples alone
		}
		t.Fatal(err)
	}
	declared, used, _ := strings.Cut(string(action), "\noutputs:")
	for line := range strings.Lines(used) {
		if run, ok := strings.CutPrefix(strings.TrimSpace(line), "run: "); ok && strings.Contains(run, "${{") {
			t.Errorf("a workflow's text in a shell's: %s", line)
		}
		if _, name, ok := strings.Cut(line, "inputs."); ok {
			if name, _, _ = strings.Cut(name, " "); !strings.Contains(declared, "\n  "+name+":\n") {
				t.Errorf("no input %q", name)
			}
		}
	}
}

// TestActionInstalls builds what the action builds.
func TestActionInstalls(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the ordinary user has no checkout")
	}
	needs(t, "program:bash", "program:go", "program:make", "program:git")
	t.Parallel()
	temp, tree := t.TempDir(), t.TempDir()
	checkout, err := filepath.Abs("..")
	must.Do(t, err)
	copied := exec.Command("sh", "-c", "tar -C \"$0\" --exclude=./.git --exclude=./bin --exclude=./python -cf - . | tar -C \"$1\" -xf -", checkout, tree)
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	cmd := exec.Command("bash", filepath.Join(checkout, "examples/github/install.sh"))
	cmd.Env = append(os.Environ(), "RUNNER_TEMP="+temp, "GITHUB_PATH="+filepath.Join(temp, "path"), "GITHUB_ACTION_PATH="+tree, "ACTION_USERNS=as they are")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	path, err := os.ReadFile(filepath.Join(temp, "path"))
	must.Do(t, err)
	bin := strings.TrimSpace(string(path))
	if out, err := exec.Command(filepath.Join(bin, "confine"), "report", "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "usage: confine report") {
		t.Errorf("%v %s", err, out)
	}
}
