package darwin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/golden"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/internal/seatbelt"
	"github.com/confine-run/confine/internal/seatbelt/seatbelttest"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor/outcome"
)

func macHost(t *testing.T, more ...string) facts {
	return facts{UID: 1000, GID: 1000, Temp: "/private/var/folders/ab/cd/T", Self: "/opt/confine", Files: hosttest.MacOS(t, append(more, "/opt/confine*")...)}
}

func specOf(p *config.Policy) *backend.Spec {
	return &backend.Spec{Policy: p, Argv: []string{"true"}, Dir: "/Users/u/p", Environ: []string{"PATH=/opt/homebrew/bin:/usr/bin:/bin", "HOME=/Users/u", "SECRET=x", "TERM=dumb"}}
}

// accepting is a policy of a profile that takes whatever there is.
func accepting(t *testing.T, name string) *config.Policy {
	t.Helper()
	p, err := config.Profile(name)
	must.Do(t, err)
	p.AllowPartial = []string{config.WordAll}
	return &p
}

// TestPlansOfProfiles holds what becomes of each built-in profile, line by line, and that of the text of its sandbox.
func TestPlansOfProfiles(t *testing.T) {
	texts := map[string]string{}
	for _, name := range config.Profiles() {
		policy, err := config.Profile(name)
		must.Do(t, err)
		refused := ""
		_, err = newPlan(specOf(&policy), macHost(t))
		if cant, ok := errors.AsType[*config.Unenforceable](err); ok {
			refused = cant.Error() + "\n" + cant.Hint
		} else if err != nil {
			t.Fatal(err)
		}
		p, err := newPlan(specOf(accepting(t, name)), macHost(t))
		if err != nil {
			t.Fatalf("%s is refused in part, too: %v", name, err)
		}
		port := uint16(0)
		if p.Gateway {
			port = 1234
		}
		p.input.Mark = "run.confine.MARK"
		p.compile("/private/var/folders/ab/cd/T/confine-x", port)
		profile, params := p.profile.Text("", "own")
		_, rules, _ := strings.Cut(profile, "(global-name (param \"OWN\")))\n")
		rules = strings.ReplaceAll(rules, "\n\n", "\n")
		plan, err := json.MarshalIndent(p, "", "\t")
		must.Do(t, err)
		lines := append([]string{string(plan)}, p.environ("/private/var/folders/ab/cd/T/confine-x", port)...)
		for _, c := range slices.Sorted(maps.Keys(p.Ledger())) {
			lines = append(lines, fmt.Sprintf("%s: %+v", c, p.Ledger()[c]))
		}
		lines = append(append(lines, refused), spelt(rules, params)...)
		texts[name] = strings.Join(lines, "\n") + "\n"
	}
	golden.CheckAlike(t, "testdata", "default", texts)
}

// spelt are rules with their paths, but for those of what is protected in a tree, which are a list of names.
func spelt(rules string, params []seatbelt.Param) []string {
	for _, one := range params {
		rules = strings.ReplaceAll(rules, `(param "`+one.Name+`")`, one.Value)
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(rules), "\n"), func(l string) bool { return strings.Contains(l, "/Users/u/p/") })
}

// TestWhatIsAskedForIsInTheLedger: nothing is skipped. What a policy asks for is held by something, or missing with a reason.
func TestWhatIsAskedForIsInTheLedger(t *testing.T) {
	p := config.Default()
	p.CPULimit, p.CPUs, p.MaxFileSize, p.Isolation = 150, 2, 1<<20, "wasm"
	p.Network.Publish = []string{"8080:80"}
	p.Filesystem.Workdir = "overlay"
	_, err := newPlan(specOf(&p), macHost(t))
	cant, ok := errors.AsType[*config.Unenforceable](err)
	if !ok {
		t.Fatal(err)
	}
	for c, e := range cant.Ledger {
		if e.Enabled && !e.Effective && e.FallbackReason == "" {
			t.Errorf("%s: %+v", c, e)
		}
	}
	for _, c := range []status.Capability{status.CPURate, status.CPUs, status.Syscalls, status.Overlay, status.Isolation, status.Publish} {
		if cant.Ledger[c].Effective || !cant.Ledger[c].Enabled {
			t.Errorf("%s: %+v", c, cant.Ledger[c])
		}
	}
}

func TestWhatCantBeHadIsAMistake(t *testing.T) {
	for _, change := range []func(*config.Policy){
		func(p *config.Policy) { p.Filesystem.Rootfs = "/x" },
		func(p *config.Policy) { p.Filesystem.Virtual = true },
		func(p *config.Policy) {
			p.Filesystem.Mounts = append(p.Filesystem.Mounts, config.Mount{Src: "/a", Dst: "/b"})
		},
		func(p *config.Policy) { p.CgroupParent = "x" },
		func(p *config.Policy) { p.Filesystem.EphemeralHome = true },
		func(p *config.Policy) { p.Filesystem.Log = true },
	} {
		p := accepting(t, "standard")
		change(p)
		if _, err := newPlan(specOf(p), macHost(t)); !isUsage(err) {
			t.Errorf("%+v: %v", p.Filesystem, err)
		}
	}
}

func isUsage(err error) bool { _, ok := errors.AsType[*config.UsageError](err); return ok }

// TestANestedSandboxIsNamed, whatever the policy accepts: nothing of it would be held.
func TestANestedSandboxIsNamed(t *testing.T) {
	have := macHost(t)
	have.Nested = true
	_, err := newPlan(specOf(accepting(t, "standard")), have)
	if cant, ok := errors.AsType[*config.Unenforceable](err); !ok || cant.Reason != status.NestedSandbox || cant.Hint == "" {
		t.Errorf("%v", err)
	}
}

// TestAnswersAreTheProfile: what explain says of paths is what the text lets.
func TestAnswersAreTheProfile(t *testing.T) {
	p := accepting(t, "standard")
	p.Filesystem.Workdir, p.Filesystem.Deny, p.Network.Allow = "rw", []string{".env"}, []string{"example.com:443"}
	plan, err := newPlan(specOf(p), macHost(t, "/Users/u/p/.env=secret", "/Users/u/p/.git/config=x", "/Users/u/p/.git/HEAD=x"))
	must.Do(t, err)
	plan.compile("/private/var/folders/ab/cd/T/confine-x", 1234)
	text, params := plan.profile.Text("", "own")
	values := map[string]string{}
	for _, one := range params {
		values[one.Name] = one.Value
	}
	kernel, err := seatbelttest.Parse(text, values)
	must.Do(t, err)
	for _, c := range []struct{ path, access, op, want string }{
		{"src/a", "read", "file-read-data", "yes"}, {"src/a", "write", "file-write-data", "yes"}, {"src/new", "create", "file-write-create", "yes"},
		{".env", "read", "file-read-data", "no"}, {".git/config", "read", "file-read-data", "yes"}, {".git/config", "write", "file-write-data", "no"},
		{".git/HEAD", "write", "file-write-data", "yes"}, {".vscode", "create", "file-write-create", "no"}, {"/Users/u/.ssh/id", "read", "file-read-data", "no"},
		{"/Users/u/Documents/d", "read", "file-read-data", "no"}, {"/bin/sh", "exec", "process-exec", "yes"}, {"/bin/sh", "write", "file-write-data", "no"},
		{"/private/etc/master.passwd", "read", "file-read-data", "no"}, {"/private/tmp/other", "read", "file-read-data", "no"},
	} {
		a, err := plan.Ask(config.Ask{Kind: config.AskPath, Word: c.path, Access: c.access})
		if err != nil || a.Answer != c.want || a.Reason == "" {
			t.Errorf("%s %s: %+v, %v", c.access, c.path, a, err)
		}
		at := c.path
		if at[0] != '/' {
			at = "/Users/u/p/" + at
		}
		if kernel.Allows(seatbelttest.Query{Op: c.op, Path: at}) != (c.want == "yes") {
			t.Errorf("%s %s: the text says otherwise", c.op, at)
		}
	}
	for host, want := range map[string]string{"example.com:443": "yes", "example.com:22": "no", "localhost:22": "no"} {
		if a, err := plan.Ask(config.Ask{Kind: config.AskHost, Word: host}); err != nil || a.Answer != want {
			t.Errorf("%s: %+v, %v", host, a, err)
		}
	}
	if kernel.Allows(seatbelttest.Query{Op: "network-outbound", Host: "localhost", Port: 22}) || !kernel.Allows(seatbelttest.Query{Op: "network-outbound", Host: "localhost", Port: 1234}) {
		t.Error("the gateway is not all that can be connected to")
	}
}

func TestTheTreeSumsWhoIsGone(t *testing.T) {
	var tr tree
	tr.add([]sample{{1, 10, time.Second, 100, 2}, {2, 11, time.Second, 50, 1}, {2, 11, time.Second, 50, 1}})
	if tr.now.CPU != 2*time.Second || tr.now.Memory != 150 || tr.now.Tasks != 3 {
		t.Errorf("%+v", tr.now)
	}
	tr.add([]sample{{1, 10, 3 * time.Second, 60, 2}, {2, 12, time.Second, 1, 1}}) // another of the same number
	if tr.now.CPU != 5*time.Second || tr.now.Memory != 61 || tr.memoryPeak != 150 || tr.tasksPeak != 3 || tr.started != 3 {
		t.Errorf("%+v, %+v", tr.now, tr)
	}
	tr.add(nil)
	if tr.now.CPU != 5*time.Second || tr.now.Tasks != 0 {
		t.Errorf("%+v", tr.now)
	}
	if more := tr.ended(4*time.Second, 10); more != 0 || tr.memoryPeak != 150 {
		t.Errorf("%v more, %+v", more, tr)
	}
	if more := tr.ended(6*time.Second, 200); more != time.Second || tr.memoryPeak != 200 {
		t.Errorf("%v more, %+v", more, tr)
	}
	if tr.add(nil); tr.now.CPU != 6*time.Second {
		t.Errorf("%+v", tr.now)
	}
	if u := tr.used(); u.CPUMS != 6000 || u.MemoryPeakBytes != 200 || u.TasksPeak != 3 || u.TasksStarted != 3 {
		t.Errorf("%+v", u)
	}
}

func TestTheNewestAreTooMany(t *testing.T) {
	all := []sample{{pid: 1, start: 10, threads: 4}, {pid: 3, start: 30, threads: 2}, {pid: 2, start: 20, threads: 1}, {pid: 4, start: 30, threads: 1}}
	for limit, want := range map[int64][]int{8: nil, 7: {4}, 6: {4, 3}, 5: {4, 3}, 4: {4, 3, 2}, 3: {4, 3, 2, 1}, 0: {4, 3, 2, 1}} {
		if got := trim(all, limit); !slices.Equal(got, want) {
			t.Errorf("of %d: %v, want %v", limit, got, want)
		}
	}
}

// TestTheSweepFollowsNothing: what a run can have made is removed, what only others can have made gets another name, and what was there before, or a link leads
// to, stays.
func TestTheSweepFollowsNothing(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	tree, other := filepath.Join(dir, "tree"), filepath.Join(dir, "other")
	for _, at := range []string{tree + "/made/hooks", tree + "/kept", other + "/hooks"} {
		must.Do(t, os.MkdirAll(at, 0o755))
	}
	for _, at := range []string{tree + "/file", tree + "/.envrc", tree + "/.envrc.aside", other + "/hooks/x"} {
		must.Do(t, os.WriteFile(at, nil, 0o600))
	}
	if err := os.Symlink(other, tree+"/linked"); err != nil {
		t.Skip(err)
	}
	if info, err := os.Lstat(tree + "/linked"); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Skip("there are no symbolic links: ", err)
	}
	slash := filepath.ToSlash
	g := &plan.Guarded{
		KeepAbsent: []string{slash(tree) + "/made/hooks", slash(tree) + "/linked/hooks", slash(tree) + "/.envrc", slash(tree) + "/file/hooks", slash(tree) + "/none", slash(other) + "/hooks"},
		KeepClear:  []string{slash(tree) + "/made", slash(tree) + "/linked"},
	}
	list := sweep([]string{slash(tree)}, g)
	if len(list) != 3 {
		t.Errorf("%+v", list)
	}
	for _, v := range list {
		if want := map[bool]string{true: status.RuleAside, false: status.RuleProtected}[strings.HasSuffix(v.What, ".envrc")]; v.Rule != want {
			t.Errorf("%+v", v)
		}
	}
	for at, there := range map[string]bool{tree + "/made": true, tree + "/made/hooks": false, tree + "/linked": false, tree + "/.envrc": false, tree + "/.envrc.aside": true, tree + "/.envrc.aside2": true, tree + "/file": true,
		tree + "/kept": true, other + "/hooks/x": true} {
		if _, err := os.Lstat(at); (err == nil) != there {
			t.Errorf("%s: %v", at, err)
		}
	}
}

func TestWhatTheStageSays(t *testing.T) {
	errno := func(n byte) string { return string([]byte{n, 0, 0, 0}) }
	for said, want := range map[string]string{
		"":                         "seatbelt: /usr/bin/sandbox-exec has not executed what it was to",
		"o" + errno(1):             "seatbelt: sandbox_check: the process is in no sandbox that is known as the run's",
		"?":                        "seatbelt: sandbox_check: the process is in no sandbox that is known as the run's",
		"l" + errno(22):            "limits: setrlimit: " + syscall.Errno(22).Error(),
		"c":                        "",
		"cf" + errno(13):           (&outcome.ExecError{Path: "/x", Errno: 13, Step: handoff.StepExecve}).Error(),
		"cf" + errno(8)[:2]:        (&outcome.ExecError{Path: "/x", Errno: syscall.EIO, Step: handoff.StepExecve}).Error(),
		"printed by somebody else": "seatbelt: sandbox_check: the process is in no sandbox that is known as the run's",
	} {
		got := ""
		if err := stageSaid([]byte(said), "/x"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

func TestProgramsAreThoseThatTheSandboxExecutes(t *testing.T) {
	p := accepting(t, "standard")
	p.Filesystem.Workdir, p.Filesystem.Deny = "rw", []string{"hidden"}
	plan, err := newPlan(specOf(p), macHost(t, "/Users/u/p/tool*", "/Users/u/p/hidden*", "/Users/u/p/text=x", "/Users/u/p/link -> /Users/u/bin/own", "/Users/u/bin/own*", "/usr/bin/env*"))
	must.Do(t, err)
	env := []string{"PATH=/nowhere", "PATH=relative:/opt/homebrew/bin:/Users/u/bin:/usr/bin"}
	for name, want := range map[string]string{
		"true": "/usr/bin/true", "git": "/opt/homebrew/bin/git", "/bin/sh": "/bin/sh", "./tool": "/Users/u/p/./tool", "none": "", "own": "", "/Users/u/bin/own": "", "./link": "",
		"./hidden": "", "./text": "", "./src": "", "tool": "", "": "", "a\x00": "",
	} {
		got, err := plan.find(name, "/Users/u/p", env)
		failed, is := errors.AsType[*outcome.ExecError](err)
		if got != want || (err != nil) != (want == "") || err != nil && !is {
			t.Errorf("%q: %q, %v", name, got, err)
		}
		if is && (name == "./text" || name == "./src") != (failed.Errno == syscall.EACCES) {
			t.Errorf("%q: %v", name, failed)
		}
	}
}

func TestRlimits(t *testing.T) {
	for want, l := range map[string]limits{
		"4=0":                 {},
		"4=0,8=64,1=1024,0=3": {Descriptors: 64, FileSize: 1024, CPU: 1500 * time.Millisecond, Memory: 1, Tasks: 2},
	} {
		if got := l.rlimits(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
