package windows

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/golden"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

var thisHost = facts{CPUs: 4, Home: `C:\Users\u`}

func specOf(p *config.Policy) *backend.Spec {
	return &backend.Spec{Policy: p, Dir: `C:\Users\u\project`, Environ: []string{`Path=C:\bin`, `SystemRoot=C:\Windows`, "SECRET=x", "term=dumb", "CONFINE_PROFILE=x", "=C:=C:\\"}}
}

// TestPlansOfProfiles holds what becomes of each built-in profile, line by line.
func TestPlansOfProfiles(t *testing.T) {
	texts := map[string]string{}
	for _, name := range config.Profiles() {
		policy, err := config.Profile(name)
		must.Do(t, err)
		p, err := newPlan(specOf(&policy), thisHost)
		var cant *config.Unenforceable
		if !errors.As(err, &cant) {
			t.Errorf("%s is not refused: %v", name, err)
		}
		if p == nil {
			t.Fatal(err)
		}
		policy.AllowPartial = []string{config.WordAll}
		if _, err := newPlan(specOf(&policy), thisHost); err != nil {
			t.Errorf("%s is refused in part, too: %v", name, err)
		}
		plan, err := json.MarshalIndent(p, "", "\t")
		must.Do(t, err)
		lines := append([]string{string(plan)}, p.environ(insideEnv(`C:\place`))...)
		for _, c := range slices.Sorted(maps.Keys(p.Ledger())) {
			lines = append(lines, fmt.Sprintf("%s: %+v", c, p.Ledger()[c]))
		}
		texts[name] = strings.Join(append(lines, cant.Error(), cant.Hint), "\n") + "\n"
	}
	golden.CheckAlike(t, "testdata", "default", texts)
}

// TestWhatIsAskedForIsInTheLedger: nothing is skipped. What a policy asks for is held by something, or missing with a reason.
func TestWhatIsAskedForIsInTheLedger(t *testing.T) {
	p := config.Default()
	p.CPULimit, p.CPUs, p.MaxFileSize, p.Isolation = 150, 2, 1<<20, "wasm"
	p.Network.Publish = []string{"8080:80"}
	p.Filesystem.Workdir, p.Filesystem.Keep = "overlay", true
	plan, err := newPlan(specOf(&p), thisHost)
	if plan == nil {
		t.Fatal(err)
	}
	effective := map[status.Capability]bool{}
	for c, e := range plan.Ledger() {
		if e.Enabled && !e.Effective && (e.FallbackReason == "" || e.Details == "") {
			t.Errorf("%s is missing without a reason: %+v", c, e)
		}
		if e.Effective && e.Mechanism == "none" {
			t.Errorf("%s is held by nothing: %+v", c, e)
		}
		effective[c] = e.Effective
	}
	for _, c := range []status.Capability{status.Filesystem, status.Network, status.Syscalls, status.FileDescriptors, status.FileSize, status.Tasks, status.Publish, status.Isolation, status.Overlay} {
		if effective[c] {
			t.Errorf("%s is said to be held", c)
		}
	}
	for _, c := range []status.Capability{status.Containment, status.Memory, status.CPUTime, status.CPURate, status.CPUs, status.WallTime, status.Output, status.Privileges, status.Disk} {
		if !effective[c] {
			t.Errorf("%s is not held", c)
		}
	}
	p.CPUs = 4
	if more, _ := newPlan(specOf(&p), thisHost); more.Job.Affinity != 0 || !more.Ledger()[status.CPUs].Effective {
		t.Errorf("as many processors as there are: %+v", more.Job)
	}
	if plan.Job.Rate != 3750 || plan.Job.Affinity != 3 || plan.Job.Memory != p.MemoryLimit || plan.Job.CPUTime != 20*time.Second {
		t.Errorf("%+v", plan.Job)
	}
}

func TestWhatCantBeHadIsRefusedByName(t *testing.T) {
	for name, change := range map[string]func(*config.Policy){
		"--rootfs":         func(p *config.Policy) { p.Filesystem.Rootfs = `C:\tree` },
		"--mount":          func(p *config.Policy) { p.Filesystem.Mounts = []config.Mount{{Src: "a", Dst: "/b"}} },
		"--virtual-fs":     func(p *config.Policy) { p.Filesystem.Virtual = true },
		"--ephemeral-home": func(p *config.Policy) { p.Filesystem.EphemeralHome = true },
		"--user":           func(p *config.Policy) { p.User = &config.User{} },
		"--cgroup-parent":  func(p *config.Policy) { p.CgroupParent = "/x" },
		"--allow-write":    func(p *config.Policy) { p.Filesystem.AllowWrite = []string{`\\server\share\x`} },
		"whole drive":      func(p *config.Policy) { p.Filesystem.AllowWrite = []string{`D:\`} },
		"lie in each other": func(p *config.Policy) {
			p.Filesystem.Workdir, p.Filesystem.AllowWrite = "overlay", []string{`c:\users\U\PROJECT\sub`}
		},
	} {
		p := config.Default()
		p.AllowPartial = []string{config.WordAll}
		change(&p)
		_, err := newPlan(specOf(&p), thisHost)
		if usage, ok := errors.AsType[*config.UsageError](err); !ok || !strings.Contains(usage.Msg, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := config.Default()
	p.Filesystem.Workdir = "rw"
	s := specOf(&p)
	s.Dir = `c:\users\U\`
	if _, err := newPlan(s, thisHost); !errors.As(err, new(*config.UsageError)) {
		t.Errorf("the home directory is granted: %v", err)
	}
}

func TestRolesInTrees(t *testing.T) {
	p := config.Default()
	p.Filesystem.Workdir = "rw"
	p.Filesystem.Protect = []string{".git/hooks", "~/bin", ".env"}
	s := specOf(&p)
	s.ConfigFiles = []string{`C:\Users\u\project\sub\confine.toml`, `C:\elsewhere\x`}
	plan, _ := newPlan(s, thisHost)
	tree := &plan.Trees[0]
	for path, want := range map[string]role{
		`C:\Users\u\project`:                      roleKept,
		`C:\Users\u\project\a`:                    roleOpen,
		`C:\Users\u\project\.git`:                 roleKept,
		`C:\Users\u\project\.GIT\HOOKS`:           roleNone,
		`C:\Users\u\project\.git\hooks\pre-push`:  roleNone,
		`C:\Users\u\project\.git\config`:          roleOpen,
		`C:\Users\u\project\.env`:                 roleNone,
		`C:\Users\u\project\.envrc`:               roleOpen,
		`C:\Users\u\project\sub`:                  roleKept,
		`C:\Users\u\project\sub\confine.toml`:     roleNone,
		`C:\Users\u\project\sub\confine.toml.bak`: roleOpen,
		`C:\Users\u\project\bin`:                  roleOpen,
	} {
		if got := plan.roleOf(tree, path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	for word, want := range map[string]string{`C:\Users\u\project\a`: "yes", `C:\Users\u\project\.git\hooks\x`: "no", `C:\Users\u\other`: "no"} {
		if a, err := plan.Ask(config.Ask{Kind: config.AskPath, Word: word, Access: "write"}); err != nil || a.Answer != want {
			t.Errorf("%s: %+v, %v", word, a, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	p := config.Env{Pass: []string{"PATH", "TERM", "LC_*"}, Set: map[string]string{"tz": "UTC", "path": `C:\other`}}
	got := environment(&p, []string{`Path=C:\bin`, `SystemRoot=C:\Windows`, "systemdrive=C:", "SECRET=x", "term=dumb", "lc_all=C", "CONFINE_X=1", "confine_y=1", "=C:=C:\\", "BAD=\x00", "Path=again"},
		map[string]string{"TEMP": `C:\t`})
	want := []string{"lc_all=C", `Path=C:\other`, "systemdrive=C:", `SystemRoot=C:\Windows`, `TEMP=C:\t`, "term=dumb", "tz=UTC"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := withEnv(want, []string{"TEMP=", "New=a=b", "sYSTEMrOOT=x"}); !slices.Equal(got, []string{"lc_all=C", "New=a=b", `Path=C:\other`, "systemdrive=C:", "SystemRoot=x", "TEMP=", "term=dumb", "tz=UTC"}) {
		t.Errorf("%q", got)
	}
	if b := block([]string{"A=1", "B=\U0001F600"}); !slices.Equal(b, []uint16{'A', '=', '1', 0, 'B', '=', 0xD83D, 0xDE00, 0, 0}) {
		t.Errorf("%v", b)
	}
	if got := lookup([]string{"path=a", "PATH=b=c", "PATHEXT=x"}, "Path"); got != "b=c" {
		t.Errorf("%q", got)
	}
	if b := block(nil); !slices.Equal(b, []uint16{0, 0}) {
		t.Errorf("%v", b)
	}
}

func TestPaths(t *testing.T) {
	for path, want := range map[string]error{
		`C:\a\b`: nil, `c:/a/b`: nil, `C:\a\b\`: nil, `C:\aux.d\`: errDevice, `C:\a.\b`: errTrailing, `C:\a \b`: errTrailing, `C:\`: errDrive, `C:`: errRelative, `C:a`: errRelative,
		`\a`: errRelative, `a`: errRelative, `\\s\x\y`: errShare, `//s/x/y`: errShare, `\\.\pipe\x`: errDevice, `\\?\C:\a`: errDevice, `\??\C:\a`: errDevice,
		`C:\a:stream`: errStream, `C:\a\con`: errDevice, `C:\NUL.txt\b`: errDevice, `C:\com1`: errDevice, `C:\COM¹.x`: errDevice, `C:\com10`: nil, `C:\common`: nil, `C:\a\..\b`: errRelative,
		`C:\a*`: errControl, "C:\\a\x01": errControl, `C:\lpt0`: errDevice, `C:\` + strings.Repeat(`a\`, 20_000): errLong, `1:\a`: errRelative, `C:\conin$`: errDevice, `C:\a\\b`: errRelative,
	} {
		if err := checkPath(path); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%.40q: %v, want %v", path, err, want)
		}
	}
	for _, c := range []struct {
		path, dir string
		want      bool
	}{{`C:\A\b`, `c:\a`, true}, {`C:\ab`, `C:\a`, false}, {`C:\a`, `C:\a\`, true}, {`c:/a/b/c`, `C:\a\b`, true}, {`C:\a`, `C:\a\b`, false}} {
		if under(c.path, c.dir) != c.want {
			t.Errorf("%s under %s", c.path, c.dir)
		}
	}
	if !batch(`C:\x.BAT`) || !batch(`C:\x.cmd. `) || batch(`C:\x.exe`) || batchSafe([]string{"a", `b"&calc`}) || batchSafe([]string{"%PATH%"}) || !batchSafe([]string{"a b", "--x=1"}) {
		t.Error("scripts of cmd.exe")
	}
}

func TestEndsHaveStatuses(t *testing.T) {
	for _, c := range []struct {
		e      ended
		exited bool
		signal int
		native string
	}{
		{ended{code: 0}, true, -1, ""}, {ended{code: 3}, true, -1, ""}, {ended{code: 0xC0000005}, false, 11, "STATUS_ACCESS_VIOLATION (0xC0000005)"},
		{ended{code: killedCode}, true, -1, "NTSTATUS (0xE0C00009)"}, {ended{code: killedCode, killed: true}, false, 9, ""}, {ended{code: 5, killed: true}, true, -1, ""},
		{ended{code: controlC}, false, 2, "STATUS_CONTROL_C_EXIT (0xC000013A)"}, {ended{code: 0xC0000409}, false, 6, "STATUS_STACK_BUFFER_OVERRUN (0xC0000409)"},
		{ended{code: 0xC0000135}, true, -1, "STATUS_DLL_NOT_FOUND, it or a library of its could not be loaded (0xC0000135)"}, {ended{code: 0xC1234567}, true, -1, "NTSTATUS (0xC1234567)"},
		{ended{code: 0x7FFFFFFF}, true, -1, ""},
	} {
		if c.e.Exited() != c.exited || c.e.Signaled() == c.exited || int(c.e.Signal()) != c.signal || c.e.Native() != c.native {
			t.Errorf("%#x: %v %v %q", c.e.code, c.e.Exited(), c.e.Signal(), c.e.Native())
		}
	}
}
