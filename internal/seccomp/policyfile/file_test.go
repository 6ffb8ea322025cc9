package policyfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/seccomp"
)

func TestErrorsInPolicyFilesHaveLineAndColumn(t *testing.T) {
	const ok = "[[rules]]\nnames = [\"execve\"]\naction = \"allow\"\n"
	for _, c := range []struct{ name, text, want string }{
		{"syntax", "default_action = \n", "p.toml:1:"},
		{"wrong type", "default_action = 7\n", "p.toml:1:18: "},
		{"unknown key at the top", "defualt_action = \"allow\"\n",
			"p.toml:1:1: unknown key \"defualt_action\"\nhint: did you mean \"default_action\"?"},
		{"unknown key in a rule", ok + "\n[[rules]]\nname = [\"read\"]\n",
			"p.toml:6:1: unknown key \"name\"\nhint: did you mean \"names\"?"},
		{"unknown key in a condition", ok + "args = [{ indx = 1 }]\n",
			"p.toml:4:11: unknown key \"indx\"\nhint: did you mean \"index\"?"},
		{"key twice", "extends = \"default\"\nextends = \"strict\"\n", "p.toml:2:"},
		{"unknown base", "extends = \"strikt\"\n", "p.toml:1:11: there is no policy \"strikt\" to extend\nhint: did you mean \"strict\"?"},
		{"unknown default action", "default_action = \"alow\"\n", "p.toml:1:18: unknown action \"alow\"\nhint: did you mean \"allow\"?"},
		{"errno of a default that gives none", "default_action = \"kill\"\ndefault_errno = \"EIO\"\n", "p.toml:2:17: default_errno says nothing"},
		{"unknown errno of the default", "default_action = \"errno\"\ndefault_errno = \"EROSF\"\n", "p.toml:2:17: unknown errno \"EROSF\"\nhint: did you mean \"EROFS\"?"},
		{"unknown action", ok + "[[rules]]\nnames = [\"read\"]\naction = \"kil\"\n", "p.toml:6:10: unknown action \"kil\"\nhint: did you mean \"kill\"?"},
		{"no action", ok + "[[rules]]\nnames = [\"read\"]\n", "p.toml:4:3: a rule needs an action"},
		{"no names", ok + "[[rules]]\naction = \"allow\"\n", "p.toml:4:3: a rule needs the names of system calls"},
		{"unknown call", ok + "[[rules]]\naction = \"allow\"\nnames = [\n  \"read\", # one\n  \"opennat\",\n]\n",
			"p.toml:8:3: unknown system call \"opennat\"\nhint: did you mean \"openat\"?"},
		{"call twice", ok + "[[rules]]\naction = \"allow\"\nnames = [\"read\", \"read\"]\n", "p.toml:6:18: \"read\" stands in this rule twice"},
		{"unknown errno", ok + "[[rules]]\nnames = [\"read\"]\naction = \"errno\"\nerrno = \"ENOSY\"\n", "p.toml:7:9: unknown errno \"ENOSY\"\nhint: did you mean \"ENOSYS\"?"},
		{"errno without its action", ok + "errno = \"ENOSYS\"\n", "p.toml:4:9: action \"allow\" gives no errno"},
		{"unknown op", ok + "[[rules]]\nnames = [\"read\"]\naction = \"deny\"\nargs = [{ index = 0, width = 32, op = \"equal\", value = 1 }]\n",
			"p.toml:7:39: unknown op \"equal\""},
		{"no width", ok + "args = [{ index = 0, op = \"eq\", value = 1 }]\n", "p.toml:4:9: a condition needs a width"},
		{"bad width", ok + "args = [{ index = 0, op = \"eq\", value = 1, width = 16 }]\n", "p.toml:4:52: width is 32 or 64"},
		{"no index", ok + "args = [{ op = \"eq\", value = 1, width = 32 }]\n", "p.toml:4:9: a condition needs an index"},
		{"bad index", ok + "args = [{ index = 6, op = \"eq\", value = 1, width = 32 }]\n", "p.toml:4:19: a system call has the arguments 0 to 5"},
		{"value too wide", ok + "args = [{ index = 0, op = \"eq\", value = 0x100000000, width = 32 }]\n", "p.toml:4:41: 0x100000000 has more than 32 bits"},
		{"value outside the mask", ok + "args = [{ index = 0, op = \"eq\", value = 4, mask = 3, width = 32 }]\n", "p.toml:4:41: 0x4 has bits outside of the mask 0x3"},
		{"mask of nothing", ok + "args = [{ index = 0, op = \"eq\", value = 0, mask = 0, width = 32 }]\n", "p.toml:4:51: a mask of 0 compares nothing"},
		{"negative value", ok + "args = [{ index = 0, op = \"eq\", value = -1, width = 32 }]\n", "p.toml:4:41: -1 is negative, and arguments are compared without sign\nhint: 0xffffffff in 32 bits"},
		{"unknown constant", ok + "args = [{ index = 0, op = \"in\", values = [1, \"AF_UNIXX\"], width = 32 }]\n", "p.toml:4:46: unknown value \"AF_UNIXX\"\nhint: did you mean \"AF_UNIX\"?"},
		{"value where there are several", ok + "args = [{ index = 0, op = \"in\", value = 1, width = 32 }]\n", "p.toml:4:9: op \"in\" takes values"},
		{"values where there is one", ok + "args = [{ index = 0, op = \"eq\", values = [1], width = 32 }]\n", "p.toml:4:9: op \"eq\" takes one value"},
		{"a fraction", ok + "args = [{ index = 0, op = \"eq\", value = 1.5, width = 32 }]\n", "p.toml:4:41: a value is a whole number or a string"},
		{"sub-tables", ok + "[[rules]]\nnames = [\"read\"]\naction = \"deny\"\n[[rules.args]]\nindex = 9\n", "p.toml:8:9: a system call has the arguments 0 to 5"},
		{"execve denied", "default_action = \"errno\"\n", "p.toml: execve is not allowed, so that no program can start\nhint: allow it"},
		{"execve killed after extending", "extends = \"default\"\n[[rules]]\nnames = [\"execve\"]\naction = \"kill\"\n", "p.toml: execve is not allowed"},
		{"execve allowed on a condition only", "[[rules]]\nnames = [\"execve\"]\naction = \"allow\"\nargs = [{ index = 0, op = \"eq\", value = 0, width = 64 }]\n", "p.toml: execve is not allowed"},
	} {
		_, err := Parse([]byte(c.text), "p.toml", Target{})
		var pe *seccomp.PolicyError
		if !errors.As(err, &pe) {
			t.Errorf("%s: %v", c.name, err)
		} else if !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s:\n  got  %q\n  want %q", c.name, err, c.want)
		}
	}
	if _, err := Parse([]byte(ok), "p.toml", Target{}); err != nil {
		t.Errorf("without the mistake: %v", err)
	}
}

func TestFilePolicies(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mine.toml")
	text := `
extends = "default"
[[rules]]
rule = "no-unlink"
names = ["unlink", "unlinkat"]
action = "errno"
errno = "EROFS"
[[rules]]
names = ["keyctl"]
action = "allow"
`
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	p, err := Load(path, Target{})
	must.Do(t, err)
	for call, want := range map[string]string{
		"unlinkat": "errno EROFS no-unlink", "keyctl": "allow rule 2", "bpf": "refuse bpf", "read": "allow files",
		"made_up": "errno ENOSYS unknown",
	} {
		if v := p.Decide(call, [6]uint64{}); v.String()+" "+v.Rule != want {
			t.Errorf("%s: %s by %s, want %s", call, v, v.Rule, want)
		}
	}
	if p.Kind != "file" || p.Version != "mine.toml" || !IsFile(path) {
		t.Errorf("%s %s", p.Kind, p.Version)
	}
	if _, err := Load(filepath.Join(dir, "none"), Target{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := Load(dir, Target{}); err == nil {
		t.Error("a directory was taken for a policy")
	}
}

func TestPrintedPoliciesAreTheSamePolicy(t *testing.T) {
	laid, err := seccomp.Builtin("strict").With(seccomp.Network, seccomp.SharedPIDs, seccomp.SupervisedNetwork, seccomp.WatchedFiles)
	must.Do(t, err)
	odd, err := Parse([]byte("[[rules]]\nrule = \"a\\\"b\\n\"\nnames = [\"execve\"]\naction = \"allow\"\nreason = \"ü\\u0007\\\\\"\n"+
		"[[rules]]\nnames = [\"read\"]\naction = \"log\"\nargs = [{ index = 1, op = \"ge\", width = 64, value = \"0xfffffffffffffffe\", mask = \"0xfffffffffffffffe\" }]\n"),
		"odd\nname.toml", Target{})
	must.Do(t, err)
	errno, err := Parse([]byte("default_action = \"errno\"\ndefault_errno = \"EHWPOISON\"\n[[rules]]\nrule = \"x\"\nnames = [\"execve\"]\naction = \"allow\"\n"), "e.toml", Target{})
	if err != nil || errno.Default.Errno != 133 {
		t.Fatal(err)
	}
	for _, p := range []*seccomp.Policy{seccomp.Builtin("default"), seccomp.Builtin("strict"), laid, odd, errno} {
		text := p.TOML()
		q, err := Parse([]byte(text), "printed.toml", Target{})
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		if !reflect.DeepEqual(q.Rules, p.Rules) || q.Default != p.Default || q.Digest() != p.Digest() {
			t.Errorf("%s changes when it is printed and read:\n%s", p.Version, text)
		}
	}
	if text := seccomp.Builtin("default").TOML(); !strings.Contains(text, `values = ["TIOCSTI", "TIOCLINUX"], width = 32`) ||
		!strings.Contains(text, `mask = "CLONE_NEWNS|`) {
		t.Error("values are not printed by name")
	}
}

func TestDigestIsOfWhatIsDecided(t *testing.T) {
	digest := func(text string) string {
		p, err := Parse([]byte(text), "p.toml", Target{})
		must.Do(t, err)
		return p.Digest()
	}
	base := digest("[[rules]]\nnames = [\"execve\", \"read\"]\naction = \"allow\"\n")
	if base != digest("# words\ndefault_action = 'deny'\n[[rules]]\nreason = \"…\"\nrule = \"x\"\naction = \"allow\"\nnames = [\"read\", \"execve\"]\n") {
		t.Error("words or order change the digest")
	}
	for _, other := range []string{
		"[[rules]]\nnames = [\"execve\"]\naction = \"allow\"\n",
		"default_action = \"kill\"\n[[rules]]\nnames = [\"execve\", \"read\"]\naction = \"allow\"\n",
		"[[rules]]\nnames = [\"execve\", \"read\"]\naction = \"log\"\n",
		"[[rules]]\nnames = [\"read\"]\naction = \"deny\"\nargs = [{ index = 0, op = \"eq\", value = 1, width = 32 }]\n[[rules]]\nnames = [\"execve\", \"read\"]\naction = \"allow\"\n",
	} {
		if digest(other) == base {
			t.Errorf("another policy has the same digest:\n%s", other)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"default-3", "strict-2", "no-network-1"} {
		text, err := os.ReadFile("../data/" + name + ".toml")
		must.Do(f, err)
		f.Add(text)
	}
	f.Add([]byte("extends = \"strict\"\n[[rules]]\nnames = [\"read\"]\naction = \"errno\"\nerrno = \"EIO\"\n[[rules.args]]\nindex = 0\nop = \"not_in\"\nvalues = [1, \"AF_UNIX\"]\nmask = 0xff\nwidth = 64\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text, "f.toml", Target{})
		if err != nil {
			var pe *seccomp.PolicyError
			if !errors.As(err, &pe) {
				t.Fatalf("%v", err)
			}
			if pe.Line > strings.Count(string(text), "\n")+1 {
				t.Fatalf("line %d is not in the file", pe.Line)
			}
			return
		}
		q, err := Parse([]byte(p.TOML()), "f.toml", Target{})
		if err != nil || q.Digest() != p.Digest() {
			t.Fatalf("printed and read again: %v\n%s", err, p.TOML())
		}
		if _, err := p.Compile(seccomp.ActionErrno, "amd64"); err != nil {
			if _, ok := errors.AsType[*seccomp.SizeError](err); !ok {
				t.Fatal(err)
			}
		}
	})
}

// TestShippedPoliciesAreThoseOfTheData: what was generated is what the files say.
func TestShippedPoliciesAreThoseOfTheData(t *testing.T) {
	files, err := filepath.Glob("../data/*.toml")
	if err != nil || len(files) != 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		p, err := Load(file, Target{})
		must.Do(t, err)
		version := strings.TrimSuffix(filepath.Base(file), ".toml")
		name, n := version[:strings.LastIndex(version, "-")], version[strings.LastIndex(version, "-")+1:]
		rules := seccomp.Addition(name + "/" + n).Rules()
		if made := seccomp.Builtin(name); made != nil && made.Version == name+"/"+n && made.Default == p.Default {
			rules = made.Rules
		}
		if !reflect.DeepEqual(rules, p.Rules) {
			t.Errorf("%s is not what was generated from it: go generate", file)
		}
	}
}
