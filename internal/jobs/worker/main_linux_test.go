package worker

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/backends"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/host"
	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/jobs/jobstest"
	"github.com/confine-run/confine/internal/must"
)

func TestMain(m *testing.M) {
	backends.Init()
	jobstest.Main()
	workerMain()
	submitMain()
	poolMain()
	// They wait for clocks, most of the time. What measures is not among those at once, and comes before them.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const (
	workerWord = "jobstest-worker"
	submitWord = "jobstest-submit"
)

// hired is a worker of a test.
type hired struct {
	URL     string
	Lease   time.Duration
	AckWait time.Duration
	Drain   time.Duration
	Room    jobs.Need
	Jobs    int
	Ceiling string // a profile; empty: none
	Pattern string
	Dir     string
	Said    string
	KillAt  string // a step of a move
	WaitAt  string // likewise: it makes a file At, and goes on when that is gone
	At      string
	Disk    int64 // bytes of the one that Dir is on; 0: the host's
}

func (h *hired) queue(ctx context.Context) (*jobs.Queue, error) {
	return jobs.Open(ctx, jobs.Options{URL: h.URL, AckWait: h.AckWait, Patient: true, Replicas: replicas(h.URL)})
}

// replicas: several servers are a cluster.
func replicas(url string) int { return strings.Count(url, ",") + 1 }

// workerMain is a worker, if this process was started as one.
func workerMain() {
	if len(os.Args) != 3 || os.Args[1] != workerWord {
		return
	}
	var h hired
	if err := json.Unmarshal([]byte(os.Args[2]), &h); err != nil {
		panic(err)
	}
	if h.Disk > 0 {
		if err := jobstest.MountDisk(h.Dir, h.Disk); err != nil {
			panic(err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	q, err := h.queue(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	said, err := os.OpenFile(h.Said, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	c := Ceiling{Pattern: ">"}
	if h.Pattern != "" {
		c.Pattern = h.Pattern
	}
	if h.Ceiling != "" {
		p, err := config.Profile(h.Ceiling)
		if err != nil {
			panic(err)
		}
		c.Policy, c.Profile = &p, h.Ceiling
	}
	at := func(step string) {
		if step == h.KillAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		if step == h.WaitAt && os.WriteFile(h.At, nil, 0o600) == nil {
			for err := error(nil); err == nil; _, err = os.Stat(h.At) {
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
	err = New(q, Options{At: at, Backend: backends.For, Sources: config.Here(os.Environ(), ""), Environ: config.Harmless(os.Environ()), Ceilings: []Ceiling{c},
		Room: h.Room, Jobs: h.Jobs, Lease: h.Lease, Drain: h.Drain, Dir: h.Dir, Said: said}).Run(ctx, context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// start starts a process of this test's binary, which ends with it.
func start(t testing.TB, word string, about any, change ...func(*exec.Cmd)) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(about)
	must.Do(t, err)
	cmd := exec.Command(os.Args[0], word, string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	for _, f := range change {
		f(cmd)
	}
	must.Do(t, cmd.Start())
	return cmd
}

// hire starts a worker.
func hire(t testing.TB, h hired) *exec.Cmd {
	t.Helper()
	if h.Lease == 0 {
		h.Lease = time.Second
	}
	if h.AckWait == 0 {
		h.AckWait = time.Second
	}
	if h.Said == "" {
		h.Said = filepath.Join(t.TempDir(), "said")
	}
	cmd := start(t, workerWord, h, func(cmd *exec.Cmd) {
		if h.Disk > 0 {
			jobstest.OwnDisk(cmd)
		}
	})
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		kill(cmd)
		if text, err := os.ReadFile(h.Said); err == nil && t.Failed() {
			t.Logf("the worker said:\n%s", text)
		}
	})
	return cmd
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// needSandboxes skips a test where no sandbox can be built, unless it must not be.
func needSandboxes(t testing.TB) {
	t.Helper()
	if ok, err := host.Has("userns"); ok {
		return
	} else if err != nil {
		t.Fatal(err)
	}
	must.Do(t, host.MustRun("userns"))
	t.Skip("this host has no user namespaces")
}

// scene is a queue, and a directory that jobs write to.
type scene struct {
	testing.TB
	*jobs.Queue
	url string
	dir string
}

func set(t testing.TB, url string) *scene {
	t.Helper()
	needSandboxes(t)
	h := hired{URL: url, AckWait: time.Second}
	q, err := h.queue(t.Context())
	must.Do(t, err)
	t.Cleanup(q.Close)
	return &scene{t, q, url, t.TempDir()}
}

// job is one that runs a script of a shell's in which $F is its file.
func (s *scene) job(batch string, index int, script string) *jobs.Job {
	j := &jobs.Job{Version: 1, Key: jobs.Key{Account: "default", Batch: batch, Index: index}, Run: 1, Priority: "normal", MaxAttempts: 10,
		Argv: []string{"sh", "-c", script}, Env: []string{"F=" + s.file(batch, index)},
		Policy: []jobs.Setting{{Option: "allow-write", Values: []string{s.dir}}, {Option: "memory-limit", Values: []string{"32M"}}}}
	return j
}

func (s *scene) file(batch string, index int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s.%d", batch, index))
}

// ticking is a job that writes a line of its start, then one every 20 ms, then one of its end. Each start has a name.
func (s *scene) ticking(batch string, index, ticks int) *jobs.Job {
	return s.job(batch, index, fmt.Sprintf(`id=$(cat /proc/sys/kernel/random/uuid); echo S $id >>$F; i=0; while [ $i -lt %d ]; do echo T $id >>$F; sleep 0.02; i=$((i+1)); done; echo E $id >>$F`, ticks))
}

func (s *scene) lines(batch string, index int) []string {
	text, err := os.ReadFile(s.file(batch, index))
	if err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// apart looks that no two starts of a job ran at once, and gives their number and that of the ends.
func (s *scene) apart(batch string, index int) (starts, ends int) {
	last := ""
	over := map[string]bool{}
	for _, line := range s.lines(batch, index) {
		kind, id, _ := strings.Cut(line, " ")
		switch {
		case line == "" || len(id) != 36: // the last write of one that was killed
			continue
		case over[id]:
			s.Errorf("%s.%d: a start ran while another one did:\n%s", batch, index, strings.Join(s.lines(batch, index), "\n"))
			return starts, ends
		case kind == "S":
			starts++
			over[last], last = true, id
		case kind == "E":
			ends++
		}
	}
	return starts, ends
}

// until waits until a record is as it is to be.
func (s *scene) until(key jobs.Key, what string, ok func(*jobs.Record) bool) *jobs.Record {
	s.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		k, err := s.Show(s.Context(), key)
		if err == nil && ok(k.Record) {
			return k.Record
		}
		if time.Now().After(end) {
			text, _ := json.Marshal(k.Record)
			s.Fatalf("%s is not %s: %v %s", key, what, err, text)
		}
	}
}

func (s *scene) ended(key jobs.Key) *jobs.Record {
	s.Helper()
	return s.until(key, "ended", func(r *jobs.Record) bool { return r.State.Final() })
}

// begun waits until a job has written something, and runs by its record.
func (s *scene) begun(j *jobs.Job) *jobs.Record {
	s.Helper()
	return s.until(j.Key, "running", func(r *jobs.Record) bool {
		info, err := os.Stat(s.file(j.Key.Batch, j.Key.Index))
		return r.State == jobs.Running && err == nil && info.Size() > 0
	})
}

func (s *scene) submit(all ...*jobs.Job) {
	s.Helper()
	must.Do(s.TB, s.Submit(s.Context(), all...))
}

// submitMain submits jobs and says so, if this process was started to.
func submitMain() {
	if len(os.Args) != 3 || os.Args[1] != submitWord {
		return
	}
	var d submission
	if err := json.Unmarshal([]byte(os.Args[2]), &d); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	q, err := (&hired{URL: d.URL, AckWait: time.Second}).queue(ctx)
	if err == nil {
		err = q.Submit(ctx, d.Jobs...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "submit:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

type submission struct {
	URL  string
	Jobs []*jobs.Job
}
