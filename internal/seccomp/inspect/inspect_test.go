package inspect

import (
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/seccomp"
	"github.com/confine-run/confine/internal/seccomp/policyfile"
)

func policy(t *testing.T, text string) *seccomp.Policy {
	t.Helper()
	name := "p.toml"
	if strings.HasPrefix(text, "{") {
		name = "p.json"
	}
	p, err := policyfile.Parse([]byte(text), name, policyfile.Target{Arch: "amd64", Kernel: policyfile.Kernel{Major: 6, Minor: 1}})
	must.Do(t, err)
	return p
}

// What ships denies nothing that is needed and lets nothing through that is
// dangerous, on both architectures and under each action.
func TestWhatShipsHasNoWarnings(t *testing.T) {
	for _, name := range []string{"default", "strict"} {
		for _, arch := range []string{"amd64", "arm64"} {
			for _, a := range []seccomp.Action{seccomp.ActionErrno, seccomp.ActionKill, seccomp.ActionLog} {
				found, err := Check(seccomp.Builtin(name), a, arch)
				must.Do(t, err)
				for _, f := range found {
					if f.Level == Warning {
						t.Errorf("%s %s %s: %+v", name, arch, a, f)
					}
				}
			}
		}
	}
}

// Every attempt of the tables is noticed in a policy that says the contrary.
func TestEveryAttemptIsNoticed(t *testing.T) {
	open := policy(t, "default_action = \"allow\"\n")
	closed := policy(t, "[[rules]]\nnames = [\"execve\"]\naction = \"allow\"\n")
	for _, arch := range []string{"amd64", "arm64"} {
		allowed, err := Check(open, seccomp.ActionErrno, arch)
		must.Do(t, err)
		denied, err := Check(closed, seccomp.ActionErrno, arch)
		must.Do(t, err)
		tab, _ := seccomp.TableOf(arch)
		has := func(found []Finding, try attempt) bool {
			_, there := tab.Number(try.call)
			return !there || slices.ContainsFunc(found, func(f Finding) bool { return f.What == try.words(tab) })
		}
		for _, try := range slices.Concat(dangerous[:], namespaces[:], worthKnowing[:]) {
			if try.plain() == try.args && !has(allowed, try) {
				t.Errorf("%s: %s %#x is let through and nobody says so", arch, try.call, try.args)
			}
		}
		for _, try := range needed {
			if try.call != "execve" && !has(denied, try) {
				t.Errorf("%s: %s %#x is denied and nobody says so", arch, try.call, try.args)
			}
			if !seccomp.Known(try.call) {
				t.Errorf("there is no call %s", try.call)
			}
		}
		if !slices.ContainsFunc(allowed, func(f Finding) bool { return f.Level == Note && strings.Contains(f.What, "newer") }) {
			t.Error("that newer calls are let through is not said")
		}
	}
}

// A comparison of 64 bits where the kernel takes an int is one that can be dodged.
func TestDodgedComparisonsAreNoticed(t *testing.T) {
	const exact = `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
	 {"names":["socket"],"action":"SCMP_ACT_ERRNO","args":[{"index":0,"op":"SCMP_CMP_EQ","value":40}]}]}`
	for _, c := range []struct {
		text         string
		plain, dodge bool
	}{
		{exact, false, true},
		{"extends = \"default\"\n", false, false},
		{"default_action = \"allow\"\n", true, false}, // not needed
	} {
		found, err := Check(policy(t, c.text), seccomp.ActionErrno, "amd64")
		must.Do(t, err)
		plain := slices.ContainsFunc(found, func(f Finding) bool { return f.What == "socket(AF_VSOCK, SOCK_STREAM, 0)" })
		dodge := slices.ContainsFunc(found, func(f Finding) bool {
			return f.What == "socket(AF_VSOCK, SOCK_STREAM, 0) with arg 0 = 0x100000028"
		})
		if plain != c.plain || dodge != c.dodge {
			t.Errorf("%s: AF_VSOCK %v, dodged %v\n%+v", c.text, plain, dodge, found)
		}
	}
}

func TestListing(t *testing.T) {
	l, err := List(seccomp.Builtin("default"), seccomp.ActionKill, "amd64")
	must.Do(t, err)
	call := func(name string) Call {
		i := slices.IndexFunc(l.Calls, func(c Call) bool { return c.Name == name })
		if i < 0 {
			t.Fatalf("%s is missing", name)
		}
		return l.Calls[i]
	}
	if c := call("read"); c.Number != 0 || len(c.Cases) != 1 || c.Cases[0].Verdict != "allow" || c.Cases[0].Rule != "files" {
		t.Errorf("%+v", c)
	}
	if c := call("bpf"); c.Cases[0].Verdict != "kill" || c.Cases[0].Reason == "" {
		t.Errorf("%+v", c)
	}
	if c := call("ioctl"); len(c.Cases) < 2 || c.Cases[0].Conditions[0] != "arg 1 is TIOCSTI or TIOCLINUX" {
		t.Errorf("%+v", c)
	}
	if l.Newer.Verdict != "errno ENOSYS" || l.Foreign.Verdict != "kill" || l.Instructions < 100 || !strings.HasPrefix(l.Digest, "sha256:") {
		t.Errorf("%+v %+v %d", l.Newer, l.Foreign, l.Instructions)
	}
	if l, err = List(seccomp.Builtin("default"), seccomp.ActionErrno, "arm64"); err != nil || slices.ContainsFunc(l.Calls, func(c Call) bool { return c.Name == "open" }) {
		t.Errorf("open is none of arm64's: %v", err)
	}
}

func TestComparing(t *testing.T) {
	base := "[[rules]]\nnames = [\"execve\", \"read\", \"chmod\"]\naction = \"allow\"\n"
	cond := func(action, value string) string {
		return "[[rules]]\nnames = [\"socket\"]\naction = \"" + action + "\"\nargs = [{ index = 0, op = " + value + ", width = 32 }]\n"
	}
	for _, c := range []struct {
		name, before, after string
		want                string // call kind
		example             string
	}{
		{"nothing", base, "# words\n" + base, "", ""},
		{"reasons and names", base, base + "\n[[rules]]\nrule = \"x\"\nnames = [\"write\"]\naction = \"deny\"\n", "", ""},
		{"allowed", base, base + "\n[[rules]]\nnames = [\"write\"]\naction = \"allow\"\n", "write allowed", ""},
		{"refused", base + "\n[[rules]]\nnames = [\"write\"]\naction = \"allow\"\n", base, "write refused", ""},
		{"another errno", base, base + "[[rules]]\nnames = [\"write\"]\naction = \"errno\"\nerrno = \"EIO\"\n", "write otherwise", ""},
		{"allowed sometimes", base, base + cond("allow", "\"eq\", value = 1"), "socket allowed", "socket(AF_UNIX, 0, 0) arg0=0x1: errno EPERM, then allow"},
		{"wider", base + cond("allow", "\"eq\", value = 1"), base + cond("allow", "\"in\", values = [1, 2]"), "socket wider", "socket(AF_INET, 0, 0) arg0=0x2: errno EPERM, then allow"},
		{"narrower", base + cond("allow", "\"in\", values = [1, 2]"), base + cond("allow", "\"eq\", value = 1"), "socket narrower", "socket(AF_INET, 0, 0) arg0=0x2: allow, then errno EPERM"},
		{"other values", base + cond("allow", "\"eq\", value = 2"), base + cond("allow", "\"eq\", value = 1"), "socket otherwise", ""},
		{"rewritten", base + cond("allow", "\"eq\", value = 1"), base + cond("allow", "\"in\", values = [1]"), "", ""},
		{"written as a range", base + cond("allow", "\"le\", value = 1"), base + cond("allow", "\"lt\", value = 2"), "socket rewritten", ""},
		{"newer calls", "default_action = \"errno\"\n" + base, "default_action = \"errno\"\ndefault_errno = \"EIO\"\n" + base, "…", ""},
	} {
		d, err := Compare(policy(t, c.before), policy(t, c.after), seccomp.ActionErrno, "amd64")
		must.Do(t, err)
		got, example := "", ""
		for _, change := range d.Changes {
			got += change.Call + " " + string(change.Kind)
			example = change.Example
		}
		if c.want == "…" {
			if len(d.Changes) < 300 {
				t.Errorf("%s: %d changes", c.name, len(d.Changes))
			}
			continue
		}
		if got != c.want || c.example != "" && example != c.example {
			t.Errorf("%s: %q %q", c.name, got, example)
		}
	}
	open, closed := policy(t, "default_action = \"allow\"\n"), policy(t, base)
	d, err := Compare(closed, open, seccomp.ActionErrno, "arm64")
	if err != nil || d.Changes[len(d.Changes)-1].Call != "(newer calls)" || d.Changes[len(d.Changes)-1].Kind != Allowed {
		t.Errorf("%v", err)
	}
}

func TestMerging(t *testing.T) {
	one := []Finding{{Level: Note, What: "a", Arches: []string{"amd64"}}, {Level: Warning, What: "b", Arches: []string{"amd64"}}}
	two := []Finding{{Level: Warning, What: "b", Arches: []string{"arm64"}}, {Level: Warning, What: "c", Arches: []string{"arm64"}}}
	got := ""
	for _, f := range Merge(one, two) {
		got += f.What + strings.Join(f.Arches, "+") + " "
	}
	if got != "bamd64+arm64 carm64 aamd64 " {
		t.Error(got)
	}
}
