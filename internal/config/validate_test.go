package config

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
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
		{"/a/b", "/a/b"}, {"/a/b/", "/a/b"}, {"//a/./b/../c", "/a/c"}, {"/", "/"}, {"x", "/work/dir/x"}, {".", "/work/dir"},
		{"..", "/work"}, {"a b", "/work/dir/a b"}, {"$HOME/x", "/work/dir/$HOME/x"}, {"~", "/home/u"}, {"~/x", "/home/u/x"},
		{"~/../v", "/home/v"}, {"./~x", "/work/dir/~x"}, {"a\xffb", "/work/dir/a\xffb"}, {"~x", "!another user"}, {"", "!empty"},
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
		{"/etc/*", "/etc/*"}, {"*.pem", "/work/dir/*.pem"}, {"**/.env", "/work/dir/**/.env"}, {"~/.ssh", "/home/u/.ssh"},
		{"/x/[a-z]?", "/x/[a-z]?"}, {"/x/[a", "!not a valid pattern"}, {"/x/{a", "!not a valid pattern"},
		{"/x/" + strings.Repeat("{a,b}", 40), "!stands for more than 1024 others"},
		{"/x/" + strings.Repeat("a", 5000), "!more than 4096 bytes"},
		{"", "!empty"},
	})
	// A folder's own name is no pattern.
	tryCanonical(t, "deny", place{dir: "/p[1]/a*"}, []canonCase{{"*.pem", `/p\[1\]/a\*/*.pem`}})
}

// What a pattern stands for is counted as its matcher tries it.
func TestChoicesOfPatterns(t *testing.T) {
	for pattern, want := range map[string]int{
		"": 1, "a,b": 1, "*.{c,h,cpp}": 3, "{a,b}{c,d,e}": 6, "{a,{b,c}{d,e}}": 5, "{a}": 1, "{,}": 2, `\{a,b}`: 1, `{a\,b}`: 1, `{a\},b}`: 2,
		"[{]{a,b}": 2, "[}]{a,b}": 2, "{[}],{a,b}{c,d}": 4, "{a,b}}{c,d}": 4, strings.Repeat("{a,b}", 10): 1024, strings.Repeat("{a,b}", 11): 1025,
		strings.Repeat("{a,", 400) + strings.Repeat("b}", 400): 401, strings.Repeat("{", 4000): 1,
	} {
		if got, _ := choices(pattern, 0); got != want {
			t.Errorf("%.40q: %d, and not %d", pattern, got, want)
		}
	}
}

func TestMistypedSecretsIsAnError(t *testing.T) {
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
	must.Do(t, os.WriteFile(dir+"/secret", nil, 0o600))
	tryCanonical(t, "deny", base, []canonCase{{"secret", dir + "/secret"}, {"sercets", "!did you mean"}})
}

func TestMounts(t *testing.T) {
	tryCanonical(t, "mount", here, []canonCase{
		{"/a:/b", "/a:/b:ro"}, {"/a:/b:ro", "/a:/b:ro"}, {"/a:/b:rw", "/a:/b:rw"}, {"/a:/b:overlay", "/a:/b:overlay"},
		{"a:/b/", "/work/dir/a:/b:ro"}, {"~/a:/b", "/home/u/a:/b:ro"}, {"/a:b:/c:rw", "/a:b:/c:rw"}, {"tmpfs:/b:64M", "tmpfs:/b:64M"},
		{"tmpfs:/b/../c/:4096", "tmpfs:/c:4K"}, {"tmpfs:/b", "/work/dir/tmpfs:/b:ro"}, {"tmpfs:/b:ro", "/work/dir/tmpfs:/b:ro"},
		{"./tmpfs:/b", "/work/dir/tmpfs:/b:ro"}, {"/tmpfs:/b:64M", "!unknown mode"}, {"tmpfs:/a:/b:64M", "!unknown mode"},
		{"tmpfs:/b:0", "!is zero"}, {"tmpfs:/b:10", "!the least is"}, {"tmpfs:/b:9X", "!"}, {"tmpfs:/:64M", "!--rootfs"},
		{"/a:/b:rx", `!unknown mode "rx", did you mean "ro"?`},
		{"/a", "!no destination"}, {"/a:b", "!not absolute"}, {"/a:b:rw", "!not absolute"}, {":/b", "!no source"},
		{"/a:", "!not absolute"}, {"/a:/", "!--rootfs"}, {"/a:/b/..", "!--rootfs"}, {"~x:/b", "!another user"},
		{"", "!no destination"}, {"/a:/b\x00:rw", "!NUL"},
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

func TestCapabilityVariableAndUserNames(t *testing.T) {
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
		{"4294967295", "!not a user"}, {"1:4294967295", "!not a user"}, {"root", "0:0"}, {"root:1", "0:1"}, {"5:root", "5:0"}, {"root:root", "0:0"}, {"no such one", "!getent"}, {"root:no such one", "!not a user"}, {"root:", "!not a user"}, {":root", "!not a user"}, {"1:", "!not a user"}, {":1", "!not a user"}, {"-1", "!not a user"}, {"1:2:3", "!not a user"},
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

func TestHosts(t *testing.T) {
	long := strings.Repeat("a", 63)
	tryCanonical(t, "allow-network", here, []canonCase{
		{"all", "all"}, {"example.com", "example.com"}, {"Example.COM.", "example.com"}, {"example.com:443", "example.com:443"},
		{"*.github.com", "*.github.com"}, {"api.*.com", "api.*.com"}, {"127.*", "127.*"}, {"192.168.*", "192.168.*"}, {"*", "*"},
		{"*:443", "*:443"}, {"localhost:8080", "localhost:8080"}, {"a_b.example", "a_b.example"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"10.1.2.3", "10.1.2.3"}, {"10.1.2.3:80", "10.1.2.3:80"}, {"10.0.0.0/8", "10.0.0.0/8"}, {"10.0.0.0/8:443", "10.0.0.0/8:443"},
		{"fd00::/8", "fd00::/8"}, {"[fd00::/8]:443", "[fd00::/8]:443"}, {"::1", "::1"}, {"0:0::1", "::1"}, {"[::1]", "::1"},
		{"[::1]:8080", "[::1]:8080"}, {"::ffff:10.0.0.1", "10.0.0.1"},
		{"https://example.com/*", "https://example.com/*"},
		{"HTTPS://Example.com", "https://example.com/*"},
		{"https://example.com:443", "https://example.com/*"},
		{"http://example.com/", "http://example.com/*"},
		{"https://example.com:8443/*", "https://example.com:8443/*"},
		{"https://[::1]/*", "https://[::1]/*"},
		{"http://[::1]:80/*", "http://[::1]/*"},
		{"https://*.example.com/*", "https://*.example.com/*"},
		{"http://localhost:3000/*", "http://localhost:3000/*"},
		{"http://example.com/api/*", "http://example.com/api/*"},
		{"http://example.com/API", "http://example.com/API"},
		{"http://example.com:8080/a/b/", "http://example.com:8080/a/b/"},
		{"http://example.com/%7euser/a%20b", "http://example.com/~user/a%20b"},
		{"http://example.com/a,b:c", "http://example.com/a%2Cb%3Ac"},
		{"::ffff:10.0.0.0/104", "10.0.0.0/8"},
		{long + ".example", long + ".example"},

		{"", "!no host"}, {":80", "!no host"}, {"https://", "!no host"}, {".", "!is not a host"}, {"..", "!is not a host"},
		{"a..b", "!is not a host"}, {".example.com", "!is not a host"}, {"-a.example", "!is not a host"},
		{"a-.example", "!is not a host"}, {"a" + long + ".example", "!is not a host"}, {strings.Repeat("a.", 127) + "com", "!longer"},
		{"exa mple.com", "!contains ' '"}, {"example.com ", "!contains ' '"}, {"example.com\r", `!contains '\r'`},
		{"example.com\nevil", `!contains '\n'`}, {"example.com\x00.evil", "!NUL"}, {"example.com%00.evil", "!contains '%'"},
		{"fe80::1%eth0", "!not an address"}, {"user@example.com", "!contains '@'"}, {"bücher.example", "!xn--"},
		{"example.com/x", "!range of addresses"}, {"example.com:443/x", "!a port that"},
		{"https://example.com/path", "!names a path"}, {"https://example.com/*/x", "!names a path"},
		{"https://example.com/path", "!encrypted"}, {"http://example.com/*/x", "!star within"},
		{"http://example.com/a*", "!star within"}, {"http://example.com/a?b", "!more than a path"},
		{"http://example.com/a#b", "!more than a path"}, {"http://example.com/../a", "!two ways"},
		{"http://example.com/a//b", "!two ways"}, {"http://example.com/a%2fb", "!two ways"},
		{"http://example.com/%2e%2e/a", "!two ways"}, {"http://example.com//*", "!two ways"},
		{"http://10.0.0.0/8/*/x", "!star within"}, {"**.example.com", "!two stars"}, {"10.1*", "!whole address"},
		{"300.*", "!whole address"}, {"0.0.0.0", "!no address"}, {"[::]:80", "!no address"}, {"198.18.0.5", "!stand for inside"},
		{"ftp://example.com", "!unknown scheme"}, {"htps://example.com", `!did you mean "http`}, {"example.com:", "!no port"},
		{"example.com:0", "!is zero"}, {"example.com:65536", "!too large"}, {"example.com:http", "!not a number"},
		{"example.com:80:90", "!not an address"}, {"[::1", "!is not a host"}, {"[::1]x", "!is not a host"},
		{"[::1]:", "!is not a host"}, {"[example.com]:80", "!is not a host"}, {"::1]:80", "!not an address"},
		{"10.1.2.3/8", `!it takes "10.0.0.0/8"`}, {"10.0.0.0/33", "!range of addresses"}, {"127.1", "!whole address"},
		{"2130706433", "!whole address"}, {"0x7f.1", "!whole address"}, {"0x7f000001", "!whole address"},
		{"010.0.0.1", "!whole address"}, {"1.2.3.4.5", "!whole address"}, {"256.1.1.1", "!whole address"},
		{"1.2.3.4.", "!whole address"},
	})
	tryCanonical(t, "deny-network", here, []canonCase{
		{"https://evil.com/*", "evil.com:443"}, {"http://evil.com:8080", "evil.com:8080"}, {"10.0.0.0/8:25", "10.0.0.0/8:25"},
		{"0.0.0.0", "0.0.0.0"}, {"*:25", "*:25"}, {"http://evil.com/admin/*", "!only hosts can be denied"}, {"ftp://evil.com", "!unknown scheme"},
		{"*.internal", "*.internal"}, {"localhost", "localhost"}, {"all", "!allow nothing"}})
}

func TestPorts(t *testing.T) {
	tryCanonical(t, "allow-port", here, []canonCase{
		{"1", "1"}, {"443", "443"}, {"65535", "65535"}, {"0", "!is zero"}, {"65536", "!too large"}, {"-1", "!negative"}, {"http", "!not a number"}, {"", "!not a number"},
	})
	tryCanonical(t, "publish", here, []canonCase{
		{"8080:80", "8080:80"}, {"80", "!no port inside"}, {"0:80", "!outside that is zero"}, {"80:0", "!inside that is zero"}, {"a:80", "!outside"}, {"1:2:3", "!inside"},
	})
}

// Whatever is accepted is its own canonical form, and has nothing in it that a list of words
// could be split at.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"example.com:443", "[::1]:80", "10.0.0.0/8", "https://a/*", "http://a/b,c/*", "a,b", "all"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, option := range []string{"allow-network", "deny-network"} {
			o := LookupOption(option)
			got, err := o.canonical(place{}, s)
			if err != nil {
				if u, ok := errors.AsType[*UsageError](err); !ok || u.Msg == "" {
					t.Fatalf("%s %q: %v", option, s, err)
				}
				continue
			}
			if got == "" || strings.ContainsAny(got, ", \t\r\n\x00") {
				t.Fatalf("%s %q became %q", option, s, got)
			}
			if again, err := o.canonical(place{}, got); err != nil || again != got {
				t.Fatalf("%s %q became %q, then %q, %v", option, s, got, again, err)
			}
		}
	})
}

func TestConflicts(t *testing.T) {
	for _, c := range []struct {
		name, want string
		flags      []Setting
	}{
		{"deny on the caller's network", "deny-network", []Setting{flag("allow-network", "all"), flag("deny-network", "x")}},
		{"ports on the caller's network", "allow-port", []Setting{flag("allow-network", "all"), flag("allow-port", "80")}},
		{"bytes on the caller's network", "network-bytes can't", []Setting{flag("allow-network", "all"), flag("network-bytes", "1M")}},
		{"connections on the caller's network", "--network-connections none", []Setting{flag("allow-network", "all"), flag("network-connections", "4")}},
		{"a virtual tree of nothing", "virtual-fs", []Setting{flag("virtual-fs")}},
		{"two mounts at one place", "same destination", []Setting{flag("mount", "/a:/x"), flag("mount", "/b:/x/")}},
		{"one port published twice", "same port", []Setting{flag("publish", "80:1"), flag("publish", "80:2")}},
		{"required and given up", `"memory"`, []Setting{flag("require", "memory=x"), flag("allow-partial", "mem")}},
		{"captured and on a terminal", "--tty always", []Setting{flag("json"), flag("tty", "always")}},
		{"two reports in one file", "two places", []Setting{flag("report", "/x"), flag("events", "/x")}},
		{"a record in the file of events", "events and record", []Setting{flag("events", "/x"), flag("record", "/x")}},
	} {
		_, err := Resolve(Sources{Dir: "/", Flags: c.flags})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, flags := range [][]Setting{
		{flag("allow-network", "all"), flag("allow-partial", "all"), flag("require", "memory")},
		{flag("allow-network", "all"), flag("network-bytes", "none"), flag("network-connections", "none")},
		{flag("virtual-fs"), flag("mount", "/a:/b"), flag("mount", "/a:/c"), flag("publish", "1:1,2:2")},
	} {
		if _, err := Resolve(Sources{Dir: "/", Flags: flags}); err != nil {
			t.Errorf("%v: %v", flags, err)
		}
	}
}

func TestOptionsWithoutEffectGiveNotices(t *testing.T) {
	for _, c := range []struct {
		want  string
		flags []Setting
	}{
		{"", nil},
		{"narrows nothing", []Setting{flag("allow-network", "all,example.com")}},
		{"nothing to keep", []Setting{flag("keep")}},
		{"does nothing without", []Setting{flag("vm-kernel", "/k")}},
		{"", []Setting{flag("vm-kernel", "/k"), flag("isolation", "vm")}},
		{"", []Setting{flag("keep"), flag("workdir", "overlay")}},
		{"", []Setting{flag("keep"), flag("overlay", "/o")}},
		{"", []Setting{flag("keep"), flag("mount", "/a:/b:overlay")}},
	} {
		r := resolve(t, Sources{Dir: "/", Flags: c.flags})
		if got := strings.Join(r.Notices, "\n"); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v: notices %q", c.flags, r.Notices)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, spoil := range map[string]func(*Policy){
		"time-limit":    func(p *Policy) { p.TimeLimit = -1 },
		"memory-limit":  func(p *Policy) { p.MemoryLimit = -5 },
		"cpu-time":      func(p *Policy) { p.CPUTime = -1 },
		"output-limit":  func(p *Policy) { p.OutputLimit = -1 },
		"grace":         func(p *Policy) { p.Grace = -time.Second },
		"cpus":          func(p *Policy) { p.CPUs = -1 },
		"allow-network": func(p *Policy) { p.Network.Allow = []string{"a b"} },
		"allow-port":    func(p *Policy) { p.Network.Ports = []int{0} },
		"allow-read":    func(p *Policy) { p.Filesystem.AllowRead = []string{"relative"} },
		"workdir":       func(p *Policy) { p.Filesystem.Workdir = "rx" },
		"mount":         func(p *Policy) { p.Filesystem.Mounts = []Mount{{Src: "/a", Dst: "b"}} },
		"env ":          func(p *Policy) { p.Env.Pass = []string{"A=B"} },
		"env-set":       func(p *Policy) { p.Env.Set = map[string]string{"": "x"} },
		"user":          func(p *Policy) { p.User = &User{UID: 1<<32 - 1} },
		"require":       func(p *Policy) { p.Require = []string{"x"} },
		"same destination": func(p *Policy) {
			p.Filesystem.Mounts = []Mount{{Src: "/a", Dst: "/b"}, {Src: "/c", Dst: "/b"}}
		},
	} {
		p := Default()
		must.Do(t, p.Validate())
		spoil(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Policy{}).Validate(); err != nil {
		t.Errorf("the zero policy: %v", err)
	}
}
