package tree

import (
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// govern runs a watchdog over a target until it is told to stop.
func (r *run) govern(limits Limits, set func(*Watchdog)) (w *Watchdog, stop func()) {
	r.Helper()
	w = NewWatchdog(r.tree, limits)
	set(w)
	end, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- w.Run(end) }()
	r.begin()
	return w, func() {
		r.Helper()
		close(end)
		r.must(<-done)
	}
}

// waitFor fails when nothing comes within a while.
func waitFor[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: never", what)
	}
	return v
}

func TestMemoryAboveTheLimitIsFound(t *testing.T) {
	const limit = 200 << 20
	for name, c := range map[string]struct {
		target []string // the scratch it mounts is at the second word
		most   int64
		blamed bool // one process has it
	}{
		"touched as fast as can be":    {[]string{"allocate", "4000"}, 4000 << 20, true},
		"a memfd that nobody maps":     {[]string{"memfd", "300"}, 300<<20 + overhead, true},
		"a file in the run's own /tmp": {[]string{"scratch", t.TempDir(), "300", "0"}, 300<<20 + overhead, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := namespace(t, nil, c.target...)
			hit := make(chan int64, 1)
			w := NewWatchdog(r.tree, Limits{Memory: limit})
			w.OnMemory = func(n int64, p Process) {
				if c.blamed && (p.PID <= 1 || p.Bytes > n || p.Bytes < limit-overhead) {
					t.Errorf("biggest: %+v of %d", p, n)
				}
				r.cmd.Process.Kill()
				hit <- n
			}
			r.begin()
			if c.target[0] == "scratch" {
				r.expect("there")
				w.Scratch = r.scratch(c.target[1])
			}
			end, done := make(chan struct{}), make(chan error, 1)
			go func() { done <- w.Run(end) }()
			n := waitFor(t, "hit", hit)
			close(end)
			r.must(<-done)
			t.Logf("%d MiB above the limit", (n-limit)>>20) // how much is for a benchmark to judge
			if u := w.Usage(); n <= limit || n > c.most || u.MemoryPeak < n {
				t.Errorf("told at %d MiB, peak %d", n>>20, u.MemoryPeak>>20)
			}
		})
	}
}

func TestMemoryWithinTheLimitIsLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		target      []string
		least, most int64
	}{
		"shared by four": {[]string{"share", "4", "100"}, 100 << 20, 200 << 20}, // 400 MiB of RSS
		"a little memfd": {[]string{"memfd", "20"}, 20 << 20, 20<<20 + overhead},
	} {
		t.Run(name, func(t *testing.T) {
			r := namespace(t, nil, c.target...)
			w, stop := r.govern(Limits{Memory: 300 << 20}, func(w *Watchdog) {
				w.shared = nil // other tests' memory comes and goes meanwhile
				w.OnMemory = func(n int64, p Process) { t.Errorf("blamed %+v at %d MiB", p, n>>20) }
			})
			r.expect("ready")
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && w.Usage().MemoryPeak < c.least; {
				time.Sleep(ms)
			}
			stop()
			if u := w.Usage(); u.MemoryPeak < c.least || u.MemoryPeak > c.most {
				t.Errorf("peak %d MiB", u.MemoryPeak>>20)
			}
		})
	}
}

func TestCPUOfTheWholeTreeIsHeld(t *testing.T) {
	const limit = 500 * ms
	r := namespace(t, nil, "/bin/sh", "-c", `while :; do (j=0; while [ $j -lt 3000 ]; do j=$((j+1)); done); done & while :; do (:); done`)
	hit := make(chan time.Duration, 1)
	_, stop := r.govern(Limits{CPU: limit}, func(w *Watchdog) {
		w.OnCPU = func(used time.Duration) { r.cmd.Process.Kill(); hit <- used }
	})
	used := waitFor(t, "hit", hit)
	stop()
	t.Logf("told at %v", used)
	if used < limit { // how much later is for a benchmark to judge
		t.Errorf("told at %v", used)
	}
}

func TestTheRateIsHeld(t *testing.T) {
	const percent = 15
	r := namespace(t, nil, "/bin/sh", "-c", `while :; do :; done & while :; do :; done`)
	w, stop := r.govern(Limits{CPUPercent: percent}, func(*Watchdog) {})
	start := time.Now()
	for w.Usage().Throttled < 450*ms && time.Since(start) < 20*time.Second {
		time.Sleep(ms)
	}
	u, elapsed := w.Usage(), time.Since(start)
	stop()
	// How close the rate is held is for a benchmark to judge.
	t.Logf("%d %%, stopped for %v of %v", 100*u.CPU/elapsed, u.Throttled, elapsed)
	if u.Throttled < 450*ms {
		t.Errorf("two busy loops were stopped for %v of %v", u.Throttled, elapsed)
	}
	for pid, state := range r.states() {
		if state == 'T' {
			t.Errorf("%d was left stopped", pid)
		}
	}
}

func TestATreeBelowItsRateIsNeverStopped(t *testing.T) {
	r := namespace(t, nil, "/bin/sh", "-c", `i=0; while [ $i -lt 20 ]; do sleep 0.02; i=$((i+1)); done; echo ready; exec sleep 50`)
	w, stop := r.govern(Limits{CPUPercent: 50}, func(*Watchdog) {})
	r.expect("ready")
	stop()
	if u := w.Usage(); u.Throttled != 0 {
		t.Errorf("%+v", u)
	}
}

// The bombs are bounded by the pid_max of their own namespace (Linux 6.14), and
// by the end of the test, whose PID 1 takes them with it.
const bound = 1000

var boundEnv = []string{"TREE_TEST_PID_MAX=" + strconv.Itoa(bound)}

var bombs = map[string]string{
	"doubling":        `exec 2>&-; b() { b | b & }; b; wait`,
	"a loop of forks": `exec 2>&-; while :; do sleep 50 & done`,
	"a nest of forks": `exec 2>&-; n() { (n) & (n) & wait; }; n`,
}

func TestABombWithoutALimitFillsItsNamespace(t *testing.T) {
	r := namespace(t, boundEnv, "/bin/sh", "-c", bombs["a loop of forks"])
	r.begin()
	r.until("full", func(s Sample) bool { return s.Tasks > bound*9/10 })
}

func TestAForkBombIsContained(t *testing.T) {
	const limit = 32
	for name, script := range bombs {
		t.Run(name, func(t *testing.T) {
			r := namespace(t, boundEnv, "/bin/sh", "-c", script)
			hit := make(chan int64, 1)
			var killed atomic.Int64
			w, stop := r.govern(Limits{Tasks: limit}, func(w *Watchdog) {
				w.tree = counting{w.tree, &killed}
				w.OnTasks = func(n int64) { hit <- n }
			})
			n := waitFor(t, "hit", hit)
			r.must(r.cmd.Process.Kill())
			stop()
			u := w.Usage()
			t.Logf("told at %d, peak %d, killed %d", n, u.TasksPeak, killed.Load())
			if n <= limit || u.TasksPeak < n || killed.Load() == 0 {
				t.Errorf("told at %d, peak %d, killed %d", n, u.TasksPeak, killed.Load())
			}
		})
	}
}

// counting counts who is killed for being too many.
type counting struct {
	governed
	killed *atomic.Int64
}

func (c counting) Trim(limit int64) ([]int, error) {
	killed, err := c.governed.Trim(limit)
	c.killed.Add(int64(len(killed)))
	return killed, err
}

func TestTrimKillsTheNewestFirst(t *testing.T) {
	r := namespace(t, nil, "/bin/sh", "-c", `i=0; while [ $i -lt 9 ]; do sleep 50 & i=$((i+1)); done; echo ready; exec sleep 50`)
	r.begin()
	r.expect("ready")
	r.until("ten", func(s Sample) bool { return s.Processes == 10 })
	before := r.states()
	if killed, err := r.tree.Trim(10); killed != nil || err != nil {
		t.Fatalf("at the limit: killed %d, %v", killed, err)
	}
	killed, err := r.tree.Trim(7)
	if len(killed) != 3 || err != nil {
		t.Fatalf("killed %d, %v", killed, err)
	}
	if again, err := r.tree.Trim(7); again != nil || err != nil {
		t.Errorf("and then %d, %v", again, err)
	}
	r.until("seven", func(s Sample) bool { return s.Live() == 7 })
	pids := slices.Sorted(maps.Keys(before)) // in the order of their start
	now := r.states()
	for _, pid := range killed {
		if !slices.Contains(pids[7:], int32(pid)) {
			t.Errorf("said to have killed %d, the newest are %d", killed, pids[7:])
		}
	}
	for i, pid := range pids {
		if state, there := now[pid]; (i >= 7) != (!there || state == 'Z') {
			t.Errorf("number %d of 10 is %q", i+1, state)
		}
	}
}

func TestSignalsCanNotReachTheNextOwnerOfANumber(t *testing.T) {
	r := namespace(t, nil, "/bin/sh", "-c", `sleep 50 & echo ready; exec sleep 50`)
	r.begin()
	r.expect("ready")
	r.until("two", func(s Sample) bool { return s.Processes == 2 })
	p := r.tree.cur[len(r.tree.cur)-1]
	p.start-- // as if the table were about an earlier one
	r.must(r.tree.kill(&p))
	r.stop()
	r.tree.stopped = []identity{{p.pid, p.start}}
	r.must(r.tree.Continue())
	if s := r.sample(NoPSS); s.Live() != 2 || r.states()[p.pid] != 'T' {
		t.Errorf("killed or woken: %+v, %c", s, r.states()[p.pid])
	}
	p.start++
	r.must(r.tree.kill(&p))
	r.until("killed when it is the one", func(s Sample) bool { return s.Live() == 1 })
}
