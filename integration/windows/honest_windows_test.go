package windows

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/confine-run/confine/integration/built"
	"github.com/confine-run/confine/internal/cli"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func TestLaunch(t *testing.T) {
	c := built.Command(t, append([]string{built.Everywhere, "--"}, built.Does("cat")...)...)
	c.Stdin = strings.NewReader("some\x00bytes\n")
	if out, errs, rc := built.Run(t, c); out != "some\x00bytes\n" || rc != 0 {
		t.Errorf("%d, %q, %q", rc, out, errs)
	}
	for code, want := range map[string]int{"0": 0, "3": 3, "255": 255, "256": 1, "1000": 1000 & 0xff} {
		r := built.Report(t, built.Command(t, append([]string{built.Everywhere, "--"}, built.Does("exit", code)...)...))
		if r.RC != want || r.ExitCode == nil || fmt.Sprint(*r.ExitCode) != code || r.Backend != "windows-job" {
			t.Errorf("exit %s: %d, %+v", code, r.RC, r)
		}
	}
	// Also where not everything holds it is said what the system calls an end.
	dll := append([]string{built.Everywhere, "--"}, built.Does("exit", fmt.Sprint(0xC0000135))...)
	if r := built.Report(t, built.Command(t, dll...)); r.Status != status.Failed || r.RC != 0x35 || *r.ExitCode != 0xC0000135 || !strings.HasSuffix(r.Reason, "STATUS_DLL_NOT_FOUND, it or a library of its could not be loaded (0xC0000135)") {
		t.Errorf("%s, %d, %s", r.Status, r.RC, r.Reason)
	}
	if _, errs, _ := built.Run(t, built.Command(t, dll...)); !strings.Contains(errs, "FAILED: it ended with STATUS_DLL_NOT_FOUND") {
		t.Errorf("%q", errs)
	}
	if _, errs, rc := built.Run(t, built.Command(t, built.Everywhere, "--", "no-such-program")); rc != 127 || !strings.Contains(errs, "command not found") {
		t.Errorf("%d, %q", rc, errs)
	}
	if _, _, rc := built.Run(t, built.Command(t, built.Everywhere, "--", "./README.md")); rc != 127 {
		t.Errorf("%d", rc)
	}
}

// TestCommandLine: every word arrives as it was said.
func TestCommandLine(t *testing.T) {
	words := []string{"", " ", "a b", `"`, `\`, `\\`, `a\"b`, `c\\\"d\\`, "%PATH%", "&|<>^", "tab\there", "ünïcødé \U0001F600", "-x", "--", "*"}
	out, errs, rc := built.Run(t, built.Command(t, append([]string{built.Everywhere, "--"}, built.Does(append([]string{"words"}, words...)...)...)...))
	var got []string
	if err := json.Unmarshal([]byte(out), &got); err != nil || rc != 0 || !reflect.DeepEqual(got, words) {
		t.Errorf("%d, %q, want %q; %q", rc, got, words, errs)
	}
}

func TestEnvironment(t *testing.T) {
	for name, want := range map[string]string{"SECRET_OF_THE_CALLER": "", "CI": "yes", "OWN": "set"} {
		c := built.Command(t, append([]string{built.Everywhere, "--env", "OWN=set", "--"}, built.Does("env", name)...)...)
		c.Env = append(os.Environ(), "SECRET_OF_THE_CALLER=x", "ci=yes")
		if out, errs, _ := built.Run(t, c); strings.TrimSpace(out) != want {
			t.Errorf("%s is %q, want %q; %q", name, out, want, errs)
		}
	}
	out, _, _ := built.Run(t, built.Command(t, append([]string{built.Everywhere, "--"}, built.Does("env", "TEMP")...)...))
	if temp := strings.TrimSpace(out); !strings.Contains(temp, "confine-run-") {
		t.Errorf("TEMP is %q", temp)
	} else if _, err := os.Stat(filepath.Dir(temp)); err == nil {
		t.Errorf("%s is still there", temp)
	}
}

// TestRefused: what isn't held is named, and nothing is started without leave.
func TestRefused(t *testing.T) {
	c := built.Command(t, append([]string{"--profile", "testing", "--workdir", "rw", "--"}, built.Does("write", "ran")...)...)
	dir := c.Dir
	r := built.Report(t, c)
	if r.Status != status.InternalError || r.RC != 1 || r.SetupError == nil || !strings.Contains(r.SetupError.Hint, "--allow-partial") {
		t.Errorf("%+v", r)
	}
	for _, cap := range []status.Capability{status.Filesystem, status.Network, status.Syscalls} {
		if e := r.Enforced[cap]; !e.Enabled || e.Effective || e.FallbackReason == "" {
			t.Errorf("%s: %+v", cap, e)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("it was run")
	}
}

func TestTimeLimitEndsTheTree(t *testing.T) {
	c := built.Command(t, append([]string{built.Everywhere, "--workdir", "rw", "-t", "2s", "--grace", "0s", "--"}, built.Does("tree", "pid")...)...)
	done := make(chan *status.Report, 1)
	go func() { done <- built.Report(t, c) }()
	h := process(t, built.Await(t, filepath.Join(c.Dir, "pid")))
	r := <-done
	if r.Status != status.Timeout || r.RC != 124 || !slices.Contains(r.LimitsHit, string(status.WallTime)) {
		t.Errorf("%s, %d, %q", r.Status, r.RC, r.LimitsHit)
	}
	gone(t, h)
}

// TestKilledSupervisorLeavesNoProcess: the job ends everybody when nobody has it open any more, and what was granted is taken back later.
func TestKilledSupervisorLeavesNoProcess(t *testing.T) {
	cache := t.TempDir()
	c := built.Command(t, append([]string{built.Everywhere, "--workdir", "rw", "--"}, built.Does("tree", "pid")...)...)
	c.Env = append(os.Environ(), "LocalAppData="+cache)
	must.Do(t, c.Start())
	h := process(t, built.Await(t, filepath.Join(c.Dir, "pid")))
	must.Do(t, c.Process.Kill())
	_ = c.Wait()
	gone(t, h)
	left, err := os.ReadDir(filepath.Join(cache, "confine"))
	if err != nil || len(left) != 2 {
		t.Fatalf("a journal and a place are expected: %v, %v", left, err)
	}
	doctor := built.Command(t, "doctor", "--clean")
	doctor.Env = c.Env
	if out, errs, rc := built.Run(t, doctor); rc != 0 || !strings.HasSuffix(strings.TrimSpace(out), ": 1") {
		t.Errorf("%d, %q, %q", rc, out, errs)
	}
	if left, err := os.ReadDir(filepath.Join(cache, "confine")); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	// Of a run that goes on nothing is taken.
	c = built.Command(t, append([]string{built.Everywhere, "--workdir", "rw", "--"}, built.Does("tree", "pid")...)...)
	c.Env = append(os.Environ(), "LocalAppData="+cache)
	must.Do(t, c.Start())
	built.Await(t, filepath.Join(c.Dir, "pid"))
	doctor = built.Command(t, "doctor", "--clean")
	doctor.Env = c.Env
	if out, _, rc := built.Run(t, doctor); rc != 0 || !strings.HasSuffix(strings.TrimSpace(out), ": 0") {
		t.Errorf("%d, %q", rc, out)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
}

// TestHostileJournal: what somebody else has left there is told, and nothing that it names is touched.
func TestHostileJournal(t *testing.T) {
	cache, precious := t.TempDir(), filepath.Join(t.TempDir(), "precious")
	dir := filepath.Join(cache, "confine")
	must.Do(t, os.MkdirAll(dir, 0o700))
	must.Do(t, os.MkdirAll(precious, 0o700))
	place, _ := json.Marshal(precious)
	text := `{"version":1,"sid":"S-1-9-1129270854-1-2-3-4","pid":4294967,"started":1,"place":` + string(place) + "}\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "journal-0000000000000000.json"), []byte(text), 0o600))
	c := built.Command(t, "doctor", "--clean")
	c.Env = append(os.Environ(), "LocalAppData="+cache)
	if out, errs, rc := built.Run(t, c); rc != 1 || !strings.Contains(errs, "is no place of a run") {
		t.Errorf("%d, %q, %q", rc, out, errs)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

// TestOnlyThreeHandles: what this process lets be inherited reaches confine, and not the command.
func TestOnlyThreeHandles(t *testing.T) {
	event, err := windows.CreateEvent(&windows.SecurityAttributes{Length: 24, InheritHandle: 1}, 1, 0, nil)
	must.Do(t, err)
	defer windows.CloseHandle(event)
	try := func(words ...string) uint32 {
		_ = windows.ResetEvent(event)
		c := built.Command(t, words[1:]...)
		c.Path, c.Args[0] = words[0], words[0]
		c.SysProcAttr = &syscall.SysProcAttr{AdditionalInheritedHandles: []syscall.Handle{syscall.Handle(event)}}
		_, _, _ = built.Run(t, c)
		e, err := windows.WaitForSingleObject(event, 0)
		must.Do(t, err)
		return e
	}
	number := fmt.Sprint(uint64(event))
	if e := try(built.Does("handle", number)...); e != windows.WAIT_OBJECT_0 {
		t.Fatalf("control: it can't be reached outside either: %d", e)
	}
	if e := try(append([]string{built.Confine, built.Everywhere, "--"}, built.Does("handle", number)...)...); e == windows.WAIT_OBJECT_0 {
		t.Error("the command has a handle of its caller's")
	}
}

func TestOutputCap(t *testing.T) {
	r := built.Report(t, built.Command(t, append([]string{built.Everywhere, "--output-limit", "1000", "--"}, built.Does("flood")...)...))
	if !r.Truncated.Stdout || r.Bytes.Stdout != 110_000 || !strings.HasSuffix(r.Stdout, "[TRUNCATED]\n") || len(r.Stdout) > 1100 || !slices.Contains(r.LimitsHit, string(status.Output)) || r.Status != status.OK {
		t.Errorf("%s, %+v, %+v, %d", r.Status, r.Truncated, r.Bytes, len(r.Stdout))
	}
}

// TestOverlay: the tree stays as it is, and what the command did is told.
func TestOverlay(t *testing.T) {
	c := built.Command(t, append([]string{built.Everywhere, "--workdir", "overlay", "--keep=false", "--"}, built.Does("write", "file")...)...)
	must.Do(t, os.WriteFile(filepath.Join(c.Dir, "file"), []byte("before"), 0o600))
	r := built.Report(t, c)
	if r.Status != status.OK || r.Changes == nil || r.Changes.Counts != (status.ChangeCounts{Modified: 1}) || filepath.Base(r.Changes.Modified[0]) != "file" {
		t.Errorf("%s, %+v", r.Status, r.Changes)
	}
	if text, err := os.ReadFile(filepath.Join(c.Dir, "file")); err != nil || string(text) != "before" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestPathsThatCantBeGranted(t *testing.T) {
	for path, want := range map[string]string{
		`C:\`: "is a whole drive", `\\server\share\x`: "on another machine", `C:\x\NUL`: "names a device", `C:\x:stream`: "names a stream", `C:\x.\y`: "ends in a dot",
	} {
		_, errs, rc := built.Run(t, built.Command(t, append([]string{built.Everywhere, "--allow-write", path, "--"}, built.Does("exit", "0")...)...))
		if rc != 125 || !strings.Contains(errs, want) {
			t.Errorf("%s: %d, %q", path, rc, errs)
		}
	}
}

func TestDoctorAndExplain(t *testing.T) {
	out, errs, rc := built.Run(t, built.Command(t, "doctor"))
	for _, want := range []string{"job_object", "restricted_token", "desktop", "network", "left_behind"} {
		if !strings.Contains(out, want) {
			t.Errorf("doctor doesn't speak of %s: %q", want, errs)
		}
	}
	if rc != 1 {
		t.Errorf("everything that the profile default needs is held: %d", rc)
	}
	out, _, rc = built.Run(t, built.Command(t, "explain", "--workdir", "rw", "--", "x"))
	if rc != 0 && rc != 1 || !strings.Contains(out, "windows-job") || !strings.Contains(out, "granted to the SID of the run") {
		t.Errorf("%d, %q", rc, out)
	}
}

// TestSubcommands: each works, or says in one sentence what is missing, as docs/SYSTEMS.md has it.
func TestSubcommands(t *testing.T) {
	page, err := os.ReadFile("SYSTEMS.md") // beside the test, where the checkout isn't there
	if err != nil {
		if page, err = os.ReadFile("../../docs/SYSTEMS.md"); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([0-9]+) \\| (.+) \\|\r?$").FindAllStringSubmatch(string(page), -1) {
		words, want, says := strings.Fields(row[1]), row[2], row[3]
		seen[words[0]] = true
		out, errs, rc := built.Run(t, built.Command(t, words...))
		works := strings.HasPrefix(says, "works")
		if fmt.Sprint(rc) != want || works == strings.HasPrefix(errs, "[confine]") || !works && !strings.Contains(errs, says) {
			t.Errorf("confine %s: %d, %.300q, %.100q", row[1], rc, errs, out)
		}
		for _, word := range []string{"panic", "goroutine", "/proc", "cgroup", "namespace", "/etc/"} {
			if data := words[0] == "seccomp" || words[0] == "profiles" || words[0] == "explain"; !data && strings.Contains(out+errs, word) {
				t.Errorf("confine %s speaks of %s: %q, %q", row[1], word, errs, out)
			}
		}
	}
	for _, c := range cli.Commands() {
		if !seen[c.Name] {
			t.Errorf("the table lacks %q", c.Name)
		}
	}
}

// TestOwnFile: the user's file is where Windows has such files, and one that every user could make on the system's drive doesn't count. (Wine takes
// that name for one of Unix's, so that only on Windows this could fail.)
func TestOwnFile(t *testing.T) {
	c := built.Command(t, "explain", "--", "cmd")
	planted := filepath.VolumeName(c.Dir) + `\etc`
	must.Do(t, os.Mkdir(planted, 0o700))
	t.Cleanup(func() { _ = os.RemoveAll(planted) })
	for dir, limit := range map[string]string{c.Dir: `time_limit = "7s"`, planted: `cpu_time = "6s"`} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, "confine"), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, "confine", "confine.toml"), []byte("[sandbox]\n"+limit+"\n"), 0o600))
	}
	c.Env = append(os.Environ(), "APPDATA="+c.Dir)
	if out, errs, _ := built.Run(t, c); !regexp.MustCompile(`wall_time +7s`).MatchString(out) || !regexp.MustCompile(`cpu_time +20s`).MatchString(out) {
		t.Errorf("%q, %q", out, errs)
	}
}
