package worker

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/jobs/jobstest"
)

var (
	faultsFor  = flag.Duration("faults", 0, "how long TestFaults goes on, with faults by chance; 0: each fault once")
	faultsSeed = flag.Uint64("seed", 0, "of TestFaults; 0: any, and the same each time where each fault comes once")
)

// chaos is a cluster of three servers, workers and submitters, of which something fails all the time.
type chaos struct {
	*scene
	r       *rand.Rand
	servers []*jobstest.Process
	ways    []*jobstest.Link // of workers and submitters to the servers
	workers []*exec.Cmd
	began   time.Time
	files   string // the input of some

	mu        sync.Mutex
	said      []string
	accepted  []jobs.Key        // somebody was told that they will be done
	cancelled map[jobs.Key]int  // somebody was told that they don't run any more, and the lines that they had written by then
	ended     map[string]string // each report that a record had, by its job and run
	group     sync.WaitGroup
}

func (c *chaos) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, fmt.Sprintf("%7.2fs ", time.Since(c.began).Seconds())+fmt.Sprintf(format, args...))
}

func (c *chaos) url() string {
	var all []string
	for _, l := range c.ways {
		all = append(all, l.URL())
	}
	return strings.Join(all, ",")
}

func (c *chaos) hire(n int) {
	c.workers[n] = hire(c.TB, hired{URL: c.url(), Room: jobs.Need{Memory: 1 << 30, CPU: 600, Tasks: 4000}, Said: filepath.Join(c.dir, fmt.Sprint("worker-", n, "-", time.Now().UnixNano()))})
}

// TestFaults: workers, servers and submitters are killed, stopped and cut off, messages come too early, and jobs are cancelled, one after
// another and at once. In the end every job that was accepted has one end, none ran twice at one time, and none went on after somebody was told that
// it doesn't.
func TestFaults(t *testing.T) {
	t.Parallel()
	seed := *faultsSeed
	if seed == 0 {
		if seed = 1; *faultsFor > 0 {
			seed = rand.Uint64()
		}
	}
	t.Logf("seed %d", seed)
	servers := jobstest.Cluster(t, 3)
	c := &chaos{r: rand.New(rand.NewPCG(seed, seed)), servers: servers, began: time.Now(), workers: make([]*exec.Cmd, 3), cancelled: map[jobs.Key]int{}, ended: map[string]string{}}
	for _, s := range servers {
		c.ways = append(c.ways, jobstest.NewLink(t, s.Port))
	}
	direct := ""
	for _, s := range servers {
		direct += fmt.Sprintf(",nats://127.0.0.1:%d", s.Port)
	}
	c.scene = set(t, direct[1:])
	defer func() {
		if t.Failed() || testing.Verbose() {
			t.Log(strings.Join(c.said, "\n"))
		}
	}()
	c.files = c.input(t.TempDir())
	for n := range c.workers {
		c.hire(n)
	}
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.watch(watching)
	}()
	next := func(kind int, longest time.Duration) {
		c.group.Go(c.newJobs(c.r.IntN(1 << 30)))
		c.fault(kind, 300*time.Millisecond+time.Duration(c.r.Int64N(int64(longest))))
		time.Sleep(time.Duration(200+c.r.IntN(500)) * time.Millisecond)
	}
	if *faultsFor == 0 {
		for _, kind := range c.r.Perm(faultKinds) {
			next(kind, 700*time.Millisecond)
		}
	}
	for end := time.Now().Add(*faultsFor); time.Now().Before(end); {
		next(c.r.IntN(faultKinds), 2500*time.Millisecond)
	}
	for _, l := range c.ways {
		l.Mend()
	}
	c.group.Wait()
	c.settle()
	stop()
	<-watched
}

// newJobs submits a few jobs, by a process that may be killed at any time; then another one submits the same. Of some, one is cancelled.
func (c *chaos) newJobs(seed int) func() {
	batch := fmt.Sprintf("b%d", seed)
	delay, kills, cancels := time.Duration(seed%300)*time.Millisecond, seed%3 == 0, seed%2 == 0
	return func() {
		d := submission{URL: c.url()}
		for i := range 1 + seed%4 {
			j := c.ticking(batch, i, 5+seed%40)
			if j.Array = true; i == 1 {
				j.Input, j.Output = c.files, []string{"**"}
			}
			d.Jobs = append(d.Jobs, j)
		}
		cmd := start(c.TB, submitWord, d)
		if kills {
			time.Sleep(delay)
			kill(cmd)
			c.say("%s: its submitter was killed", batch)
			cmd = start(c.TB, submitWord, d)
		}
		if err := cmd.Wait(); err != nil {
			c.say("%s: not accepted: %v", batch, err)
			return
		}
		c.mu.Lock()
		for _, j := range d.Jobs {
			c.accepted = append(c.accepted, j.Key)
		}
		c.mu.Unlock()
		if cancels {
			time.Sleep(delay * 3)
			c.cancel(d.Jobs[0])
		}
	}
}

// cancel cancels a job, and remembers what it had done when that was acknowledged.
func (c *chaos) cancel(j *jobs.Job) {
	ctx, stop := context.WithTimeout(c.Context(), 60*time.Second)
	defer stop()
	peers := c.Peers()
	r, err := c.Cancel(ctx, peers, j.Key)
	if err != nil {
		c.say("%s: not cancelled: %v", j.Key, err)
		return
	}
	n := len(c.lines(j.Key.Batch, j.Key.Index))
	c.say("%s: cancel acknowledged, %s, with %d lines", j.Key, r.State, n)
	c.mu.Lock()
	c.cancelled[j.Key] = n
	c.mu.Unlock()
}

const faultKinds = 7

// fault has something fail.
func (c *chaos) fault(kind int, long time.Duration) {
	n := c.r.IntN(3)
	switch kind {
	case 0:
		c.say("worker %d is killed", n)
		kill(c.workers[n])
		c.hire(n)
	case 1:
		c.say("worker %d is to end", n)
		_ = c.workers[n].Process.Signal(syscall.SIGTERM)
		w := c.workers[n]
		go func() { _ = w.Wait() }()
		c.hire(n)
	case 2:
		c.say("server %d is killed for %v", n, long)
		c.servers[n].Signal(syscall.SIGKILL)
		time.Sleep(long)
		c.servers[n].Start()
	case 3:
		c.say("server %d is stopped for %v", n, long)
		c.servers[n].Signal(syscall.SIGSTOP)
		time.Sleep(long)
		c.servers[n].Signal(syscall.SIGCONT)
	case 4:
		c.say("the way to server %d is cut for %v", n, long)
		c.ways[n].Cut()
		time.Sleep(long)
		c.ways[n].Mend()
	case 5:
		c.say("all ways are cut for %v", long)
		for _, l := range c.ways {
			l.Cut()
		}
		time.Sleep(long)
		for _, l := range c.ways {
			l.Mend()
		}
	case 6:
		c.say("messages come too early")
		c.early()
	}
}

// early has the servers deliver again what workers say that they have.
func (c *chaos) early() {
	nc, err := nats.Connect(c.scene.url, nats.Timeout(time.Second))
	if err != nil {
		return
	}
	defer nc.Close()
	acks, err := nc.SubscribeSync("$JS.ACK.>")
	if err != nil {
		return
	}
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		m, err := acks.NextMsg(100 * time.Millisecond)
		if err == nil && string(m.Data) == "+WPI" {
			_ = nc.Publish(m.Subject, []byte("-NAK"))
		}
	}
}

// watch sees each record that is written, and that none which has ended gets another end.
func (c *chaos) watch(ctx context.Context) {
	nc, err := nats.Connect(c.scene.url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		c.Error(err)
		return
	}
	defer nc.Close()
	js, _ := jetstream.New(nc)
	var w jetstream.KeyWatcher
	for w == nil { // a server may fail just now
		brief, cancel := context.WithTimeout(ctx, 5*time.Second)
		if bucket, err := js.KeyValue(brief, "confine-records"); err == nil {
			w, _ = bucket.WatchAll(ctx)
		}
		cancel()
		if ctx.Err() != nil {
			c.Error("the records were never watched")
			return
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-w.Updates():
			if !open {
				return
			}
			if e == nil {
				continue
			}
			var r jobs.Record
			if err := json.Unmarshal(e.Value(), &r); err != nil {
				c.Errorf("%s: %v", e.Key(), err)
				continue
			}
			run := fmt.Sprint(e.Key(), " ", r.Run)
			what := fmt.Sprint(r.State, " ", r.Claim, " ", r.Attempt)
			c.mu.Lock()
			before := c.ended[run]
			if r.State.Final() {
				c.ended[run] = what
			}
			c.mu.Unlock()
			if before != "" && before != what {
				c.Errorf("%s: it had ended as %q, and is %q", run, before, what)
			}
		}
	}
}

// settle waits until every job that was accepted has ended, and looks at what all of them did.
func (c *chaos) settle() {
	c.mu.Lock()
	accepted := c.accepted
	c.mu.Unlock()
	c.say("all is well from now on: %d jobs were accepted", len(accepted))
	states := map[jobs.State]int{}
	starts := 0
	for _, key := range accepted {
		r := c.finally(key)
		states[r.State]++
		n, ends := c.apart(key.Batch, key.Index)
		starts += n
		switch {
		case r.State == jobs.Done && (r.Report == nil || r.Report.RC != 0 || ends < 1):
			c.Errorf("%s is done, and came to %d ends: %+v", key, ends, r.Report)
		case r.State == jobs.Dead && r.Reason != jobs.ReasonAttempts:
			c.Errorf("%s was given up: %s %s", key, r.Reason, r.Detail)
		}
	}
	c.empty()
	time.Sleep(200 * time.Millisecond)
	for key, n := range c.cancelled {
		if now := len(c.lines(key.Batch, key.Index)); now != n {
			c.Errorf("%s had written %d lines when its cancellation was acknowledged, and has %d", key, n, now)
		}
	}
	faults := 0
	for _, line := range c.said {
		if strings.Contains(line, "worker ") || strings.Contains(line, "server ") || strings.Contains(line, "ways") || strings.Contains(line, "early") {
			faults++
		}
	}
	c.Logf("%d jobs were accepted and came to %v after %d starts and %d faults; %d cancellations were acknowledged", len(accepted), states, starts, faults, len(c.cancelled))
	if len(accepted) == 0 {
		c.Error("no job was accepted: nothing was tried")
	}
}

// finally waits for the end of a job.
func (c *chaos) finally(key jobs.Key) *jobs.Record {
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		k, err := c.Show(c.Context(), key)
		if err == nil && k.State.Final() {
			return k.Record
		}
		if errors.Is(err, jobs.ErrNoJob) {
			c.Fatalf("%s is lost", key)
		}
		if time.Now().After(end) {
			text, _ := json.Marshal(k.Record)
			said, _ := filepath.Glob(filepath.Join(c.dir, "worker-*"))
			for _, path := range said {
				b, _ := os.ReadFile(path)
				c.Logf("%s:\n%s", path, b)
			}
			for _, priority := range jobs.Priorities {
				info, err := c.Consumer(priority).Info(c.Context())
				text, _ := json.Marshal(info)
				c.Logf("the servers' consumer of %s: %v %s", priority, err, text)
			}
			c.Fatalf("%s has no end: %v %s", key, err, text)
		}
	}
}
