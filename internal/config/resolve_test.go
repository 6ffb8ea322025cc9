package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

func tempFile(t *testing.T, text string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), fileName), text)
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func flag(name string, values ...string) Setting { return Setting{Option: name, Values: values} }

// home is a home directory with nothing in it, and a current directory below.
func home(t *testing.T) Sources {
	t.Helper()
	h, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	dir := filepath.Join(h, "project", "sub")
	must.Do(t, os.MkdirAll(dir, 0o755))
	return Sources{Dir: dir, Home: h, UID: os.Getuid(), SystemFile: filepath.Join(h, "etc", fileName)}
}

func resolve(t *testing.T, src Sources) *Resolved {
	t.Helper()
	r, err := Resolve(src)
	must.Do(t, err)
	return r
}

// Each place is stronger than the next: taking them away one by one from the
// strongest brings out the one below.
func TestPrecedence(t *testing.T) {
	src := home(t)
	write(t, src.SystemFile, "[sandbox]\ntime_limit = 4\nallow_read = ['/system']\n")
	user := write(t, src.userFile(), "[sandbox]\ntime_limit = 3\nallow_read = ['/user']\n")
	project := write(t, filepath.Join(src.Home, "project", fileName), "[sandbox]\ntime_limit = 2\nallow_read = ['project']\n")
	if _, _, err := Trust(src, project); err != nil {
		t.Fatal(err)
	}
	src.Environ = []string{"CONFINE_TIME_LIMIT=1", "CONFINE_ALLOW_READ=/env1:env2", "PATH=/bin"}
	src.Flags = []Setting{flag("time-limit", "9"), flag("allow-read", "flag"), flag("time-limit", "0.5")}

	r := resolve(t, src)
	if want := []string{"/system", "/user", filepath.Join(src.Home, "project", "project"), "/env1", src.Dir + "/env2", src.Dir + "/flag"}; !slices.Equal(r.Policy.Filesystem.AllowRead, want) {
		t.Errorf("lists add up to %q, want %q", r.Policy.Filesystem.AllowRead, want)
	}
	if want := []string{src.SystemFile, user, project}; !slices.Equal(r.Files, want) {
		t.Errorf("files %q, want %q", r.Files, want)
	}
	var sources []string
	for _, o := range r.Origins["time-limit"] {
		sources = append(sources, o.Source+"="+o.Values[0])
	}
	want := []string{"profile default=30s", src.SystemFile + ":2=4", user + ":2=3", project + ":2=2", "environment CONFINE_TIME_LIMIT=1", "flag --time-limit=9", "flag --time-limit=0.5"}
	if !slices.Equal(sources, want) {
		t.Errorf("origins %q, want %q", sources, want)
	}

	for _, step := range []struct {
		want time.Duration
		then func()
	}{
		{500 * time.Millisecond, func() { src.Flags = nil }},
		{1 * time.Second, func() { src.Environ = nil }},
		{2 * time.Second, func() { os.Remove(project) }},
		{3 * time.Second, func() { os.Remove(user) }},
		{4 * time.Second, func() { os.Remove(src.SystemFile) }},
		{30 * time.Second, func() {}},
	} {
		if r := resolve(t, src); r.Policy.TimeLimit != step.want {
			t.Errorf("time limit %v, want %v", r.Policy.TimeLimit, step.want)
		}
		step.then()
	}
}

func TestProfileFollowsPrecedence(t *testing.T) {
	src := home(t)
	write(t, src.SystemFile, "[sandbox]\nprofile = 'strict'\n")
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "strict"},
		{func() { write(t, src.userFile(), "[sandbox]\nprofile = 'testing'\n") }, "testing"},
		{func() { src.Environ = []string{"CONFINE_LEVEL=standard"} }, "standard"},
		{func() { src.Environ = []string{"CONFINE_LEVEL=standard", "CONFINE_PROFILE=standard"} }, "standard"},
		{func() { src.Flags = []Setting{flag("profile", "development")} }, "development"},
		{func() { src.Flags = []Setting{flag("profile", "default"), flag("profile", "development")} }, "development"},
		{func() { src.Flags = []Setting{flag("level", "permissive")} }, "permissive"},
	} {
		step.do()
		r := resolve(t, src)
		if r.Policy.Profile != step.want || r.Invocation.Profile != step.want {
			t.Errorf("profile %q, want %q", r.Policy.Profile, step.want)
		}
		if own, _ := Profile(step.want); own.MemoryLimit != r.Policy.MemoryLimit {
			t.Errorf("%s: memory %d, want %d", step.want, r.Policy.MemoryLimit, own.MemoryLimit)
		}
	}
	src.Flags = []Setting{flag("level", "strict"), flag("profile", "default")}
	if _, err := Resolve(src); err == nil || !strings.Contains(err.Error(), `flag --level says "strict", and flag --profile says "default"`) {
		t.Errorf("a level and another profile: %v", err)
	}
}

func TestConfigTakesTheProjectFilesPlace(t *testing.T) {
	src := home(t)
	write(t, filepath.Join(src.Dir, fileName), "broken")
	config := write(t, filepath.Join(src.Home, "other", "any name"), "[sandbox]\ntime_limit = 2\nallow_read = ['x', '~/y']\n")
	write(t, src.userFile(), "[sandbox]\ntime_limit = 3\n")
	for _, give := range []func(){
		func() { src.Flags = []Setting{flag("config", "../../other/any name")} },
		func() { src.Flags = nil; src.Environ = []string{"CONFINE_CONFIG=~/other/any name"} },
	} {
		give()
		r := resolve(t, src)
		if r.Policy.TimeLimit != 2*time.Second || r.Invocation.Config != config || r.Project != "" || len(r.Notices) > 0 {
			t.Errorf("time limit %v, config %q, project %q, notices %q", r.Policy.TimeLimit, r.Invocation.Config, r.Project, r.Notices)
		}
		if want := []string{src.Home + "/other/x", src.Home + "/y"}; !slices.Equal(r.Policy.Filesystem.AllowRead, want) {
			t.Errorf("paths %q, want %q", r.Policy.Filesystem.AllowRead, want)
		}
		for _, p := range []string{config, src.userFile(), src.trustStore(), src.SystemFile} {
			if !slices.Contains(r.Protected, p) {
				t.Errorf("%q is not protected: %q", p, r.Protected)
			}
		}
	}
}

// A run that could write to its policy of system calls would choose that of the next one.
func TestSeccompFileIsProtected(t *testing.T) {
	src := home(t)
	config := write(t, filepath.Join(src.Dir, "x.toml"), "[sandbox]\nseccomp = './calls.toml'\n")
	src.Flags = []Setting{flag("config", config)}
	policy := filepath.Join(src.Dir, "calls.toml")
	if r := resolve(t, src); !slices.Contains(r.Protected, policy) {
		t.Errorf("%q is not protected: %q", policy, r.Protected)
	}
	src.Flags = append(src.Flags, flag("seccomp", "default"))
	if r := resolve(t, src); slices.ContainsFunc(r.Protected, func(p string) bool { return p == policy || p == "default" }) {
		t.Errorf("protected without being used: %q", r.Protected)
	}
}

func TestListsAreEmptied(t *testing.T) {
	src := home(t)
	write(t, src.SystemFile, `
[sandbox]
profile = "development"
[sandbox.network]
allow_domains = ["a.example"]
[sandbox.filesystem]
allow_read = ["/a"]
mounts = ["/a:/b"]
[sandbox.env]
set = { A = "1" }
`)
	r := resolve(t, src)
	if want := []string{"localhost", "*.local", "a.example"}; !slices.Equal(r.Policy.Network.Allow, want) {
		t.Fatalf("before: %q, want %q", r.Policy.Network.Allow, want)
	}
	write(t, src.userFile(), "[sandbox]\nallow_network = false\nallow_read = []\n[sandbox.filesystem]\nmounts = []\n[sandbox.env]\nset = {}\npass = []\n")
	r = resolve(t, src)
	if p := r.Policy; len(p.Network.Allow)+len(p.Filesystem.AllowRead)+len(p.Filesystem.Mounts)+len(p.Env.Set)+len(p.Env.Pass) > 0 {
		t.Errorf("a file did not empty %+v", p)
	}
	if o := r.Origins["allow-network"]; len(o) != 1 || o[0].Source != src.userFile()+":2" || len(o[0].Values) != 0 {
		t.Errorf("origins of an emptied list: %v", o)
	}
	src.Flags = []Setting{flag("allow-network", "none"), flag("allow-network", "b.example,c.example"), flag("allow-network", "b.example")}
	if r = resolve(t, src); !slices.Equal(r.Policy.Network.Allow, []string{"b.example", "c.example"}) {
		t.Errorf("emptied and filled: %q", r.Policy.Network.Allow)
	}
	src.Flags, src.Environ = nil, []string{"CONFINE_ALLOW_NETWORK=none", "CONFINE_ALLOW_READ=none"}
	if r = resolve(t, src); len(r.Policy.Network.Allow) > 0 {
		t.Errorf("emptied by the environment: %q", r.Policy.Network.Allow)
	}
	src.Environ, src.Flags = nil, []Setting{flag("allow-network", "all")}
	if r = resolve(t, src); !r.Policy.Network.All {
		t.Error("\"all\" is not all")
	}
	src.Flags = append(src.Flags, flag("allow-network", "none"))
	if r = resolve(t, src); r.Policy.Network.All {
		t.Error("\"none\" leaves \"all\"")
	}
}

func TestEnvironmentVariables(t *testing.T) {
	src := Sources{Dir: "/", Flags: []Setting{
		flag("env", "TZ"), flag("env", "TERM=dumb"), flag("env", "A=b,c=d"), flag("env", "B"),
	}}
	e := resolve(t, src).Policy.Env
	if _, set := e.Set["TZ"]; set || !slices.Contains(e.Pass, "TZ") {
		t.Error("a variable that is to be passed is still set by the profile")
	}
	if slices.Contains(e.Pass, "TERM") || e.Set["TERM"] != "dumb" {
		t.Error("a variable that is set is still passed")
	}
	if e.Set["A"] != "b,c=d" {
		t.Errorf("A=%q", e.Set["A"])
	}
	src = Sources{Dir: "/", Environ: []string{"CONFINE_ENV= X , Y=1,,Z=a=b"}}
	e = resolve(t, src).Policy.Env
	if !slices.Contains(e.Pass, "X") || e.Set["Y"] != "1" || e.Set["Z"] != "a=b" {
		t.Errorf("from the environment: %+v", e)
	}
	_, err := Resolve(Sources{Dir: "/", Flags: []Setting{flag("env", "MY-KEY=secret")}})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), `"MY-KEY" is not the name of a variable`) {
		t.Errorf("a mistake in a variable's name: %v", err)
	}
}

func TestWorkdirAsked(t *testing.T) {
	ask := home(t)
	config := tempFile(t, "[sandbox.profiles.mine]\nworkdir = 'rw'\n[sandbox]\nprofile = 'mine'\n")
	said := tempFile(t, "[sandbox]\nworkdir = 'rw'\n")
	all := tempFile(t, "[sandbox]\nallow_filesystem = true\n")
	for _, c := range []struct {
		name    string
		flags   []Setting
		environ []string
		asked   bool
		workdir string
	}{
		{"default profile", nil, nil, false, "ro"},
		{"another profile", []Setting{flag("profile", "testing")}, nil, false, "overlay"},
		{"a file's profile", []Setting{flag("config", config)}, nil, false, "rw"},
		{"a file", []Setting{flag("config", said)}, nil, true, "rw"},
		{"allow_filesystem in a file", []Setting{flag("config", all)}, nil, true, "rw"},
		{"environment", nil, []string{"CONFINE_WORKDIR=rw"}, true, "rw"},
		{"flag", []Setting{flag("workdir", "ro")}, nil, true, "ro"},
	} {
		src := ask
		src.Flags, src.Environ = c.flags, c.environ
		f := resolve(t, src).Policy.Filesystem
		if f.WorkdirAsked != c.asked || f.Workdir != c.workdir {
			t.Errorf("%s: asked %v, workdir %q", c.name, f.WorkdirAsked, f.Workdir)
		}
	}
}

func TestMistakesNameTheirPlace(t *testing.T) {
	for _, c := range []struct {
		name, want string
		src        Sources
	}{
		{"unknown flag", `unknown option --time-limt, did you mean "time-limit"?`, Sources{Flags: []Setting{flag("time-limt", "1")}}},
		{"a flag for files only", `unknown option --protect`, Sources{Flags: []Setting{flag("protect", "x")}}},
		{"bad value of a flag", `flag --time-limit: "0" is zero` + "\nhint: it takes \"10s\"", Sources{Flags: []Setting{flag("time-limit", "0")}}},
		{"bad value that doesn't win", `flag --time-limit: "x" is not a number`, Sources{Flags: []Setting{flag("time-limit", "x"), flag("time-limit", "1")}}},
		{"no value", `flag --time-limit: needs a value`, Sources{Flags: []Setting{flag("time-limit")}}},
		{"own words for the source", `flag -t: "x" is not`, Sources{Flags: []Setting{{Option: "time-limit", Values: []string{"x"}, Source: "flag -t"}}}},
		{"bad value of the environment", `environment CONFINE_CPUS: "x" is not a number`, Sources{Environ: []string{"CONFINE_CPUS=x"}}},
		{"mistyped twin", `environment CONFINE_TIMELIMIT: no such option, did you mean "CONFINE_TIME_LIMIT"?`, Sources{Environ: []string{"CONFINE_TIMELIMIT=1", "CONFINE_ZZZZZ=1"}}},
		{"a twin for files only", "", Sources{Environ: []string{"CONFINE_PROTECT=x"}}},
		{"unknown profile", `flag --profile: unknown profile "strickt", did you mean "strict"?`, Sources{Flags: []Setting{flag("profile", "strickt")}}},
		{"unknown level", `flag --level: "testing" is not known`, Sources{Flags: []Setting{flag("level", "testing")}}},
		{"empty profile", `flag --profile: "" is not a profile's name`, Sources{Flags: []Setting{flag("profile", "")}}},
		{"empty path", `flag --config: "" is empty`, Sources{Flags: []Setting{flag("config", "")}}},
		{"no current directory", `flag --allow-read: "x" is relative, and there is no current directory`, Sources{Flags: []Setting{flag("allow-read", "x")}}},
		{"empty word in a list", `flag --allow-port: "" is not a number`, Sources{Flags: []Setting{flag("allow-port", "80,")}}},
	} {
		_, err := Resolve(c.src)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if _, ok := errors.AsType[*UsageError](err); !ok || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestOtherVariablesAreLeftAlone(t *testing.T) {
	src := Sources{Dir: "/", Environ: []string{"CONFINE_MUST_RUN=userns", "CONFINE_=1", "CONFINE", "XCONFINE_TIME_LIMIT=x", "CONFINE_TIME_LIMIT=", "CONFINE_ALLOW_PORT=,"}}
	if r := resolve(t, src); r.Policy.TimeLimit != 30*time.Second {
		t.Errorf("time limit %v", r.Policy.TimeLimit)
	}
}

func TestInvocation(t *testing.T) {
	r := resolve(t, Sources{Dir: "/d", Environ: []string{"CONFINE_LOG=verbose", "CONFINE_JSON=1"}, Flags: []Setting{flag("report", "r.json"), flag("exit-codes", "simple")}})
	want := Invocation{Profile: "default", Report: "/d/r.json", JSON: true, ExitCodes: "simple", Log: "verbose", LogFormat: "text", TTY: "auto"}
	if r.Invocation != want {
		t.Errorf("%+v, want %+v", r.Invocation, want)
	}
}

func TestUnreadableFiles(t *testing.T) {
	src := home(t)
	src.Flags = []Setting{flag("config", "missing.toml")}
	_, err := Resolve(src)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), `open "`+src.Dir+`/missing.toml": no such file`) {
		t.Errorf("missing: %v", err)
	}
	src.Flags = []Setting{flag("config", ".")}
	if _, err = Resolve(src); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("directory: %v", err)
	}
	big := write(t, filepath.Join(src.Home, "big"), strings.Repeat("#\n", fileMost/2)+"#")
	src.Flags = []Setting{flag("config", big)}
	if _, err = Resolve(src); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("large: %v", err)
	}
	write(t, big, strings.Repeat("#\n", fileMost/2))
	if _, err = Resolve(src); err != nil {
		t.Errorf("as large as can be: %v", err)
	}
	// What stands where a file's folder should be is no file, and no mistake.
	write(t, filepath.Join(src.Home, ".config"), "")
	src.Flags = nil
	if _, err = Resolve(src); err != nil {
		t.Errorf("a file in place of ~/.config: %v", err)
	}
}

// The sources of the process are those that Resolve needs.
func TestHere(t *testing.T) {
	src := Here([]string{"HOME=/h", "XDG_CONFIG_HOME=relative", "XDG_DATA_HOME=/data"}, "")
	if src.userFile() != "/h/.config/confine/confine.toml" || src.trustStore() != "/data/confine/trusted" || src.UID != os.Getuid() || !filepath.IsAbs(src.Dir) {
		t.Errorf("%q, %q, %+v", src.userFile(), src.trustStore(), src)
	}
	if src = (Sources{}); src.userFile() != "" || src.trustStore() != "" {
		t.Error("files of a user without a home")
	}
}

// Resolving twice gives the same, and one run's lists are not another's.
func TestResolveSharesNothing(t *testing.T) {
	src := Sources{Dir: "/", Flags: []Setting{flag("profile", "development"), flag("allow-network", "x")}}
	a, b := resolve(t, src), resolve(t, src)
	if !reflect.DeepEqual(a, b) {
		t.Fatal("two runs differ")
	}
	a.Policy.Network.Allow[0], a.Policy.Env.Set["TZ"], a.Policy.Env.Pass[0] = "changed", "changed", "changed"
	if c := resolve(t, src); !reflect.DeepEqual(b, c) {
		t.Error("changing one policy changed another")
	}
}
