package worker

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/backends"
	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/internal/jobs"
	"github.com/confine-run/confine/internal/jobs/jobstest"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/pool"
	"github.com/confine-run/confine/status"
)

var throughput = flag.Int("jobs", 120, "how many jobs TestThroughput has")

const (
	poolWord    = "jobstest-pool"
	workersMany = 4
	atOnce      = 2 // of each
)

// alone is how many commands a process runs out of a pool of its own, without a queue.
type alone struct{ Jobs int }

func (a *alone) main() {
	w := New(nil, Options{Backend: backends.For, Sources: config.Here(os.Environ(), ""), Environ: config.Harmless(os.Environ())})
	j := &jobs.Job{Argv: []string{"true"}}
	p, err := pool.New(context.Background(), pool.Options{Max: atOnce, Backend: backends.For, Spec: func() (*backend.Spec, error) { return w.spec(j, &Ceiling{}) }})
	if err != nil {
		panic(err)
	}
	var left atomic.Int64
	left.Store(int64(a.Jobs))
	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				box, err := p.Claim(context.Background(), "true")
				if err != nil {
					panic(err)
				}
				process, err := box.Start(context.Background(), &backend.Exec{Argv: j.Argv})
				if err != nil {
					panic(err)
				}
				if r := process.Wait(); r.Status != status.OK {
					panic(r.Reason)
				}
				box.Retire()
			}
		})
	}
	group.Wait()
	p.Close()
	os.Exit(0)
}

// poolMain is that, if this process was started for it.
func poolMain() {
	if len(os.Args) != 3 || os.Args[1] != poolWord {
		return
	}
	var a alone
	if err := json.Unmarshal([]byte(os.Args[2]), &a); err != nil {
		panic(err)
	}
	a.main()
}

// TestThroughput has the same commands run by four processes with a pool each, and by four workers of a queue, one after the other and in turn.
// Here they are few, and what is looked at is that all are done; "make jobs-bench" has 10,000, and fails below 0.9.
func TestThroughput(t *testing.T) {
	n := *throughput
	server := jobstest.InsideServer(t)
	s := set(t, server.ClientURL())
	const rounds = 5 // in turn: the host has other things to do, too
	n /= rounds
	own := func() time.Duration {
		began := time.Now()
		var all []*exec.Cmd
		for range workersMany {
			all = append(all, start(t, poolWord, alone{n / workersMany}))
		}
		for _, cmd := range all {
			must.Do(t, cmd.Wait())
		}
		return time.Since(began)
	}
	queued := func(batch string, n int) (submitted, all time.Duration) {
		began := time.Now()
		var list []*jobs.Job
		for i := range n {
			list = append(list, &jobs.Job{Version: 1, Key: jobs.Key{Account: "default", Batch: batch, Index: i}, Run: 1, Array: true, Priority: "normal", MaxAttempts: 3, Argv: []string{"true"}})
		}
		s.submit(list...)
		submitted = time.Since(began)
		ended := 0
		if err := s.Follow(t.Context(), "default", batch, func(k jobs.Kept) (bool, error) {
			if k.State.Final() {
				if ended++; k.State != jobs.Done || k.Report.RC != 0 || k.Attempt != 1 {
					t.Errorf("%s: %+v", k.Key, k.Record)
				}
			}
			return ended < n, nil
		}); err != nil {
			t.Fatal(err)
		}
		return submitted, time.Since(began)
	}
	for range workersMany {
		hire(t, hired{URL: s.url, Jobs: atOnce, AckWait: time.Second, Lease: 10 * time.Second})
	}
	queued("warm", min(n, 200))
	traffic := func() (messages, bytes int64) {
		v, err := server.Varz(nil)
		must.Do(t, err)
		return v.InMsgs + v.OutMsgs, v.InBytes + v.OutBytes
	}
	messages, bytes := int64(0), int64(0)
	var pools, queues, submits time.Duration
	for i := range rounds {
		pools += own()
		m, b := traffic()
		submitted, all := queued(string(rune('a'+i)), n)
		m2, b2 := traffic()
		messages, bytes = messages+m2-m, bytes+b2-b
		queues, submits = queues+all, submits+submitted
	}
	jobsDone := int64(rounds * n)
	ratio := pools.Seconds() / queues.Seconds()
	t.Logf("%d × %d jobs: out of pools %v, out of the queue %v (of which submitting %v): %.2f of the throughput", rounds, n, pools, queues, submits, ratio)
	t.Logf("a job takes %v out of the pools, %v out of the queue", pools/time.Duration(rounds*n), queues/time.Duration(rounds*n))
	t.Logf("a job is %.1f messages that the server gets or sends, and %.1f KiB", float64(messages)/float64(jobsDone), float64(bytes)/1024/float64(jobsDone))
	if n*rounds >= 10_000 && ratio < 0.9 {
		t.Errorf("the queue takes more than a tenth of the time")
	}
}
