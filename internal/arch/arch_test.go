package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

const module = "github.com/confine-run/confine"

// group is packages that may import the same things of ours.
type group struct {
	name     string
	packages []string // below the module; "x/..." is everything below x, "*/x" an x anywhere
	may      []string // groups
	why      string
}

// groups, the first that names a package counts.
var groups = []group{
	{"generators", []string{"*/gen", "*/gen/..."}, []string{"leaves", "network messages", "mechanisms", "plan", "host", "configuration", "command line"},
		"they run at build time, and what they make is checked in"},
	{"leaves", []string{"status", "internal/handoff", "internal/linux", "internal/darwin", "internal/redact", "internal/hierarchy", "internal/mounts", "internal/shell", "internal/unseen", "internal/gitindex", "internal/hint", "internal/quote"}, []string{"leaves"},
		"both sides of a run share them: what they import, the inside starts with"},
	{"plan", []string{"internal/plan"}, []string{"leaves", "rules"},
		"plain data between those who make it and those who act on it"},
	{"network messages", []string{"internal/netns"}, []string{"leaves"},
		"what a plan sends is what a probe tries"},
	{"host", []string{"internal/host"}, []string{"leaves", "network messages"},
		"what a host can do doesn't depend on what is wanted of it"},
	{"changes", []string{"internal/changes"}, []string{"leaves"},
		"what a run left is read by the outside at its end, and shown and applied long after"},
	{"inside", []string{"child", "child/..."}, []string{"leaves", "inside"},
		"it acts on the hand-off alone; the policy, and the outside, are none of its business"},
	{"images", []string{"internal/image"}, []string{"leaves"},
		"it makes a tree of an archive, whatever that is used for"},
	{"snapshots", []string{"internal/snapshot"}, []string{"leaves"},
		"it keeps what is in the files of a sandbox, whoever has that"},
	{"modules", []string{"internal/wasm"}, []string{"leaves"},
		"what starts the engine of WebAssembly and the engine itself agree on it"},
	{"engine", []string{"internal/wasm/engine"}, []string{"leaves", "modules"},
		"it runs inside, and knows nothing of policies"},
	{"engine program", []string{"cmd/confine-wasm"}, []string{"engine"},
		"it only decides what this process is"},
	{"outside", []string{"supervisor", "supervisor/..."}, []string{"leaves", "plan", "changes", "rules", "outside"},
		"it starts the inside by its name in argv and talks to it through the hand-off alone"},
	{"rules", []string{"internal/network"}, nil,
		"the plan, explain and the gateway ask it: it knows none of them"},
	{"host files", []string{"internal/hostfs", "internal/hostfs/..."}, []string{"leaves", "host files", "view"},
		"what is on the host is asked in one place, and in tests of a tree in memory"},
	{"view", []string{"internal/view"}, []string{"leaves", "host files"},
		"one portable value: no mount, no rule and no system call is in it"},
	{"learning", []string{"internal/learn"}, []string{"leaves", "rules", "host files", "mechanisms"},
		"it makes a profile of what somebody else saw: it runs nothing, and asks by functions that it is given"},
	{"mock", []string{"confine/confinetest"}, []string{"leaves", "configuration", "seam", "api"},
		"it meets the seam, and confines nothing"},
	{"mechanisms", []string{"internal/discover", "internal/explain", "internal/seatbelt", "internal/seatbelt/seatbelttest", "internal/gitdir", "internal/hide", "internal/landlock", "internal/located", "internal/names", "internal/protect", "internal/rootfs",
		"internal/seccomp", "internal/seccomp/inspect", "internal/seccomp/policyfile", "internal/secrets"}, []string{"leaves", "plan", "host files", "view", "mechanisms"},
		"each compiles policy to data, and acts on nothing"},
	{"configuration", []string{"internal/config"}, []string{"leaves", "rules", "host files", "view", "mechanisms", "changes"},
		"what is wanted, from every place that says it: it knows nothing of the host"},
	{"review", []string{"internal/review"}, []string{"leaves", "configuration", "changes"},
		"what is applied is protected in one way, whoever applies it"},
	{"seam", []string{"backend"}, []string{"leaves", "plan", "host", "configuration"},
		"what a backend has to do, without knowing one"},
	{"conformance", []string{"backend/conformance"}, []string{"leaves", "configuration", "seam", "tests' own"},
		"it holds every backend to the same, and knows none"},
	{"files of sandboxes", []string{"backend/process/internal/boxfiles"}, []string{"leaves", "seam"},
		"a descriptor of a root directory is all that it knows of a sandbox"},
	{"layers of sandboxes", []string{"backend/process/internal/layers"}, []string{"leaves", "plan", "snapshots", "outside"},
		"what sandboxes stand on is held here, and built on by nobody but the child"},
	{"host's files of sandboxes", []string{"backend/internal/hostfiles"}, []string{"leaves", "seam"},
		"it reads and writes in places, and knows nothing of who made them"},
	{"Windows", []string{"backend/windows"}, []string{"leaves", "plan", "host", "view", "configuration", "seam", "outside", "tasks", "host's files of sandboxes"},
		"what it decides is data, made and tested on every system; what acts on it is for one"},
	{"macOS", []string{"backend/darwin"}, []string{"leaves", "plan", "host", "rules", "host files", "view", "mechanisms", "configuration", "seam", "outside", "tasks", "host's files of sandboxes"},
		"what it decides is data, made and tested on every system; what acts on it is for one"},
	{"tasks", []string{"backend/internal/task"}, []string{"leaves", "plan", "configuration", "seam", "outside"},
		"a sandbox as it is held from outside alone, whatever system is below it"},
	{"processes", []string{"backend/process"}, []string{"files of sandboxes", "layers of sandboxes", "leaves", "plan", "host", "rules", "network messages", "host files", "view", "mechanisms", "changes", "images", "snapshots", "modules", "inside", "outside", "configuration", "seam"},
		"policy and host become a plan here, and the outside carries it out"},
	{"tests' own", []string{"internal/overlaytest", "internal/golden", "internal/must"}, nil,
		"they know nothing of what is tested"},
	{"first file systems", []string{"internal/initramfs"}, nil,
		"what a kernel boots with, whoever boots it"},
	{"words of machines", []string{"backend/vm/internal/wire"}, []string{"leaves", "configuration", "seam"},
		"the host and the guest of a machine meet in it"},
	{"guests", []string{"backend/vm/internal/guest"}, []string{"configuration", "seam", "processes", "words of machines", "words of keepers"},
		"it is a host of processes, and does what its own host says"},
	{"files of machines", []string{"backend/vm/internal/ninep"}, []string{"leaves"},
		"a protocol over what the walls around it show, and nothing else"},
	{"words of keepers", []string{"backend/vm/internal/keeper"}, []string{"snapshots"},
		"the host and the keeper of a machine meet in it"},
	{"keepers", []string{"backend/vm/qemu"}, []string{"first file systems", "files of machines", "words of keepers"},
		"it is beside QEMU, and as little believed: what the host wants it is told"},
	{"keeper program", []string{"cmd/confine-vm"}, []string{"keepers"},
		"it only decides what this process is"},
	{"virtual machines", []string{"backend/vm"}, []string{"leaves", "host", "host files", "configuration", "seam", "processes", "words of machines", "guests", "words of keepers"},
		"a machine is a process in a sandbox of processes"},
	{"backends", []string{"internal/backends"}, []string{"host", "configuration", "seam", "processes", "virtual machines", "Windows", "macOS"},
		"the list of those that there are"},
	{"places", []string{"internal/places"}, nil,
		"how many there are at a time is the same question, whatever has a place"},
	{"pools", []string{"internal/pool"}, []string{"leaves", "configuration", "seam", "mock", "places"},
		"it keeps what a backend has built ahead, for whoever claims it"},
	{"api", []string{"confine"}, []string{"leaves", "configuration", "seam", "backends", "pools", "changes", "review"},
		"it names what programs may use"},
	{"trees of files", []string{"internal/filetree"}, nil,
		"a sandbox's files and the host's are one interface to it"},
	{"sandboxes", []string{"internal/sandboxes", "internal/sandboxes/sandboxestest"}, []string{"leaves", "configuration", "seam", "snapshots", "review", "sandboxes", "mock", "places"},
		"it keeps what a backend has built, whoever asks for it and however"},
	{"sockets", []string{"internal/sockets"}, []string{"configuration"},
		"how a server is reached, whatever is asked of it"},
	{"E2B", []string{"internal/e2b"}, []string{"trees of files", "leaves", "sockets", "configuration", "seam", "sandboxes", "mock"},
		"another way to ask for the same sandboxes; who may, and for what, the server says"},
	{"server", []string{"internal/serve"}, []string{"E2B", "trees of files", "leaves", "configuration", "seam", "sandboxes", "snapshots", "sockets", "pools", "places", "mock", "changes", "review", "terminals"},
		"it is how sandboxes are asked for from outside of the program"},
	{"moves", []string{"internal/teleport"}, []string{"server"},
		"it is a client of two servers, and holds nothing itself"},
	{"sessions", []string{"internal/session"}, []string{"moves", "trees of files", "leaves", "configuration", "seam", "sandboxes", "snapshots", "sockets", "server", "changes", "command line", "terminals"},
		"it takes the options of a run, and is a client of a server of its own"},
	{"live view", []string{"internal/top"}, []string{"leaves", "configuration", "seam", "server", "sessions", "terminals"},
		"it is a client of every session's server, and of others"},
	{"queue", []string{"internal/jobs", "internal/jobs/tunnel", "internal/jobs/jobstest"}, []string{"leaves", "configuration", "queue"},
		"it says what becomes of jobs, and runs none"},
	{"queue's server", []string{"internal/jobs/embedded"}, []string{"leaves", "queue"},
		"it is a server like any other, in a process of its own"},
	{"worker", []string{"internal/jobs/worker"}, []string{"trees of files", "leaves", "configuration", "seam", "pools", "queue", "sandboxes", "sockets", "server"},
		"it runs what the queue has, in what a backend has built, and holds sessions for a server of its own"},
	{"queue's commands", []string{"internal/jobs/command"}, []string{"trees of files", "leaves", "configuration", "seam", "queue", "queue's server", "worker", "sessions", "server", "sandboxes", "command line", "terminals"},
		"they take the options of a run"},
	{"worker program", []string{"cmd/confine-worker"}, []string{"backends", "queue's commands"},
		"it only decides what this process is"},
	{"containers", []string{"internal/oci"}, []string{"leaves", "configuration", "seam", "terminals"},
		"it makes a policy of a bundle, and a sandbox of that as anybody does"},
	{"pictures", []string{"internal/picture"}, []string{"leaves", "configuration", "command line", "terminals"},
		"it draws what a run has written, and knows nothing of what runs"},
	{"server program", []string{"cmd/confine-server"}, []string{"backends", "server", "sessions", "live view", "pictures", "containers"},
		"it only decides what this process is"},
	{"self-test", []string{"internal/selftest"}, []string{"leaves", "configuration", "processes", "outside", "rules", "attempts"},
		"it runs what the command line would"},
	{"command line", []string{"internal/cli", "internal/cli/..."}, []string{"leaves", "host", "configuration", "seam", "backends", "processes", "virtual machines", "outside", "changes", "review", "self-test", "learning", "modules", "command line", "terminals", "system call policies"},
		"it asks for what a run tells while it goes on, which the API doesn't"},
	{"program", []string{""}, []string{"host", "api", "inside", "self-test", "command line"},
		"it only decides what this process is: the inside, a probe, an attempt, or the command line"},
	{"attempts", []string{"internal/attempts", "internal/i386"}, []string{"attempts"},
		"what a hostile program tries knows nothing of what holds it"},
	{"machines", []string{"integration/machines", "integration/machines/..."}, []string{"leaves", "host", "machines", "first file systems"},
		"the host's side and the guest's share the orders between them"},
	{"from outside", []string{"integration", "integration/...", "bench", "bench/...", "examples/...", "internal/arch"},
		[]string{"leaves", "host", "api", "configuration", "mock", "attempts", "first file systems"}, "they see what a user sees, and the host's probes for their conditions"},
}

// alsoIn are packages that are allowed by a second name, beside their group's.
var alsoIn = map[string]string{
	// The user's terminal is one thing, whether confine draws its status line on
	// it or passes it on.
	"supervisor/terminal": "terminals",
	// "confine seccomp" shows and compares policies that no run asks for.
	"internal/seccomp":            "system call policies",
	"internal/seccomp/inspect":    "system call policies",
	"internal/seccomp/policyfile": "system call policies",
}

// never are packages of anybody's that something must not lead to, however far.
var never = []struct{ from, to, why string }{
	{"child", "fmt", "package initialisation is paid before every target"},
	{"child", "os", "its initialisation makes files, pollers and finalizers of descriptors that are not its own"},
	{"child", "os/signal", "signals keep their default action inside"},
	{"child", "context", "package initialisation is paid before every target"},
	{"child", "net", "package initialisation is paid before every target"},
	{"child", "encoding/json", "package initialisation is paid before every target"},
	{"child", "regexp", "package initialisation is paid before every target"},
	{"child", "log", "the inside has nobody to tell but the outside"},
	{"child", module + "/supervisor", "the sides meet in the hand-off"},
	{"supervisor", module + "/child", "the sides meet in the hand-off"},
	{"", "github.com/nats-io/nats.go", "start-up, twice for every run: jobs have a program of their own"},
	{"cmd/confine-server", "github.com/nats-io/nats.go", "jobs have a program of their own"},
	{"", "net/http", "start-up, twice for every run"},
	{"", "github.com/tetratelabs/wazero", "start-up, twice for every run"},
	{"", "github.com/xi2/xz", "start-up, twice for every run: the keeper of a machine unpacks kernels"},
	{"", "github.com/klauspost/compress", "start-up, twice for every run: the keeper of a machine unpacks kernels"},
	{"", "crypto/tls", "start-up, twice for every run"},
	{"", "regexp", "start-up, twice for every run: it brings tables of all of Unicode"},
	{"", "text/template", "start-up, twice for every run"},
	{"", "html/template", "start-up, twice for every run"},
	{"", "github.com/elastic/go-seccomp-bpf", "its tables are generated into ours; off Linux it does nothing and says it did"},
	{"", "testing", "no test code in the program"},
	{"", "runtime/cgo", "one static binary"},
}

// insideLibraries are all that the inside may import of anybody else's.
var insideLibraries = []string{"golang.org/x/sys/unix"}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Standard   bool
}

// list is asked once, for one platform, so that the answer is the same on all.
var list = sync.OnceValues(func() ([]listed, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps,Standard", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New("go list: " + err.Error() + "\n" + errs.String())
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

const root = "../.."

func packages(t *testing.T) []listed {
	t.Helper()
	all, err := list()
	must.Do(t, err)
	if len(all) < 5 {
		t.Fatalf("go list knows only %d packages", len(all))
	}
	return all
}

// below is a package's path in the module; ok is false for anybody else's.
func below(importPath string) (name string, ok bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func matches(pattern, name string) bool {
	if anywhere, ok := strings.CutPrefix(pattern, "*/"); ok {
		for rest := name; rest != ""; {
			if matches(anywhere, rest) {
				return true
			}
			_, rest, _ = strings.Cut(rest, "/")
		}
		return false
	}
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return strings.HasPrefix(name, dir+"/")
	}
	return pattern == name
}

func groupOf(name string) (group, bool) {
	for _, g := range groups {
		for _, pattern := range g.packages {
			if matches(pattern, name) {
				return g, true
			}
		}
	}
	return group{}, false
}

func TestEveryImportHasAReason(t *testing.T) {
	for _, p := range packages(t) {
		name, _ := below(p.ImportPath)
		from, ok := groupOf(name)
		if !ok {
			t.Errorf("%s is in no group: say in the table what it may import, and why", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			to, ours := below(imported)
			if !ours {
				continue
			}
			into, _ := groupOf(to)
			if !slices.Contains(from.may, into.name) && !slices.Contains(from.may, alsoIn[to]) {
				t.Errorf("%s imports %s\n\t%s may import %s: %s", p.ImportPath, imported, from.name, strings.Join(from.may, ", "), from.why)
			}
		}
	}
}

func TestNothingLeadsWhereItMustNot(t *testing.T) {
	for _, rule := range never {
		found := false
		for _, p := range packages(t) {
			if name, _ := below(p.ImportPath); name != rule.from {
				continue
			}
			found = true
			if slices.Contains(p.Deps, rule.to) {
				t.Errorf("%s leads to %s: %s", p.ImportPath, rule.to, rule.why)
			}
		}
		if !found {
			t.Errorf("no package %q", path.Join(module, rule.from))
		}
	}
}

func TestTheInsideUsesNoOtherLibraries(t *testing.T) {
	std := map[string]bool{}
	for _, p := range packages(t) {
		name, _ := below(p.ImportPath)
		if g, _ := groupOf(name); g.name != "inside" {
			continue
		}
		for _, dep := range p.Deps {
			first, _, _ := strings.Cut(dep, "/")
			if _, ours := below(dep); ours || !strings.Contains(first, ".") {
				std[dep] = true
				continue
			}
			if !slices.Contains(insideLibraries, dep) {
				t.Errorf("%s leads to %s", p.ImportPath, dep)
			}
		}
	}
	if !std["runtime"] {
		t.Error("the inside leads nowhere: nothing was looked at")
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"child", "child", true}, {"child", "children", false}, {"child/...", "child", false}, {"child/...", "child/x", true},
		{"*/gen", "internal/seccomp/gen", true}, {"*/gen", "gen", true}, {"*/gen/...", "internal/seccomp/gen/tables", true},
		{"*/gen", "confine/generate", false}, {"", "", true}, {"", "child", false},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
}
