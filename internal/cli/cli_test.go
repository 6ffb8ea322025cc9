package cli

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/redact"
	"github.com/confine-run/confine/status"
)

func TestClosedStdout(t *testing.T) {
	inTemp(t)
	broken := func([]byte) error { return syscall.ENOSPC }
	for _, args := range [][]string{
		{"--json", "ls"}, {"help"}, {"run", "--help"}, {"version"}, {"version", "--json"}, {"profiles"}, {"profiles", "strict"},
		{"completion", "bash"}, {"explain", "ls"}, {"explain", "--json", "ls"}, {"doctor"}, {"doctor", "--json"},
	} {
		c := call{out: broken}
		c.checks = []host.Result{{Name: "userns", Answer: host.Yes, Needed: true}}
		if r := c.run(t, args...); r.rc != 1 || !strings.Contains(r.err, "write stdout: no space left on device") {
			t.Errorf("%q: rc %d, %s", args, r.rc, r.err)
		}
		c.out = func([]byte) error { return syscall.EPIPE } // head has read enough, but a report is for somebody
		if r := c.run(t, args...); args[0] != "--json" && (r.rc != 141 || r.err != "") || args[0] == "--json" && (r.rc != 1 || r.err == "") {
			t.Errorf("%q: its reader is gone: rc %d, %s", args, r.rc, r.err)
		}
	}
	c := call{out: broken}
	c.report = &status.Report{Status: status.Failed, RC: 9, Cause: status.CauseExit}
	if r := c.run(t, "--json", "ls"); r.rc != 9 {
		t.Errorf("a failed run: rc %d", r.rc)
	}
}

func TestUsageErrorOfTheEngine(t *testing.T) {
	inTemp(t)
	var c call
	c.fake.err = &config.UsageError{Msg: "no such mechanism", Hint: "name another"}
	r := c.run(t, "--report", "r.json", "ls")
	if r.rc != 125 || r.err != prefix+"no such mechanism\n"+prefix+"hint: name another\n" {
		t.Errorf("rc %d, %s", r.rc, r.err)
	}
}

func TestFlagsReachThePolicy(t *testing.T) {
	inTemp(t)
	c := call{environ: []string{"CONFINE_MEMORY_LIMIT=64M", "CONFINE_TIME_LIMIT=9s"}}
	r := c.run(t, "-t", "5s", "--block-internal=false", "--env", "A=1,2", "--env", "B=x=y", "ls")
	p := r.fake.resolved.Policy
	if p.TimeLimit.Seconds() != 5 || p.MemoryLimit != 64<<20 || p.Network.BlockInternal || p.Env.Set["A"] != "1,2" || p.Env.Set["B"] != "x=y" {
		t.Errorf("%+v", p)
	}
}

func TestVerbose(t *testing.T) {
	inTemp(t)
	var c call
	c.plan = &Explanation{
		Command: CommandInfo{Argv: []string{"ls", "a b", ""}},
		Enforced: map[status.Capability]status.Enforcement{
			status.WallTime: {Enabled: true, Effective: true, Mechanism: "timer"},
			status.Memory:   {Enabled: true, Effective: true, Mechanism: "watchdog", FallbackReason: status.CgroupNotDelegated},
			status.CPUTime:  {Enabled: true, FallbackReason: status.NotInBuild},
		},
	}
	c.report = &status.Report{
		Status: status.OK, Cause: status.CauseExit, DurationMS: 1500,
		Usage: status.Usage{CPUMS: 123, MemoryPeakBytes: 15<<20 + 200<<10, TasksPeak: 8},
	}
	r := c.run(t, "--log", "verbose", "-t", "5s", "-m", "100M", "--cpu-time", "5s", "--processes", "32", "ls")
	for _, want := range []string{
		"starting with profile: default", "limit on wall-clock time: 5s [timer]", "limit on memory: 100M [watchdog: linux_cgroup_not_delegated]",
		"limit on CPU time: 5s [not enforced: not_enforceable_on_this_build]", "network: denied", "file system: current directory read-only",
		`running: ls "a b" ""`, "wall-clock time: 1.500s (30.0%)", "CPU time: 0.123s (2.5%)", "memory: 15.2M (15.2%)", "tasks: 8 (25.0%)", "exit: 0 (OK)",
	} {
		if !strings.Contains(r.err, prefix+want+"\n") {
			t.Errorf("%q is missing in\n%s", want, r.err)
		}
	}
}

func TestExplain(t *testing.T) {
	dir := inTemp(t)
	must.Do(t, os.WriteFile("my.toml", []byte("[sandbox]\ntime_limit = \"7s\"\nmemory_limit = \"64M\"\n"), 0o600))
	args := []string{"explain", "--config", "my.toml", "-m", "65M", "--env", "TOKEN=secret", "--", "ls"}
	plan := &Explanation{
		Command: CommandInfo{Argv: []string{"ls"}, Path: "/usr/bin/ls"},
		Enforced: map[status.Capability]status.Enforcement{
			status.Memory:  {Requested: "65M", Enabled: true, Effective: true, Mechanism: "watchdog", FallbackReason: status.CgroupNotDelegated},
			status.Publish: {Requested: "80:80", Enabled: true, Mechanism: "none", FallbackReason: status.NotInBuild, Details: "later"},
		},
		Paths: []config.PathRule{{Path: "/usr", Access: "read", Why: "system"}, {Path: "/a\x1bb", Access: "hidden", Why: "--deny"}},
	}
	c := call{environ: []string{"CONFINE_TIME_LIMIT=6s"}}
	c.plan = plan
	r := c.run(t, args...)
	rows := map[string]bool{}
	for line := range strings.Lines(r.out) {
		rows[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, want := range []string{
		"memory 65M watchdog yes linux_cgroup_not_delegated", "publish 80:80 none NO not_enforceable_on_this_build: later",
		"/usr read system", `/a\x1bb hidden --deny`, "memory-limit flag --memory-limit 65M", "- " + dir + "/my.toml:3 (64M, which doesn't count)",
		"time-limit environment CONFINE_TIME_LIMIT 6s", "- " + dir + "/my.toml:2 (7s, which doesn't count)",
		"- profile default (30s, which doesn't count)", "cpu-time profile default 20s", "env-set flag --env TOKEN=" + redact.Mask,
	} {
		if !rows[want] {
			t.Errorf("%q is missing in\n%s", want, r.out)
		}
	}
	if r.rc != 0 || strings.Contains(r.out, "secret") {
		t.Errorf("rc %d, %s", r.rc, r.out)
	}

	c.plan = plan
	r = c.run(t, slices.Insert(slices.Clone(args), 1, "--json")...)
	var e Explanation
	if err := json.Unmarshal([]byte(r.out), &e); err != nil {
		t.Fatalf("%s: %v", r.out, err)
	}
	i := slices.IndexFunc(e.Values, func(v Value) bool { return v.Option == "memory-limit" })
	if i < 0 || e.Values[i].Values[0] != "65M" || len(e.Values[i].Overridden) != 2 || strings.Contains(r.out, "secret") {
		t.Errorf("%s", r.out)
	}

	c.plan = &Explanation{Refused: "memory can't be enforced"}
	if r := c.run(t, "explain", "ls"); r.rc != 1 || !strings.Contains(r.out, "would not start: memory can't be enforced") {
		t.Errorf("refused: rc %d, %s", r.rc, r.out)
	}
}

func TestDoctor(t *testing.T) {
	inTemp(t)
	checks := []host.Result{
		{Name: "userns", Means: "everything", Answer: host.No, Needed: true, Detail: "clone: EPERM", Remedy: "sysctl one\nsysctl two"},
		{Name: "overlay", Means: "more", Answer: host.Unknown},
		{Name: "proc", Means: "itself", Answer: host.Yes, Needed: true},
	}
	c := call{fake: fake{checks: checks}}
	r := c.run(t, "doctor")
	for _, want := range []string{"NO ", "userns: no", "  clone: EPERM", "  hint: sysctl one", "        sysctl two", "overlay: unknown", "can't be enforced in full"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is missing in\n%s", want, r.out)
		}
	}
	if r.rc != 1 {
		t.Errorf("rc %d", r.rc)
	}
	c.checks = checks[1:]
	if r := c.run(t, "doctor"); r.rc != 0 || !strings.Contains(r.out, "can be enforced in full") {
		t.Errorf("rc %d, %s", r.rc, r.out)
	}
	r = c.run(t, "doctor", "--json")
	var d diagnosis
	if err := json.Unmarshal([]byte(r.out), &d); err != nil || !d.OK || len(d.Checks) != 2 || r.rc != 0 {
		t.Errorf("rc %d, %s: %v", r.rc, r.out, err)
	}
	c.checks = nil
	if r := c.run(t, "doctor"); r.rc != 1 || r.err == "" {
		t.Errorf("no host: rc %d, %s", r.rc, r.err)
	}
}

func TestProfiles(t *testing.T) {
	inTemp(t)
	var c call
	r := c.run(t, "profiles")
	for _, name := range config.Profiles() {
		if !strings.Contains(r.out, "\n"+name+" ") {
			t.Errorf("%s is missing in\n%s", name, r.out)
		}
		one := c.run(t, "profiles", name)
		if one.rc != 0 || !strings.Contains(one.out, "[sandbox.profiles."+name+"]") {
			t.Errorf("%s: rc %d, %s", name, one.rc, one.out)
		}
	}
	r = c.run(t, "profiles", "strict", "--json")
	var all []listed
	if err := json.Unmarshal([]byte(r.out), &all); err != nil || len(all) != 1 || all[0].Name != "strict" {
		t.Errorf("%s: %v", r.out, err)
	}
}

func TestVersion(t *testing.T) {
	inTemp(t)
	for _, args := range [][]string{{"version"}, {"--version"}} {
		var c call
		if r := c.run(t, args...); r.rc != 0 || !strings.HasPrefix(r.out, "confine ") || !strings.Contains(r.out, runtime.GOOS+"/"+runtime.GOARCH) {
			t.Errorf("%q: rc %d, %s", args, r.rc, r.out)
		}
	}
	var c call
	var b build
	if r := c.run(t, "version", "--json"); json.Unmarshal([]byte(r.out), &b) != nil || b.Go != runtime.Version() {
		t.Errorf("%s", r.out)
	}
}

func TestShell(t *testing.T) {
	inTemp(t)
	for _, c := range []struct {
		name, env string
		plan      *Explanation
		want      string
	}{
		{"the caller's", "SHELL=/usr/bin/zsh", nil, "/usr/bin/zsh"},
		{"one that can't be seen", "SHELL=/opt/sh", &Explanation{Command: CommandInfo{Error: "not visible"}}, "/bin/sh"},
		{"none", "X=", nil, "/bin/sh"},
		{"a relative one", "SHELL=sh", nil, "/bin/sh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake := call{environ: []string{c.env}, fake: fake{plan: c.plan}}
			r := fake.run(t, "shell")
			if !slices.Equal(r.fake.argv, []string{c.want}) {
				t.Errorf("%q", r.fake.argv)
			}
			if p := r.fake.resolved.Policy; p.TimeLimit != 0 || p.CPUTime != 0 || p.OutputLimit != 0 || p.MemoryLimit == 0 {
				t.Errorf("%+v", p)
			}
		})
	}
	c := call{environ: []string{"CONFINE_CPU_TIME=3s"}}
	r := c.run(t, "shell", "-t", "5s")
	if p := r.fake.resolved.Policy; p.TimeLimit.Seconds() != 5 || p.CPUTime.Seconds() != 3 || p.OutputLimit != 0 {
		t.Errorf("%+v", p)
	}
}

func TestDiffIntoAClosedPipeIsSilent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there are no overlays")
	}
	inTemp(t)
	for _, c := range []struct {
		err  error
		rc   int
		said bool
	}{{syscall.EPIPE, 141, false}, {syscall.ENOSPC, 1, true}} {
		all := call{out: func([]byte) error { return c.err }}
		if r := all.run(t, "diff", "--list"); r.rc != c.rc || (r.err != "") != c.said {
			t.Errorf("%v: %d, %q", c.err, r.rc, r.err)
		}
	}
}
