package learn

import (
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/confine-run/confine/internal/golden"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/seccomp"
	"github.com/confine-run/confine/status"
)

func made(t *testing.T, seen string, wall time.Duration) *Profile {
	t.Helper()
	h := tree(usual...)
	return Make(&Seen{Command: "cmd", Wall: wall, Accesses: accesses(t, h, seen)}, world(h), "x", "x.seccomp.toml", Extra{})
}

// Two runs that did different things give a profile for both, and what a person wrote stays.
func TestMerge(t *testing.T) {
	first := made(t, "read /work/other/f by cat\nwrite /work/p/build/o by make", time.Minute).TOML()
	first = strings.Replace(first, "[sandbox.profiles.x]", "# a person's\n[sandbox.profiles.x]\ngrace = \"5s\" # mine", 1)
	first = strings.Replace(first, "    \"/work/other/f\"", "    # also mine\n    \"/opt/mine\", # and this\n    \"/work/other/f\"", 1)
	first = strings.Replace(first, "processes = 16", "processes = 500", 1)
	second := made(t, "read /home/u/doc by vi\ncreate /work/p/new by vi\nread /work/other/f by vi", time.Second)
	text, err := second.Merge("# at the top\n" + first + "\n[sandbox.profiles.other]\nextends = \"x\"\n# the end\n")
	must.Do(t, err)
	golden.Check(t, "testdata/merge.golden", text)
	var file struct {
		Sandbox struct {
			Profiles map[string]map[string]any
		}
	}
	must.Do(t, toml.Unmarshal([]byte(text), &file))
	x := file.Sandbox.Profiles["x"]
	fs := x["filesystem"].(map[string]any)
	if x["time_limit"] != "3m" || x["processes"] != int64(500) || x["grace"] != "5s" || fs["workdir"] != "rw" || len(fs["allow_read"].([]any)) != 3 || len(fs["allow_write"].([]any)) != 0 {
		t.Errorf("%v", x)
	}
	for _, kept := range []string{"# at the top\n", "# a person's\n", "# mine\n", "    # also mine\n", "# and this\n", "# the end\n", "[sandbox.profiles.other]"} {
		if strings.Count(text, kept) != 1 {
			t.Errorf("%q is there %d times", kept, strings.Count(text, kept))
		}
	}
	again, err := second.Merge(text)
	if err != nil || again != text {
		t.Errorf("once more it is another: %v\n%s", err, again)
	}
}

// What a person said about a value that grows stays, and learn's own comment doesn't.
func TestMergeKeepsThePersonsReason(t *testing.T) {
	first := made(t, "write /work/p/build/o by make\ncreate /work/p/build/new by make", time.Second).TOML()
	first = strings.Replace(first, `workdir = "none" # `+whyNotUsed, `workdir = "none" # never: it is secret`, 1)
	first = strings.Replace(first, `workdir = "ro" # `+whyRead, `workdir = "none" # never: it is secret`, 1)
	first = strings.Replace(first, `    "./build"`, "    \"./mine\", # a person's\n    \"./build\"", 1)
	if !strings.Contains(first, "never: it is secret") || !strings.Contains(first, `"./build", # written`) {
		t.Fatal(first)
	}
	p := made(t, "create /work/p/out by sh", time.Hour)
	text, err := p.Merge(first)
	if err != nil || !strings.Contains(text, "# never: it is secret\nworkdir = \"rw\" # "+whyWritten+": out\n") {
		t.Errorf("%v\n%s", err, text)
	}
	if strings.Contains(text, "./build") || !strings.Contains(text, `"./mine", # a person's`) {
		t.Errorf("allow_write:\n%s", text)
	}
	if strings.Contains(text, "# took 1.00s") || !strings.Contains(text, "# took 1h0m0s") {
		t.Errorf("learn's own comments:\n%s", text)
	}
	if got := strings.Join(p.Widened, "; "); got != `time_limit = "10s" to "3h"; workdir = "none" to "rw"` {
		t.Errorf("%s", got)
	}
	if again, err := p.Merge(text); err != nil || again != text || len(p.Widened) > 0 {
		t.Errorf("%v, %v\n%s", err, p.Widened, again)
	}
}

func TestFilesThatCanNotBeMergedWith(t *testing.T) {
	p := made(t, "", 0)
	for _, text := range []string{
		"", "x", "[sandbox]\nprofile = \"x\"\n", "[sandbox]\nprofile = \"y\"\n[sandbox.profiles.y]\n", "[sandbox]\nprofile = \"x\"\nprofile = \"x\"\n",
		"[sandbox]\nprofile = \"x\"\n[sandbox.profiles.x]\n[[rules]]\n", "\x00",
	} {
		if out, err := p.Merge(text); err == nil {
			t.Errorf("%q was merged with:\n%s", text, out)
		}
	}
}

// Other ways of writing the same file are left as they are, and added to.
func TestMergeWithWhatAPersonWrote(t *testing.T) {
	p := made(t, "read /work/other/f by cat", 0)
	for _, text := range []string{
		"sandbox = { profile = \"x\", profiles = { x = { extends = \"strict\" } } }\n",
		"[sandbox]\nprofile = 'x'\n[ sandbox . profiles . x ]\n[sandbox.profiles.x.filesystem]\nallow_read = [ '/a', \"/b#c\" ] # one line\nworkdir = \"overlay\"\n",
		"[sandbox]\nprofile = \"x\"\nprofiles.x.filesystem.allow_read = [\"/a\"]\n",
		"[sandbox]\nprofile = \"x\"\n[sandbox.profiles.x]\ntime_limit = \"none\"\nfilesystem = { allow_read = [\"/a\"] }\n",
		"[sandbox]\nprofile = \"x\"\n[sandbox.profiles.x.filesystem]\nallow_read = [\n\"/a\", \"/b\", # two\n# own\n]\n",
	} {
		out, err := p.Merge(text)
		if err != nil {
			continue // and that is said
		}
		var all map[string]any
		if err := toml.Unmarshal([]byte(out), &all); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if strings.Contains(text, "/a") && !strings.Contains(out, "/a") || !strings.Contains(out, "/work/other/f") {
			t.Errorf("lost:\n%s", out)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("[sandbox]\nprofile = \"x\"\n[sandbox.profiles.x]\na = [\n  'b', # c\n]\n")
	h := tree(usual...)
	p := Make(&Seen{Accesses: []Access{{Path: "/work/other/f", Op: Read, Exists: true}}}, world(h), "x", "x.seccomp.toml", Extra{})
	f.Fuzz(func(t *testing.T, text string) {
		out, err := p.Merge(text)
		if err != nil {
			return
		}
		var before, after map[string]any
		if toml.Unmarshal([]byte(text), &before) != nil || toml.Unmarshal([]byte(out), &after) != nil {
			t.Fatalf("%q became %q", text, out)
		}
	})
}

func TestMergeCompanion(t *testing.T) {
	s := &Seen{Calls: []Call{{Name: "memfd_create", What: "memfd_create", Comm: "a"}, {Name: "memfd_create", What: "memfd_create", Comm: "b"}}}
	first := s.companion(&notes{}, true)
	if strings.Count(first, "[[rules]]") != 2 {
		t.Errorf("%s", first)
	}
	const afNetlink = 16
	second := (&Seen{Calls: []Call{{Name: "socket", What: "socket(AF_NETLINK)", Args: [6]uint64{afNetlink, 3}}, {Name: "memfd_create", What: "memfd_create"}}}).companion(&notes{}, false)
	both := MergeCompanion(first, second)
	if strings.Count(both, "[[rules]]") != 3 || strings.Count(both, "memfd_create\"") != 1+strings.Count(first, "memfd_create\"")-1 || MergeCompanion(both, first) != both || MergeCompanion("", first) != first {
		t.Errorf("%s", both)
	}
	n := &notes{}
	if text := (&Seen{Calls: []Call{{Name: "ptrace", What: "ptrace(PTRACE_ATTACH)", Refused: true}, {What: "call 9999", Name: "call 9999"}}}).companion(n, false); text != "" || len(n.all()) != 2 {
		t.Errorf("%s %q", text, n.all())
	}
}

func TestHosts(t *testing.T) {
	n := &notes{}
	line := (&Seen{OtherAttempts: 2, Attempts: []status.Attempt{
		{What: "api.github.com:443", Name: "api.github.com", Address: "140.82.121.6", Port: 443, Protocol: "tcp", Verdict: "allowed", Comm: "curl"},
		{What: "api.github.com", Name: "api.github.com", Protocol: "dns", Verdict: "allowed"},
		{What: "unused.example.com", Name: "unused.example.com", Protocol: "dns", Verdict: "allowed"},
		{What: "localhost:8080", Address: "127.0.0.1", Port: 8080, Protocol: "tcp", Verdict: "allowed"},
		{What: "inside.example.com:80", Name: "inside.example.com", Address: "10.0.0.1", Port: 80, Protocol: "tcp", Verdict: "allowed"},
		{What: "8.8.8.8:53", Address: "8.8.8.8", Port: 53, Protocol: "udp", Verdict: "allowed"},
		{What: "down.example.com:1", Name: "down.example.com", Address: "140.82.121.7", Port: 1, Protocol: "tcp", Verdict: "failed", Why: "ECONNREFUSED"},
		{What: "169.254.169.254:80", Address: "169.254.169.254", Port: 80, Protocol: "tcp", Verdict: "blocked", Why: "internal", Hint: "--allow-network 169.254.169.254:80"},
	}}).hosts(n)
	denied := &Seen{DenySaid: true, Attempts: []status.Attempt{{What: "evil.example", Name: "evil.example", Protocol: "dns", Verdict: "blocked", Why: "not_allowed"}}}
	denied.hosts(n)
	got := line.String() + "\n" + strings.Join(n.all(), "\n") + "\n"
	golden.Check(t, "testdata/hosts.golden", got)
}

// Sockets of the network are beyond strict where no host may be reached, and its own where
// one may, by this run or by the one that it is merged with.
func TestSocketsWithoutHosts(t *testing.T) {
	const afInet, stream, raw = 2, 1, 3
	sockets := Seen{Calls: []Call{{Name: "socket", What: "socket(AF_INET, SOCK_STREAM, 0)", Args: [6]uint64{afInet, stream}}}}
	alone, merged, onlyHosts := sockets, sockets, Seen{}
	merged.Beside.Hosts = true
	onlyHosts.Beside.Hosts, onlyHosts.Beside.Companion = true, true
	h := tree(usual...)
	for _, c := range []struct {
		name  string
		seen  *Seen
		rules string // by which what is to go through does
	}{{"alone", &alone, "learned-socket"}, {"merged with hosts", &merged, ""}, {"hosts, merged with a companion", &onlyHosts, "network"}} {
		p := Make(c.seen, world(h), "x", "x.seccomp.toml", Extra{})
		if c.rules == "" != (p.Companion == "") || !strings.Contains(p.Companion, c.rules) {
			t.Errorf("%s: %s", c.name, p.Companion)
		}
	}
	for text, want := range map[string]bool{
		"": false, "[sandbox]\nprofile=\"x\"\n": false, "[sandbox]\nprofile=\"x\"\n[sandbox.profiles.x.network]\nallow_domains=[]\n": false,
		"[sandbox]\nprofile=\"x\"\n[sandbox.profiles.x.network]\nallow_domains=[\"a.test\"]\n": true,
		"[sandbox]\nprofile=\"x\"\n[sandbox.profiles.x.network]\nallow_domains=\"all\"\n":      true,
	} {
		if older, _ := ReadOlder(text); older.Hosts != want {
			t.Errorf("%q", text)
		}
	}
	if !seccomp.OfNetwork("socket", [6]uint64{afInet, stream}) || seccomp.OfNetwork("socket", [6]uint64{afInet, raw}) || seccomp.OfNetwork("memfd_create", [6]uint64{}) {
		t.Error("what is the network's")
	}
}
