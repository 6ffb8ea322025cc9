package integration

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/must"
)

// seedVar repeats one policy, or some, of TestExplainIsWhatTheKernelDoes.
const seedVar = "CONFINE_TEST_SEED"

// question is one thing that explain is asked and the kernel is asked to do.
type question struct {
	flags []string // of explain
	line  string   // of attempt ask
}

// policyOf is a random policy, the place where it holds, and what is asked there.
type policyOf struct {
	dir       string
	options   []string
	questions []question
	under     []string // what both commands are started by
}

// TestExplainIsWhatTheKernelDoes: random policies over random trees, networks and
// system calls; each access is first asked about and then made, in one run.
func TestExplainIsWhatTheKernelDoes(t *testing.T) {
	t.Parallel()
	needs(t, "userns")
	seeds := seedsOf(t)
	servers := listenEverywhere(t)
	base := baseline(t)
	var seen tally
	for _, seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 3))
		dir := filepath.Join(scene.dir, "explain", strconv.Itoa(os.Geteuid()), strconv.FormatUint(seed, 10))
		var p policyOf
		switch kind := seed % 8; {
		case kind < 5:
			p = randomFiles(t, r, dir)
		case kind == 5:
			p = randomNetwork(t, r, dir, servers)
		case kind == 6:
			p = randomCalls(t, r, dir)
		default:
			p = randomFiles(t, r, dir)
			if os.Geteuid() != 0 || host.Current().Capable(0) {
				p.under = []string{filepath.Join(scene.programs, "attempt"), "no-userns"}
				p.options = append(p.options, "--allow-partial", "all")
			}
		}
		p.hold(t, seed, base, &seen)
	}
	if seen.started*2 < len(seeds) {
		t.Errorf("of %d policies only %d were started", len(seeds), seen.started)
	}
	if len(seeds) > 1 {
		for _, kind := range []string{"read", "write", "create", "exec", "call", "connect"} {
			if seen.yes[kind] == 0 || seen.no[kind] == 0 {
				t.Errorf("%s: %d times yes, %d times no: one of them was never tried", kind, seen.yes[kind], seen.no[kind])
			}
		}
	}
	t.Logf("yes %v, no %v", seen.yes, seen.no)
}

// seedsOf are 0 to 23, or what the variable says: "7", "100-300".
func seedsOf(t *testing.T) (seeds []uint64) {
	t.Helper()
	first, last, isRange := strings.Cut(cmp.Or(os.Getenv(seedVar), "0-23"), "-")
	if !isRange {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 32)
	to, err2 := strconv.ParseUint(last, 10, 32)
	must.Do(t, errors.Join(err, err2))
	for ; from <= to; from++ {
		seeds = append(seeds, from)
	}
	return seeds
}

// tally counts what was tried.
type tally struct {
	yes, no map[string]int
	started int
}

func (s *tally) add(kind string, yes bool) {
	if s.yes == nil {
		s.yes, s.no = map[string]int{}, map[string]int{}
	}
	if yes {
		s.yes[kind]++
	} else {
		s.no[kind]++
	}
}

// hold compares what explain says with what happens.
func (p *policyOf) hold(t *testing.T, seed uint64, base map[string]string, seen *tally) {
	t.Helper()
	answers, refused := p.explain(t)
	results, started := p.run(t)
	if refused && started {
		t.Errorf("%s=%d: explain says that it would not start, and it did: confine %s", seedVar, seed, strings.Join(p.options, " "))
	}
	if refused || !started { // the second by itself: a step of the set-up failed, and nothing was let through
		return
	}
	seen.started++
	if len(answers) != len(p.questions) || len(results) != len(p.questions) {
		t.Fatalf("seed %d: %d questions, %d answers, %d results: %q\n%s", seed, len(p.questions), len(answers), len(results), results, strings.Join(p.options, " "))
	}
	failed := false
	for i, q := range p.questions {
		kind, _, _ := strings.Cut(q.line, " ")
		a, got := answers[i], results[i]
		want := "ok"
		switch {
		case a.Answer == config.AnswerDepends: // on what nobody can know before
			want = got
		case kind == "call" && a.Yes():
			want = base[q.line] // whatever is behind the filter
		case kind == "call":
			if want = strings.TrimPrefix(a.Effect, "errno "); want == "EOPNOTSUPP" {
				want = "ENOTSUP" // the same number
			}
		case !a.Yes():
			want = "an error"
		}
		seen.add(kind, a.Yes())
		if want != got && !(want == "an error" && got != "ok") {
			if !failed {
				t.Logf("confine %s\nin\n%s", strings.Join(p.options, " "), listing(p.dir))
			}
			failed = true
			t.Errorf("%s=%d: %s: explain says %s (%s: %s, rule %q), so %s; the kernel says %s", seedVar, seed, q.line, a.Answer, a.Reason, a.Details, a.Rule, want, got)
		}
	}
}

// listing is what ls -lnR would say.
func listing(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && unix.Lstat(path, &st) == nil {
			to, _ := os.Readlink(path)
			fmt.Fprintf(&b, "%o %d:%d %s %s\n", st.Mode, st.Uid, st.Gid, path, to)
		}
		return nil
	})
	return b.String()
}

// command runs confine where the policy holds.
func (p *policyOf) command(t *testing.T, stdin io.Reader, args ...string) (out []byte, rc int) {
	t.Helper()
	argv := append(slices.Clone(p.under), filepath.Join(scene.programs, "confine"))
	argv = append(argv, args...)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdin = p.dir, stdin
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + filepath.Join(p.dir, "..", "home"), "TMPDIR=/tmp"}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	must.Do(t, broken(err))
	if rc = cmd.ProcessState.ExitCode(); rc > 0 && testing.Verbose() {
		t.Logf("%d: %s", rc, errs.Bytes())
	}
	return out, rc
}

// explain asks everything at once.
func (p *policyOf) explain(t *testing.T) (answers []config.Answer, refused bool) {
	t.Helper()
	args := append([]string{"explain", "--json"}, p.options...)
	for i, q := range p.questions {
		if i == 0 || q.flags[1] != p.questions[i-1].flags[1] { // those of one path stand together
			args = append(args, q.flags...)
		}
	}
	out, rc := p.command(t, nil, append(args, "--", filepath.Join(scene.programs, "attempt"))...)
	if rc > 1 {
		return nil, true // not even a plan
	}
	var doc struct {
		Answers []config.Answer
		Refused string
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return sorted(doc.Answers, p.questions), doc.Refused != ""
}

// sorted puts answers in the order of the questions: explain groups them.
func sorted(answers []config.Answer, questions []question) []config.Answer {
	key := func(kind config.AskKind, access, word string) string {
		return string(kind) + "\x00" + access + "\x00" + word
	}
	found := map[string]config.Answer{}
	for _, a := range answers {
		found[key(a.Kind, a.Access, a.Asked)] = a
	}
	var all []config.Answer
	for _, q := range questions {
		kind := config.AskKind(strings.TrimPrefix(q.flags[0], "--"))
		access := ""
		if kind == config.AskPath {
			access, _, _ = strings.Cut(q.line, " ")
		}
		if a, ok := found[key(kind, access, q.flags[1])]; ok {
			all = append(all, a)
		}
	}
	return all
}

// run does everything in one run, and gives a word for each.
func (p *policyOf) run(t *testing.T) (results []string, started bool) {
	t.Helper()
	var lines strings.Builder
	for _, q := range p.questions {
		lines.WriteString(q.line + "\n")
	}
	name := p.dir + ".questions"
	must.Do(t, os.WriteFile(name, []byte(lines.String()), 0o644))
	in, err := os.Open(name)
	must.Do(t, err)
	defer in.Close()
	args := append(slices.Clone(p.options), "--", filepath.Join(scene.programs, "attempt"), "ask", "/dev/stdin")
	out, rc := p.command(t, in, args...)
	if rc == 1 || rc == 125 {
		return nil, false
	}
	if rc != 0 {
		t.Fatalf("confine %s: %d\n%s", strings.Join(args, " "), rc, out)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), true
}

// servers are where somebody says hello, outside.
type servers struct {
	hosts []string // addresses of this host
	ports []string
}

func listenEverywhere(t *testing.T) servers {
	t.Helper()
	s := servers{hosts: []string{"127.0.0.1"}}
	addrs, err := net.InterfaceAddrs()
	must.Do(t, err)
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			s.hosts = append(s.hosts, n.IP.String())
			break
		}
	}
	for range 3 {
		l, err := net.Listen("tcp4", "0.0.0.0:0")
		must.Do(t, err)
		t.Cleanup(func() { l.Close() })
		s.ports = append(s.ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					_ = c.SetDeadline(time.Now().Add(10 * time.Second))
					_, _ = c.Write([]byte("hello\n"))
					_, _ = c.Read(make([]byte, 1))
					c.Close()
				}()
			}
		}()
	}
	return s
}

// baseline is what the calls come to without a filter.
func baseline(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join(scene.dir, "explain", strconv.Itoa(os.Geteuid()), "baseline")
	p := policyOf{dir: dir, options: []string{"--seccomp", "off"}, questions: callQuestions()}
	must.Do(t, os.MkdirAll(dir, 0o755))
	results, started := p.run(t)
	if !started || len(results) != len(p.questions) {
		t.Fatalf("without a filter: %q", results)
	}
	base := map[string]string{}
	for i, q := range p.questions {
		base[q.line] = results[i]
	}
	return base
}
