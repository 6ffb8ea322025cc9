package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

func TestPoliciesAreShownCheckedAndCompared(t *testing.T) {
	inTemp(t)
	for name, text := range map[string]string{
		"mine.toml":   "extends = \"default\"\n[[rules]]\nnames = [\"ptrace\", \"process_vm_readv\", \"process_vm_writev\"]\naction = \"deny\"\n",
		"open.toml":   "default_action = \"allow\"\n",
		"broken.toml": "default_action = \"alow\"\n",
		"old.json":    `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["bpf"],"action":"SCMP_ACT_ERRNO","excludes":{"minKernel":"5.8"}}]}`,
	} {
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	for _, c := range []struct {
		args string
		rc   int
		out  string // in stdout
		err  string // in stderr
	}{
		{"show", 0, "default/3 for ", ""},
		{"show --arch arm64 strict/2 --action kill", 0, "strict/2 for arm64, kill: ", ""},
		{"show mine.toml --bpf --arch amd64", 0, "jne AUDIT_ARCH_X86_64, ", ""},
		{"show old.json --kernel 5.7 --arch amd64", 0, "errno EPERM  -     entry 1", ""},
		{"show old.json --kernel 5.8 --arch amd64", 0, "bpf                        allow", ""},
		{"check mine.toml", 0, "0 warnings, 0 notes", ""},
		{"check open.toml", 1, "warning: io_uring_setup: allow", ""},
		{"check broken.toml", 2, "", "broken.toml:1:18: unknown action \"alow\""},
		{"check broken.toml --json", 2, `"line":1,"column":18,"message":"unknown action \"alow\"","hint":"did you mean \"allow\"?"`, "broken.toml:1:18"},
		{"diff default default", 0, ": 0 calls", ""},
		{"diff default mine.toml", 1, "ptrace\n      allow (rule \"debuggers\") → errno EPERM (rule \"rule 1\")", ""},
		{"diff mine.toml default", 1, "allowed, and was refused:", ""},
		{"", rcUsage, "", "not said what to do"},
		{"shwo", rcUsage, "", `did you mean "show"?`},
		{"show defualt", rcUsage, "", `did you mean "default"?`},
		{"show default strict", rcUsage, "", "2 policies were named"},
		{"show nowhere.toml", rcUsage, "", "no such file"},
		{"check", rcUsage, "", "0 policies were named"},
		{"check mine.toml --bpf", rcUsage, "", "--bpf"},
		{"diff default", rcUsage, "", "1 policies were named"},
		{"show --arch adm64", rcUsage, "", `did you mean "amd64"?`},
		{"show --action refuse", rcUsage, "", "unknown action"},
		{"show --kernel six", rcUsage, "", "no kernel version"},
		{"show --json=maybe", rcUsage, "", "neither"},
		{"show -t 5s", rcUsage, "", `unknown option "-t"`},
		{"show --help", 0, "confine seccomp - ", ""},
	} {
		var fake call
		r := fake.run(t, append([]string{"seccomp"}, strings.Fields(c.args)...)...)
		if r.rc != c.rc || !strings.Contains(r.out, c.out) || !strings.Contains(r.err, c.err) || c.err == "" && r.err != "" {
			t.Errorf("seccomp %s: rc %d, want %d\nstdout %.2000s\nstderr %s", c.args, r.rc, c.rc, r.out, r.err)
		}
		if strings.Contains(c.args, "--json") && c.rc != rcUsage && !json.Valid([]byte(r.out)) {
			t.Errorf("seccomp %s: no JSON: %.200s", c.args, r.out)
		}
		if r.fake.argv != nil {
			t.Errorf("seccomp %s ran something", c.args)
		}
	}
}
