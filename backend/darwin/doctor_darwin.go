package darwin

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/darwin"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/status"
)

// here are the facts of this host.
func here() (facts, error) {
	kernel := hostfs.ThisInspector()
	self, err := os.Executable()
	if err != nil {
		return facts{}, err
	}
	have := facts{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Nested: darwin.Sandboxed(os.Getpid()), Files: kernel}
	for _, one := range []struct {
		name string
		to   *string
	}{{self, &have.Self}, {os.TempDir(), &have.Temp}} {
		f, err := kernel.Resolve(one.name)
		if err != nil {
			return facts{}, &config.UsageError{Msg: "there is no " + one.name + ": " + err.Error(), Hint: "TMPDIR names a directory for what runs leave", Err: err}
		}
		*one.to = f.Path
	}
	groups, _ := os.Getgroups()
	for _, g := range groups {
		have.Groups = append(have.Groups, uint32(g))
	}
	return have, nil
}

// Doctor tries what a run needs, and leaves nothing behind.
func Doctor() []host.Result {
	results := []host.Result{trySandbox()}
	for _, c := range []struct{ name, means string }{
		{"syscalls", "system calls can be filtered"},
		{"overlays", "a tree can be shown that takes writes and keeps them apart"},
		{"cpu_rate", "CPU time can be held to a rate, or to some CPUs"},
	} {
		results = append(results, host.Result{Name: c.name, Means: c.means, Answer: host.No, Detail: "macOS has nothing that does it for an ordinary program",
			Remedy: "--allow-partial goes on without, and the report says so"})
	}
	return results
}

// trySandbox runs a program that is told to write where it may not, and then to write where it may.
func trySandbox() host.Result {
	r := host.Result{Name: "seatbelt", Means: "files, network and other processes out of reach, and an end of everybody together", Needed: true, Answer: host.Yes}
	no := func(detail, remedy string) host.Result {
		r.Answer, r.Detail, r.Remedy = host.No, detail, remedy
		return r
	}
	if darwin.Sandboxed(os.Getpid()) {
		return no("confine is in a sandbox itself, and macOS puts none into another", "run it outside of that one")
	}
	outside := filepath.Join(os.TempDir(), "confine-doctor")
	policy := config.Default()
	policy.AllowPartial, policy.TimeLimit, policy.Filesystem.Workdir = []string{config.WordAll}, 10*time.Second, "none"
	var said strings.Builder
	p, err := backend.Run(context.Background(), Backend{}, &backend.Spec{
		Policy: &policy, Argv: []string{"/bin/sh", "-c", `echo x >"$TMPDIR/inside" && ! echo x 2>/dev/null >"` + outside + `"`}, Dir: "/", Environ: os.Environ(),
	}, &backend.Exec{Argv: []string{"/bin/sh", "-c", `echo x >"$TMPDIR/inside" && ! echo x 2>/dev/null >"` + outside + `"`}, Stderr: &said})
	if err != nil {
		return no(err.Error(), "")
	}
	report := p.Wait()
	defer os.Remove(outside)
	if _, err := os.Stat(outside); err == nil {
		return no("what it forbids can be written", "")
	}
	if report.Status != status.OK {
		return no(strings.TrimSpace(string(report.Status)+": "+report.Reason+" "+said.String()), "sandbox-exec is a part of macOS; what it printed says why it can't")
	}
	r.Detail = "macOS " + darwin.Product()
	return r
}
