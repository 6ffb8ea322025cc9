package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

// Every mistake in a file is told with its line and column.
func TestMistakesInFiles(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"not TOML", "[sandbox]\ntime_limit = \"1\n", `2:16: basic strings cannot have new lines`},
		{"no value", "[sandbox]\nprofile =\n", `2:10: `},
		{"not UTF-8", "[sandbox]\nprofile = \"\xff\"\n", `2:12: invalid UTF-8`},
		{"a NUL", "[sandbox]\x00\n", `1:10: `},
		{"key twice", "[sandbox]\nprofile = 'a'\nprofile = 'b'\n", `3:1: key profile is already defined`},
		{"table twice", "[sandbox]\n[sandbox]\n", `2:2: table sandbox already exists`},
		{"key and table", "sandbox.network = 1\n[sandbox.network]\n", `2:2: key network should be a table`},
		{"number too large for TOML", "[sandbox]\ncpus = 99999999999999999999\n", `2:8: `},

		{"unknown key", "[sandbox]\ntime_limt = 1\n", `2:1: unknown key "time_limt" in [sandbox], did you mean "time_limit"?`},
		{"unknown key in a table", "[sandbox.network]\n allow_domain = []\n", `2:2: unknown key "network.allow_domain" in [sandbox], did you mean "network.allow_domains"?`},
		{"unknown key in an inline table", "[sandbox]\nnetwork = { logg = true }\n", `2:13: unknown key "network.logg" in [sandbox], did you mean "network.log"?`},
		{"unknown table", "\n[sandbox.netwrk]\n", `2:2: unknown table "sandbox.netwrk" in [sandbox], did you mean "network"?`},
		{"unknown table at the top", "[sandbx]\n", `1:2: unknown table "sandbx", did you mean "sandbox"?`},
		{"a key without its table", "time_limit = 1\n", `1:1: unknown key "time_limit", did you mean [sandbox] time_limit?` + "\nhint: put it below"},
		{"a profile without its table", "profile = 'strict'\n", `1:1: unknown key "profile", did you mean [sandbox] profile?`},
		{"a table without sandbox", "[filesystem]\nallow_read = []\n", `1:2: unknown table "filesystem", did you mean [sandbox.filesystem]?`},
		{"a table of a table without sandbox", "[network.x]\n", `1:2: unknown table "network`},
		{"a key of a table without sandbox", "network.allow_domains = []\n", `did you mean [sandbox.network] allow_domains?`},
		{"nothing near", "[sandbox]\nzebra = 1\n", `2:1: unknown key "zebra" in [sandbox]`},
		{"a key in a profile that is none of a policy", "[sandbox.profiles.a]\ntty = 'auto'\n", `2:7: "tty" can't be part of a profile`},
		{"unknown key in a profile", "[sandbox.profiles.a]\ncpu = 1\n", `2:1: unknown key "cpu" in [sandbox.profiles.a], did you mean "cpus"?`},
		{"unknown key of tests", "[test]\nsandbox_time = 1\n", `2:1: unknown key "sandbox_time" in [test], did you mean "sandbox_time_limit"?`},
		{"a key with two meanings", "[sandbox]\ndeny_patterns = []\n", `2:1: "deny_patterns" can mean "network.deny_patterns" or "filesystem.deny_patterns": name its table`},

		{"not a table", "sandbox = 1\n", `1:11: "sandbox" must be a table`},
		{"not a table below", "[sandbox]\nnetwork = true\n", `2:11: "network" must be a table`},
		{"not a table of variables", "[sandbox.env]\nset = ['A=1']\n", `2:1: "env.set" must be a table`},
		{"a list of tables", "[[sandbox]]\n", `1:3: "sandbox" is a table and no list of tables`},
		{"profiles is no table", "[sandbox]\nprofiles = 1\n", `2:12: "sandbox.profiles" must be a table`},
		{"a profile is no table", "[sandbox.profiles]\na = 1\n", `2:5: profile "a" must be a table`},
		{"a profile's name", "[sandbox.profiles.'a b']\n", `1:2: "a b" can't be the name`},
		{"a profile named none", "[sandbox.profiles.none]\n", `"none" can't be the name`},
		{"extends no string", "[sandbox.profiles.a]\nextends = 1\n", `2:11: extends must be a profile's name`},
		{"extends a strange name", "[sandbox.profiles.a]\nextends = 'a b'\n", `2:11: extends must be a profile's name`},

		{"list for a number", "[sandbox]\ncpus = [1]\n", `2:1: cpus takes a whole number above 0, or "none"`},
		{"bool for a duration", "[sandbox]\ntime_limit = true\n", `2:14: time_limit takes "10s"`},
		{"bool for a size", "[sandbox]\nmemory_limit = true\n", `2:16: memory_limit takes "512M"`},
		{"bool for a percentage", "[sandbox]\ncpu_limit = true\n", `2:13: cpu_limit takes "50"`},
		{"date for a duration", "[sandbox]\ntime_limit = 1979-01-01\n", `2:14: time_limit takes`},
		{"string for a bool", "[sandbox.network]\nlog = 'true'\n", `2:7: network.log takes true or false`},
		{"string for a list", "[sandbox]\nallow_read = '/x'\n", `2:14: allow_read takes a list of strings`},
		{"true for a list", "[sandbox]\nallow_read = true\n", `2:14: allow_read takes a list of strings`},
		{"string for the network", "[sandbox]\nallow_network = 'x'\n", `2:17: allow_network takes true, false or a list of strings`},
		{"number in a list", "[sandbox]\nallow_read = [\n  '/x',\n  1]\n", `4:3: allow_read takes a list of strings`},
		{"list in a list", "[sandbox]\nallow_read = [['/x']]\n", `2:1: allow_read takes a list of strings`},
		{"number for a word", "[sandbox]\nisolation = 1\n", `2:13: isolation takes "process", "wasm" or "vm"`},
		{"number for a text", "[sandbox]\nprofile = 1\n", `2:11: profile takes a string`},
		{"bool for a variable", "[sandbox.env.set]\nA = true\n", `2:5: variable "A" must be a string`},
		{"a variable's name", "[sandbox.env.set]\n'A=B' = 'x'\n", `2:9: "A=B" is not the name`},
		{"too deep for a variable", "[sandbox.env.set.A]\nB = 'x'\n", `1:2: variable "A" must be a string`},
		{"allow_filesystem is a list", "[sandbox]\nallow_filesystem = []\n", `2:1: allow_filesystem must be true or false`},
		{"test.sandbox is a string", "[test]\nsandbox = 'x'\n", `2:11: sandbox must be true or false`},
		{"test's limit is a list", "[test]\nsandbox_time_limit = []\n", `2:1: sandbox_time_limit takes`},
		{"test is no table", "test = true\n", `1:8: "test" must be a table`},

		{"zero", "[sandbox]\ntime_limit = 0\n", `2:14: time-limit "0" is zero`},
		{"negative", "[sandbox]\nmemory_limit = -1\n", `2:16: memory-limit "-1" is negative`},
		{"not a number", "[sandbox]\ntime_limit = nan\n", `2:14: time-limit "NaN" is not a number`},
		{"infinite", "[sandbox]\ntime_limit = +inf\n", `2:14: time-limit "+Inf" is not a number`},
		{"a fraction of a byte", "[sandbox]\nmemory_limit = 1.5\n", `2:16: memory-limit "1.5" is not a whole number`},
		{"unknown unit", "[sandbox]\nmemory_limit = '5X'\n", `2:16: memory-limit "5X" has an unknown unit` + "\nhint: it takes \"512M\""},
		{"unknown word", "[sandbox]\nseccomp = 'strikt'\n", `2:11: seccomp "strikt" is not known, did you mean "strict"?`},
		{"unknown profile", "[sandbox]\nprofile = 'strikt'\n", `2:11: unknown profile "strikt", did you mean "strict"?`},
		{"bad host", "[sandbox.network]\nallow_domains = ['a b']\n", `2:1: allow-network "a b" contains ' '`},
		{"a secret in the wrong place", "[sandbox.env.set]\n'A-B' = 'secret'\n", `2:9: env-set "A-B" is not the name of a variable`},

		{"said twice", "[sandbox]\nmax_files = 1\n[sandbox.filesystem]\nmax_files = 2\n", `4:13: max-files was already said otherwise, at `},
		{"said and unsaid", "[sandbox]\nallow_network = false\nallow_domains = ['a']\n", `3:1: allow-network was already said otherwise, at `},
		{"unsaid and said", "[sandbox]\nallow_domains = ['a']\nallow_network = false\n", `3:17: allow-network was already said otherwise, at `},
		{"said twice in a profile", "[sandbox.profiles.a]\nworkdir = 'ro'\nfilesystem = { workdir = 'rw' }\n", `3:26: workdir was already said`},
	} {
		path := tempFile(t, c.text)
		_, err := Resolve(Sources{SystemFile: path, Flags: []Setting{}})
		if _, ok := errors.AsType[*UsageError](err); !ok || !strings.HasPrefix(err.Error(), path+":") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
			continue
		}
		if strings.Contains(c.name, "secret") && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: it is shown: %v", c.name, err)
		}
	}
}

// The whole of the documented shape.
func TestFileInFull(t *testing.T) {
	config := tempFile(t, `
test.sandbox = true
test.sandbox_time_limit = "5s"
test.sandbox_memory_limit = "100M"

[sandbox]
profile = "testing"
time_limit = 0.25
cpu_time = "1m"
cpu_limit = "50%"
cpus = 0x2
processes = 1_000
file_descriptors = "none"
disk_limit = 1048576
output_limit = "2M"
seccomp = "mine.toml"
allow_partial = ["all"]
require = ["memory"]
user = 1000
network = { allow_domains = ["example.com"], allow_patterns = ["*.example.org"], deny_patterns = ["127.*"], allow_ports = [443, "80"], block_internal = false, log = true }

[sandbox.filesystem]
allow_read = ["in", "~/in", "/in"]
allow_write = ["out"]
deny_patterns = ["**/*.pem"]
workdir = "overlay"
mounts = ["data:/data:rw"]
virtual = true
temp_dir = false
overlay = ["o"]
max_file_size = "10M"
max_files = 100
protect = ["Makefile"]

[sandbox.env]
pass = ["FOO"]
set = { BAR = "1", BAZ = 2 }
`)
	r := resolve(t, Sources{Dir: "/cwd", Home: "/home/u", Flags: []Setting{flag("config", config)}})
	dir := filepath.Dir(config)
	p := r.Policy
	for what, ok := range map[string]bool{
		"profile":       p.Profile == "testing",
		"time_limit":    p.TimeLimit == 250*time.Millisecond,
		"cpu_time":      p.CPUTime == time.Minute,
		"memory_limit":  p.MemoryLimit == 100<<20, // of [test]
		"cpu_limit":     p.CPULimit == 50,
		"cpus":          p.CPUs == 2,
		"processes":     p.Processes == 1000,
		"fds":           p.FileDescriptors == 0,
		"disk":          p.DiskLimit == 1<<20,
		"output":        p.OutputLimit == 2<<20,
		"seccomp":       p.Seccomp == dir+"/mine.toml",
		"partial":       slices.Equal(p.AllowPartial, []string{"all"}),
		"require":       slices.Equal(p.Require, []string{"memory"}),
		"user":          *p.User == User{1000, 1000},
		"allow":         slices.Equal(p.Network.Allow, []string{"example.com", "*.example.org"}),
		"deny":          slices.Equal(p.Network.Deny, []string{"127.*"}),
		"ports":         slices.Equal(p.Network.Ports, []int{443, 80}),
		"internal":      !p.Network.BlockInternal && p.Network.Log,
		"read":          slices.Equal(p.Filesystem.AllowRead, []string{dir + "/in", "/home/u/in", "/in"}),
		"write":         slices.Equal(p.Filesystem.AllowWrite, []string{dir + "/out"}),
		"deny paths":    slices.Equal(p.Filesystem.Deny, []string{dir + "/**/*.pem"}),
		"workdir":       p.Filesystem.Workdir == "overlay" && p.Filesystem.WorkdirAsked,
		"mounts":        slices.Equal(p.Filesystem.Mounts, []Mount{{Src: dir + "/data", Dst: "/data", Mode: "rw"}}),
		"virtual":       p.Filesystem.Virtual && !p.Filesystem.TempDir,
		"overlay":       slices.Equal(p.Filesystem.Overlay, []string{dir + "/o"}),
		"max_file_size": p.MaxFileSize == 10<<20 && p.MaxFiles == 100,
		"protect":       slices.Contains(p.Filesystem.Protect, "Makefile") && slices.Contains(p.Filesystem.Protect, ".git/hooks"),
		"env":           slices.Contains(p.Env.Pass, "FOO") && p.Env.Set["BAR"] == "1" && p.Env.Set["BAZ"] == "2",
	} {
		if !ok {
			t.Errorf("%s is wrong in %+v", what, p)
		}
	}
	if o := r.Origins["memory-limit"]; o[len(o)-1].Source != "profile testing, "+config+":4" {
		t.Errorf("origin of a limit for tests: %v", o)
	}
}

func TestAllowFilesystem(t *testing.T) {
	for _, c := range []struct {
		text, workdir string
		home          bool
		read          []string
	}{
		{"allow_filesystem = true", "rw", true, nil},
		{"allow_filesystem = false", "none", false, nil},
		{"allow_read = ['/x']\nallow_filesystem = false", "none", false, []string{"/x"}},
		{"workdir = 'ro'\nallow_filesystem = true", "ro", true, nil},
		{"filesystem = { home = false }\nallow_filesystem = true", "rw", false, nil},
	} {
		path := tempFile(t, "[sandbox]\nprofile = 'mine'\n[sandbox.profiles.base]\nextends = 'development'\nallow_read = ['/base']\n[sandbox.profiles.mine]\nextends = 'base'\n"+c.text)
		f := resolve(t, Sources{Dir: "/", SystemFile: path}).Policy.Filesystem
		want := c.read
		if !strings.Contains(c.text, "allow_filesystem = false") {
			want = append([]string{"/base"}, want...)
		}
		if f.Workdir != c.workdir || f.Home != c.home || !slices.Equal(f.AllowRead, want) {
			t.Errorf("%q: workdir %q, home %v, read %q", c.text, f.Workdir, f.Home, f.AllowRead)
		}
	}
}

func TestKeysWithoutTheirTable(t *testing.T) {
	for key, want := range map[string]string{
		"allow_network": "allow-network", "allow_domains": "allow-network", "allow_patterns": "allow-network",
		"deny_network": "deny-network", "deny": "deny", "mount": "mount", "mounts": "mount",
		"virtual": "virtual-fs", "virtual_fs": "virtual-fs", "log_network": "log-network", "log": "log",
		"pass": "env", "set": "env-set", "home": "home", "protect": "protect", "keep": "keep", "keep_env": "keep-env",
	} {
		if got := lookupKey([]string{key}); len(got) != 1 || got[0].Name != want {
			t.Errorf("%q means %v, want %q", key, got, want)
		}
	}
	for _, key := range []string{"env_set", "level", "config", "json", "network", ""} {
		if got := lookupKey([]string{key}); len(got) != 0 {
			t.Errorf("%q means %v", key, got)
		}
	}
}

func TestPrintableQuotesControlCharacters(t *testing.T) {
	if got := Printable("/a/b c"); got != "/a/b c" {
		t.Errorf("printable: %s", got)
	}
	if got := Printable("/a\nb\x1b[0m"); got != `"/a\nb\x1b[0m"` {
		t.Errorf("printable: %s", got)
	}
}

// Whatever a file holds, it is taken or refused: with a place in the file, and
// without a crash. What is taken gives a valid policy.
func FuzzFile(f *testing.F) {
	for _, name := range Profiles() {
		text, err := ProfileTOML(name)
		must.Do(f, err)
		f.Add([]byte(text + "\n[sandbox]\nprofile = '" + name + "'\n"))
	}
	f.Add([]byte("[sandbox]\nallow_network = ['a']\nmounts = ['/a:/b:rw']\n[test]\nsandbox = false\n"))
	f.Add([]byte("[sandbox.profiles.a]\nextends = 'b'\n[sandbox.profiles.b]\nextends = 'a'\n[sandbox]\nprofile = 'a'"))
	f.Add([]byte("sandbox = { env = { set = {} }, network = { allow_ports = [1] } }"))
	f.Add([]byte("[[sandbox]]\na = [[[[{}]]]]\n"))
	path := filepath.Join(f.TempDir(), fileName)
	f.Fuzz(func(t *testing.T, data []byte) {
		must.Do(t, os.WriteFile(path, data, 0o600))
		r, err := Resolve(Sources{Dir: "/d", Home: "/h", SystemFile: path})
		if err != nil {
			if u, ok := errors.AsType[*UsageError](err); !ok || u.Msg == "" || strings.ContainsRune(u.Msg, 0) {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if err := r.Policy.Validate(); err != nil {
			t.Fatalf("taken, but: %v", err)
		}
	})
}
