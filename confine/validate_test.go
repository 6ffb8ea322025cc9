package confine

import (
	"os"
	"strings"
	"testing"
)

var here = place{dir: "/work/dir", home: "/home/u"}

// canonCase is one word and its canonical form; "!text" is an error that has
// text in it.
type canonCase struct{ in, want string }

func tryCanonical(t *testing.T, option string, base place, cases []canonCase) {
	t.Helper()
	o := LookupOption(option)
	for _, c := range cases {
		got, err := o.canonical(base, c.in)
		if text, bad := strings.CutPrefix(c.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s %q: %q, %v; want an error with %q", option, c.in, got, err, text)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s %q = %q, %v; want %q", option, c.in, got, err, c.want)
			continue
		}
		if again, err := o.canonical(place{}, got); err != nil || again != got {
			t.Errorf("%s: the canonical %q becomes %q, %v", option, got, again, err)
		}
	}
}

func TestPaths(t *testing.T) {
	tryCanonical(t, "allow-read", here, []canonCase{
		{"/a/b", "/a/b"},
		{"/a/b/", "/a/b"},
		{"//a/./b/../c", "/a/c"},
		{"/", "/"},
		{"x", "/work/dir/x"},
		{".", "/work/dir"},
		{"..", "/work"},
		{"a b", "/work/dir/a b"},
		{"$HOME/x", "/work/dir/$HOME/x"},
		{"~", "/home/u"},
		{"~/x", "/home/u/x"},
		{"~/../v", "/home/v"},
		{"./~x", "/work/dir/~x"},
		{"a\xffb", "/work/dir/a\xffb"},
		{"~x", "!another user"},
		{"", "!empty"},
		{"a\x00b", "!NUL"},
	})
	tryCanonical(t, "allow-read", place{}, []canonCase{
		{"/a", "/a"},
		{"a", "!no current directory"},
		{"~/a", "!home directory"},
	})
}

func TestGlobs(t *testing.T) {
	tryCanonical(t, "deny", here, []canonCase{
		{"/etc/*", "/etc/*"},
		{"*.pem", "/work/dir/*.pem"},
		{"**/.env", "/work/dir/**/.env"},
		{"~/.ssh", "/home/u/.ssh"},
		{"/x/[a-z]?", "/x/[a-z]?"},
		{"/x/[a", "!not a valid pattern"},
		{"/x/{a", "!not a valid pattern"},
		{"", "!empty"},
	})
	// A folder's own name is no pattern.
	tryCanonical(t, "deny", place{dir: "/p[1]/a*"}, []canonCase{{"*.pem", `/p\[1\]/a\*/*.pem`}})
}

func TestAWordNearSecretsIsNoSilentPath(t *testing.T) {
	dir := t.TempDir()
	base := place{dir: dir, home: "/home/u"}
	missing := []string{"secret", "Secret", "Secrets", "SECRETS", "sercets", "secrtes"}
	for _, word := range missing {
		tryCanonical(t, "deny", base, []canonCase{{word, `!did you mean "secrets"?`}, {"./" + word, dir + "/" + word}, {dir + "/" + word, dir + "/" + word}})
	}
	tryCanonical(t, "deny", base, []canonCase{
		{"secrets", "secrets"}, {"secret*", dir + "/secret*"}, {".secrets", dir + "/.secrets"}, {"secrets.db", dir + "/secrets.db"},
		{"secret2", dir + "/secret2"}, {"build", dir + "/build"}, {"sec", dir + "/sec"},
	})
	// A file of that name is meant, and so is a link that leads nowhere.
	if err := os.WriteFile(dir+"/secret", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tryCanonical(t, "deny", base, []canonCase{{"secret", dir + "/secret"}, {"sercets", "!did you mean"}})
}

func TestMounts(t *testing.T) {
	tryCanonical(t, "mount", here, []canonCase{
		{"/a:/b", "/a:/b:ro"},
		{"/a:/b:ro", "/a:/b:ro"},
		{"/a:/b:rw", "/a:/b:rw"},
		{"/a:/b:overlay", "/a:/b:overlay"},
		{"a:/b/", "/work/dir/a:/b:ro"},
		{"~/a:/b", "/home/u/a:/b:ro"},
		{"/a:b:/c:rw", "/a:b:/c:rw"},
		{"tmpfs:/b:64M", "tmpfs:/b:64M"},
		{"tmpfs:/b/../c/:4096", "tmpfs:/c:4K"},
		{"tmpfs:/b", "/work/dir/tmpfs:/b:ro"},
		{"tmpfs:/b:ro", "/work/dir/tmpfs:/b:ro"},
		{"./tmpfs:/b", "/work/dir/tmpfs:/b:ro"},
		{"/tmpfs:/b:64M", "!unknown mode"},
		{"tmpfs:/a:/b:64M", "!unknown mode"},
		{"tmpfs:/b:0", "!is zero"},
		{"tmpfs:/b:10", "!the least is"},
		{"tmpfs:/b:9X", "!"},
		{"tmpfs:/:64M", "!--rootfs"},
		{"/a:/b:rx", `!unknown mode "rx", did you mean "ro"?`},
		{"/a", "!no destination"},
		{"/a:b", "!not absolute"},
		{"/a:b:rw", "!not absolute"},
		{":/b", "!no source"},
		{"/a:", "!not absolute"},
		{"/a:/", "!--rootfs"},
		{"/a:/b/..", "!--rootfs"},
		{"~x:/b", "!another user"},
		{"", "!no destination"},
		{"/a:/b\x00:rw", "!NUL"},
	})
}

func TestProtectedPaths(t *testing.T) {
	tryCanonical(t, "protect", here, []canonCase{
		{".git/hooks", ".git/hooks"}, {"a/../b/", "b"},
		{"~/bin/", "~/bin"}, {"~x/a", "~x/a"}, {"~", "!below the home"}, {"~/", "!below the home"}, {"~/../x", "!below the home"},
		{"/etc", "!below a tree"}, {"..", "!below a tree"}, {"../x", "!below a tree"}, {"", "!below a tree"}, {".", "!below a tree"},
	})
}

func TestSinks(t *testing.T) {
	tryCanonical(t, "report", here, []canonCase{
		{"out.json", "/work/dir/out.json"}, {"/x", "/x"}, {"fd:3", "fd:3"}, {"fd:1", "fd:1"}, {"fd:03", "fd:3"},
		{"fd:0", "!no descriptor"}, {"fd:-1", "!no descriptor"}, {"fd:", "!no descriptor"}, {"fd:x", "!no descriptor"}, {"fd:99999999999", "!no descriptor"},
	})
}

func TestSeccompWords(t *testing.T) {
	tryCanonical(t, "seccomp", here, []canonCase{
		{"off", "off"}, {"default", "default"}, {"strict", "strict"},
		{"./mine", "/work/dir/mine"}, {"mine.toml", "/work/dir/mine.toml"}, {"/a/mine", "/a/mine"},
		{"strickt", `!did you mean "strict"?`}, {"mine", "!is not known"}, {"", "!is not known"},
	})
}

func TestClosedSets(t *testing.T) {
	tryCanonical(t, "workdir", here, []canonCase{
		{"none", "none"}, {"ro", "ro"}, {"rw", "rw"}, {"overlay", "overlay"}, {"overlai", `!did you mean "overlay"?`}, {"", "!it takes"},
	})
	tryCanonical(t, "seccomp-action", here, []canonCase{{"errno", "errno"}, {"kill", "kill"}, {"log", "log"}, {"kil", `!"kill"`}})
	tryCanonical(t, "isolation", here, []canonCase{{"process", "process"}, {"wasm", "wasm"}, {"vm", "vm"}, {"wm", `!"vm"`}})
	tryCanonical(t, "tty", here, []canonCase{{"auto", "auto"}, {"ever", `!"never"`}})
}

func TestLimits(t *testing.T) {
	tryCanonical(t, "time-limit", here, []canonCase{{"1.5m", "90s"}, {"none", "none"}, {"None", "none"}, {"0", "!is zero"}, {"10y", `!"100ms"`}})
	tryCanonical(t, "grace", here, []canonCase{{"0", "none"}, {"0s", "none"}, {"2s", "2s"}, {"-1", "!negative"}})
	tryCanonical(t, "memory-limit", here, []canonCase{{"0.5G", "512M"}, {"none", "none"}, {"0", "!is zero"}, {"5X", "!1024-based"}})
	tryCanonical(t, "cpu-limit", here, []canonCase{{"50", "50%"}, {"50%", "50%"}, {"250", "250%"}, {"none", "none"}, {"50%%", "!not a number"}, {"1.5", "!whole"}, {"3000000000", "!too large"}})
	tryCanonical(t, "cpus", here, []canonCase{{"2", "2"}, {"none", "none"}, {"1.5", "!whole"}, {"3000000000", "!too large"}})
	tryCanonical(t, "processes", here, []canonCase{{"3000000000", "3000000000"}, {"0", "!is zero"}, {"-1", "!negative"}})
	tryCanonical(t, "keep-env", here, []canonCase{{"yes", "true"}, {"0", "false"}, {"maybe", "!neither"}})
}

func TestNames(t *testing.T) {
	tryCanonical(t, "allow-partial", here, []canonCase{
		{"memory", "memory"}, {"all", "all"}, {"cpu-rate", "cpu_rate"}, {"Memory", "memory"},
		{"seccomp", "syscalls"}, {"time-limit", "wall_time"}, {"pids", "tasks"},
		{"memmory", `!did you mean "memory"?`}, {"zzz", "!they are containment"}, {"", "!is no capability"}, {"memory=x", "!is no capability"},
	})
	tryCanonical(t, "require", here, []canonCase{
		{"memory", "memory"}, {"memory=cgroup v2", "memory=cgroup v2"}, {"mem = memory.max ", "!is no capability"}, {"mem= memory.max ", "memory=memory.max"},
		{"memory=", "!no mechanism"}, {"all", "!is no capability"}, {"=x", "!is no capability"},
	})
	tryCanonical(t, "env", here, []canonCase{
		{"PATH", "PATH"}, {"_x1", "_x1"}, {"LC_*", "LC_*"}, {"*", "!--keep-env"}, {"", "!not the name"}, {"1A", "!not the name"}, {"A B", "!not the name"}, {"A*B", "!not the name"},
	})
	tryCanonical(t, "env-set", here, []canonCase{
		{"A=", "A="}, {"A=b=c", "A=b=c"}, {"A=\n", "A=\n"}, {"A", "!no value"}, {"=x", "!not the name"}, {"A-B=x", "!not the name"}, {"A=\x00", "!NUL"},
	})
	tryCanonical(t, "user", here, []canonCase{
		{"1000", "1000:1000"}, {"1000:100", "1000:100"}, {"0", "0:0"},
		{"4294967295", "!not a user"}, {"1:4294967295", "!not a user"}, {"root", "!not a user"}, {"1:", "!not a user"}, {":1", "!not a user"}, {"-1", "!not a user"}, {"1:2:3", "!not a user"},
	})
	tryCanonical(t, "profile", here, []canonCase{{"ci-1_a", "ci-1_a"}, {"", "!not a profile"}, {"none", "!not a profile"}, {"a b", "!not a profile"}, {"../x", "!not a profile"}})
}

// Each capability, alias and option name that stands for one leads to one that exists.
func TestEveryAliasIsACapability(t *testing.T) {
	known := strings.Join(Capabilities(), " ") + " "
	for _, a := range aliases {
		if !strings.Contains(known, string(a.is)+" ") {
			t.Errorf("alias %q leads to %q", a.name, a.is)
		}
		if strings.Contains(" "+known, " "+a.name+" ") {
			t.Errorf("alias %q hides a capability", a.name)
		}
	}
}
