package policyfile

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/seccomp"
)

// docs is a profile as the OCI runtime specification writes one.
const docs = `{
  "defaultAction": "SCMP_ACT_ERRNO",
  "defaultErrnoRet": 38,
  "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
  "flags": ["SECCOMP_FILTER_FLAG_TSYNC"],
  "syscalls": [
    { "names": ["execve", "read", "exit_group"], "action": "SCMP_ACT_ALLOW" },
    { "names": ["socket"], "action": "SCMP_ACT_ALLOW", "comment": "local",
      "args": [{ "index": 0, "value": 1, "valueTwo": 0, "op": "SCMP_CMP_EQ" }] },
    { "name": "ptrace", "action": "SCMP_ACT_KILL" }
  ]
}
`

func TestErrorsInDockerProfilesHaveLineAndColumn(t *testing.T) {
	entry := func(e string) string {
		return "{\n\"defaultAction\": \"SCMP_ACT_ERRNO\",\n\"syscalls\": [\n{\"names\":[\"execve\"],\"action\":\"SCMP_ACT_ALLOW\"},\n" + e + "\n]}"
	}
	top := func(e string) string {
		return "{\"defaultAction\": \"SCMP_ACT_ALLOW\",\n" + e + "}"
	}
	arg := func(a string) string {
		return entry(`{"names":["socket"],"action":"SCMP_ACT_ALLOW","args":[` + "\n" + a + "]}")
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "{}", "p.json:1:1: defaultAction is missing"},
		{"cut off", `{"defaultAction": "SCMP_`, "p.json:1:25: the file ends in the middle"},
		{"syntax", "{\n\"defaultAction\" \"x\"}", "p.json:2:17: "},
		{"something after", top(`"syscalls": []`) + "\n{}", "p.json:3:1: there is something after the policy"},
		{"key twice", top("\"flags\": [],\n\"flags\": []"), `p.json:3:1: key "flags" stands there twice`},
		{"nested", top(`"syscalls": ` + strings.Repeat("[", 40) + strings.Repeat("]", 40)), "p.json:2:29: it is nested too deeply"},
		{"unknown key", top(`"syscals": []`), "p.json:2:1: unknown key \"syscals\"\nhint: did you mean \"syscalls\"?"},
		{"key in capitals", top(`"Syscalls": []`), "p.json:2:1: unknown key \"Syscalls\"\nhint: did you mean \"syscalls\"?"},
		{"whole configuration", `{"ociVersion": "1.2.0"}`, "p.json:1:1: this is a whole runtime configuration\nhint: its linux.seccomp"},
		{"unknown default", `{"defaultAction": "SCMP_ACT_ERNO"}`, "p.json:1:19: unknown action \"SCMP_ACT_ERNO\"\nhint: did you mean \"SCMP_ACT_ERRNO\"?"},
		{"unknown architecture", top(`"architectures": ["SCMP_ARCH_X86_46"]`), "p.json:2:19: unknown architecture \"SCMP_ARCH_X86_46\"\nhint: did you mean"},
		{"two lists of architectures", top(`"architectures": ["SCMP_ARCH_X86"], "archMap": [{"architecture": "SCMP_ARCH_X86_64"}]`), "p.json:2:48: architectures and archMap are both there"},
		{"unknown flag", top(`"flags": ["SECCOMP_FILTER_FLAG_TSINC"]`), "p.json:2:11: unknown flag"},
		{"flag that can't be", top(`"flags": ["SECCOMP_FILTER_FLAG_LOG"]`), "p.json:2:11: SECCOMP_FILTER_FLAG_LOG can't be done\nhint: refused calls are named in the report"},
		{"mitigation", top(`"flags": ["SECCOMP_FILTER_FLAG_SPEC_ALLOW"]`), "p.json:2:11: SECCOMP_FILTER_FLAG_SPEC_ALLOW can't be done"},
		{"listener", top(`"listenerPath": "/run/agent"`), "p.json:2:17: a listener can't be given"},
		{"metadata", top(`"listenerMetadata": "x"`), "p.json:2:21: a listener can't be given"},
		{"trace", entry(`{"names":["ptrace"],"action":"SCMP_ACT_TRACE"}`), "p.json:5:30: SCMP_ACT_TRACE can't be done\nhint: it needs a tracer"},
		{"notify", entry(`{"names":["ptrace"],"action":"SCMP_ACT_NOTIFY"}`), "p.json:5:30: SCMP_ACT_NOTIFY can't be done\nhint: it needs an agent"},
		{"trap", entry(`{"names":["ptrace"],"action":"SCMP_ACT_TRAP"}`), "p.json:5:30: SCMP_ACT_TRAP can't be done"},
		{"also where it doesn't apply", entry(`{"names":["ptrace"],"action":"SCMP_ACT_TRAP","includes":{"caps":["CAP_SYS_ADMIN"]}}`), "p.json:5:30: SCMP_ACT_TRAP can't be done"},
		{"no names", entry(`{"action":"SCMP_ACT_ALLOW"}`), "p.json:5:1: an entry needs the names of system calls"},
		{"empty name", entry(`{"names":[""],"action":"SCMP_ACT_ALLOW"}`), "p.json:5:11: a system call has a name"},
		{"two kinds of names", entry(`{"names":["read"],"name":"write","action":"SCMP_ACT_ALLOW"}`), "p.json:5:26: name and names are both there"},
		{"no action", entry(`{"names":["read"]}`), "p.json:5:1: action is missing"},
		{"errno without its action", entry(`{"names":["read"],"action":"SCMP_ACT_ALLOW","errnoRet":1}`), "p.json:5:56: SCMP_ACT_ALLOW gives no errno"},
		{"errno 0", entry(`{"names":["read"],"action":"SCMP_ACT_ERRNO","errnoRet":0}`), "p.json:5:56: errno 0 would answer with success"},
		{"no errno", entry(`{"names":["read"],"action":"SCMP_ACT_ERRNO","errnoRet":4000}`), "p.json:5:56: Linux has no errno 4000"},
		{"errno as a word", entry(`{"names":["read"],"action":"SCMP_ACT_ERRNO","errnoRet":"EPERM"}`), "p.json:5:56: a whole number"},
		{"negative", arg(`{"index":0,"op":"SCMP_CMP_EQ","value":-1}`), "p.json:6:39: a whole number"},
		{"no index", arg(`{"op":"SCMP_CMP_EQ","value":1}`), "p.json:6:1: a condition needs an index and an op"},
		{"bad index", arg(`{"index":6,"op":"SCMP_CMP_EQ","value":1}`), "p.json:6:10: a whole number from 0 to 5"},
		{"unknown op", arg(`{"index":0,"op":"SCMP_CMP_QE","value":1}`), "p.json:6:17: unknown op \"SCMP_CMP_QE\"\nhint: did you mean"},
		{"second value", arg(`{"index":0,"op":"SCMP_CMP_EQ","value":1,"valueTwo":2}`), "p.json:6:52: valueTwo says nothing with SCMP_CMP_EQ"},
		{"unknown key in a condition", arg(`{"index":0,"op":"SCMP_CMP_EQ","valeu":1}`), "p.json:6:31: unknown key \"valeu\"\nhint: did you mean \"value\"?"},
		{"unknown key in a filter", entry(`{"names":["read"],"action":"SCMP_ACT_ALLOW","includes":{"cap":[]}}`), "p.json:5:57: unknown key \"cap\"\nhint: did you mean \"caps\"?"},
		{"no capability", entry(`{"names":["read"],"action":"SCMP_ACT_ALLOW","includes":{"caps":["SYS_ADMIN"]}}`), "p.json:5:65: \"SYS_ADMIN\" is no capability"},
		{"unknown word for an architecture", entry(`{"names":["read"],"action":"SCMP_ACT_ALLOW","includes":{"arches":["x86_64"]}}`), "p.json:5:67: unknown architecture \"x86_64\"\nhint: "},
		{"kernel as a number", entry(`{"names":["read"],"action":"SCMP_ACT_ALLOW","includes":{"minKernel":4.8}}`), "p.json:5:69: \"4.8\" is no kernel version"},
		{"kernel as a list", entry(`{"names":["read"],"action":"SCMP_ACT_ALLOW","includes":{"minKernel":[]}}`), "p.json:5:69: \"\" is no kernel version"},
		{"kernel of three parts", entry(`{"names":["read"],"action":"SCMP_ACT_ALLOW","includes":{"minKernel":"4.8.1"}}`), "p.json:5:69: \"4.8.1\" is no kernel version"},
		{"unknown kernel", entry(`{"names":["read"],"action":"SCMP_ACT_ALLOW","includes":{"minKernel":"4.8"}}`), "p.json:5:69: the entry depends on the kernel's version"},
		{"unknown call that is to be refused", top(`"syscalls":[{"names":["ptrcae"],"action":"SCMP_ACT_ERRNO"}]`),
			"p.json:2:23: unknown system call \"ptrcae\", which can't be refused when the default is to allow\nhint: did you mean \"ptrace\"?"},
		{"execve refused", `{"defaultAction": "SCMP_ACT_ERRNO"}`, "p.json: execve is not allowed, so that no program can start"},
		{"contradiction", entry(`{"names":["socket"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"op":"SCMP_CMP_LT","value":5}]},
{"names":["socket"],"action":"SCMP_ACT_KILL","args":[{"index":1,"op":"SCMP_CMP_EQ","value":3}]}`),
			"p.json:6:1: \"socket\" gets different answers from this entry and from entry 2, and their conditions can hold together"},
	} {
		_, err := Parse([]byte(c.text), "p.json", Target{Arch: "amd64"})
		var pe *seccomp.PolicyError
		if !errors.As(err, &pe) {
			t.Errorf("%s: %v", c.name, err)
		} else if !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s:\n  got  %q\n  want %q", c.name, err, c.want)
		}
	}
	for _, ok := range []string{docs, entry(`{"names":["ptrace"],"action":"SCMP_ACT_KILL","includes":{},"excludes":null,"args":[]}`), top(`"syscalls":null, "comment": "x"`)} {
		if _, err := Parse([]byte(ok), "p.json", Target{Arch: "amd64"}); err != nil {
			t.Errorf("without a mistake: %v\n%s", err, ok)
		}
	}
}

func TestNoticesOfDockerProfiles(t *testing.T) {
	text := `{"defaultAction":"SCMP_ACT_ERRNO",
"archMap":[{"architecture":"SCMP_ARCH_X86_64","subArchitectures":["SCMP_ARCH_X86","SCMP_ARCH_X32"]},
           {"architecture":"SCMP_ARCH_AARCH64","subArchitectures":null}],
"syscalls":[{"names":["execve","opennat","_llseek"],"action":"SCMP_ACT_ALLOW"},
{"names":["ptrace"],"action":"SCMP_ACT_KILL"},
{"names":["socket"],"action":"SCMP_ACT_ALLOW","args":[
 {"index":0,"value":40,"op":"SCMP_CMP_NE"},{"index":0,"value":38,"op":"SCMP_CMP_NE"}]}]}`
	for arch, want := range map[string]string{
		"amd64": "2:67 calls of SCMP_ARCH_X86, SCMP_ARCH_X32 stay refused, as in every policy|",
		"arm64": "",
	} {
		p, err := Parse([]byte(text), "p.json", Target{Arch: arch})
		must.Do(t, err)
		want += `4:32 system call "opennat" is not known and stays refused; did you mean "openat"?|` +
			"6:54 argument 0 is asked about more than once: one of the conditions of this entry is enough, as with runc|" +
			"5:30 SCMP_ACT_KILL ends the whole process here, not one thread of it|"
		got := ""
		for _, n := range p.Notices {
			got += strconv.Itoa(n.Line) + ":" + strconv.Itoa(n.Column) + " " + n.String() + "|"
		}
		if got != want {
			t.Errorf("%s:\n got  %s\n want %s", arch, got, want)
		}
		if v := p.Decide("socket", [6]uint64{40}); v.Do != seccomp.Allow {
			t.Errorf("runc takes two conditions on one argument for alternatives: %s", v)
		}
	}
}

func TestProfilesAreReadForOneMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "docker.json")
	must.Do(t, os.WriteFile(path, []byte(docs), 0o600))
	p, err := Load(path, Target{Arch: "amd64"})
	must.Do(t, err)
	laid, err := p.With(seccomp.SharedPIDs)
	if err != nil || laid.Kind != "file" || laid.Version != "docker.json+shared-pids/2" {
		t.Errorf("%+v, %v", laid, err)
	}
	if v := laid.Decide("ptrace", [6]uint64{}); v.Rule != "shared-pids" {
		t.Errorf("the addition comes first: %+v", v)
	}
	if _, err := p.Compile(seccomp.ActionErrno, "arm64"); err == nil || !strings.Contains(err.Error(), "was read for amd64") {
		t.Errorf("for another architecture: %v", err)
	}
	if _, err := Parse([]byte(docs), "p.json", Target{Arch: "riscv64"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("for none of ours: %v", err)
	}
}

// Entries that can't hold together may say different things, and only those.
func TestConditionsThatExcludeEachOther(t *testing.T) {
	cond := func(op seccomp.Op, v uint64, mask ...uint64) seccomp.Cond {
		c := seccomp.Cond{Width: 64, Op: op, Values: []uint64{v}}
		if len(mask) > 0 {
			c.Mask = mask[0]
		}
		return c
	}
	const most = ^uint64(0)
	for _, c := range []struct {
		a, b seccomp.Cond
		want bool
	}{
		{cond(seccomp.Eq, 1), cond(seccomp.Eq, 2), true}, {cond(seccomp.Eq, 1), cond(seccomp.Eq, 1), false},
		{cond(seccomp.Eq, 1), cond(seccomp.Ne, 1), true}, {cond(seccomp.Eq, 1), cond(seccomp.Ne, 2), false}, {cond(seccomp.Ne, 1), cond(seccomp.Ne, 1), false},
		{cond(seccomp.Lt, 5), cond(seccomp.Ge, 5), true}, {cond(seccomp.Lt, 5), cond(seccomp.Eq, 5), true}, {cond(seccomp.Lt, 5), cond(seccomp.Eq, 4), false},
		{cond(seccomp.Le, 5), cond(seccomp.Gt, 5), true}, {cond(seccomp.Le, 5), cond(seccomp.Ge, 5), false}, {cond(seccomp.Gt, 4), cond(seccomp.Eq, 5), false},
		{cond(seccomp.Lt, 0), cond(seccomp.Ge, 0), true}, {cond(seccomp.Gt, most), cond(seccomp.Le, most), true},
		{cond(seccomp.Eq, 1, 3), cond(seccomp.Eq, 2, 3), true}, {cond(seccomp.Eq, 1, 3), cond(seccomp.Eq, 4, 12), false},
		{cond(seccomp.Eq, 1, 3), cond(seccomp.Eq, 6), true}, {cond(seccomp.Eq, 1, 3), cond(seccomp.Eq, 5), false},
		{cond(seccomp.Eq, 1, 3), cond(seccomp.Lt, 1), false}, {cond(seccomp.Eq, 1, 3), cond(seccomp.Ne, 1), false},
	} {
		for _, got := range []bool{exclude(c.a, c.b), exclude(c.b, c.a)} {
			if got != c.want {
				t.Errorf("%s and %s: %v", c.a.Words(""), c.b.Words(""), got)
			}
		}
	}
	one := cond(seccomp.Eq, 2)
	one.Index = 1
	if apart([]seccomp.Cond{cond(seccomp.Eq, 1)}, []seccomp.Cond{one}) || !apart([]seccomp.Cond{one, cond(seccomp.Eq, 1)}, []seccomp.Cond{cond(seccomp.Eq, 2)}) {
		t.Error("conditions on different arguments exclude nothing")
	}
}
