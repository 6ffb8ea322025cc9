package tree

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

func TestTheWalkFindsWhatTheNamespaceHolds(t *testing.T) {
	r := namespace(t, nil, "/bin/sh", "-c", `(setsid sh -c 'sleep 50 & sleep 50 &') & wait; echo ready; exec sleep 50`)
	r.begin()
	r.expect("ready")
	// Before its exec a shell's child has next to no pages of its own.
	r.until("three sleepers", func(s Sample) bool { return s.Processes == 3 && s.RSS > 3<<20 })
	walk, err := NewFromPID(r.cmd.Process.Pid)
	r.must(err)
	defer walk.Close()
	s, err := walk.Sample(Need{PSSAbove: 0})
	if err != nil || s.Processes != 3 || !s.HasPSS || s.PSS == 0 || s.Estimated != 0 {
		t.Errorf("by children: %+v, %v", s, err)
	}
	if pids, err := walk.scan(walk.root, nil); err != nil || len(pids) != 4 {
		t.Errorf("by parents: %v, %v", pids, err)
	}
	r.stopBy(walk)
	for pid, state := range r.states() {
		if state != 'T' {
			t.Errorf("%d is %c", pid, state)
		}
	}
	r.must(walk.Continue())
	r.must(walk.Signal(unix.SIGKILL))
	r.until("killed through the walk", func(s Sample) bool { return s.Processes == 0 })
	must.Do(t, r.cmd.Process.Kill())
	r.cmd.Wait()
	if _, err := walk.Sample(Need{}); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := NewFromPID(r.cmd.Process.Pid); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a pid that is gone: %v", err)
	}
}

func TestMemoryOfAProcessWithoutItsLeaderIsSeen(t *testing.T) {
	r := started(t, "headless", "64")
	r.until("headless", func(Sample) bool {
		for i := range r.tree.cur {
			if r.tree.cur[i].tid != 0 {
				return true
			}
		}
		return false
	})
	s := r.sample(0)
	if s.RSS < 64<<20 || s.PSS < 64<<20 || s.Zombies != 0 || s.Estimated != 0 {
		t.Errorf("%+v", s)
	}
	r.stop()
	for pid, state := range r.states() {
		if state != 'T' {
			t.Errorf("%d is %c", pid, state)
		}
	}
	r.must(r.tree.Signal(unix.SIGKILL))
	r.until("killed", func(s Sample) bool { return s.Processes == 0 })
}

func TestThreadsAreTasks(t *testing.T) {
	r := started(t, "threads", "40")
	if s := r.sample(NoPSS); s.Processes != 1 || s.Tasks < 40 || s.Tasks > 60 {
		t.Errorf("%+v", s)
	}
}

// Whoever samples at whatever rate must come out at what the kernel says, and
// never above: 30 short-lived children, all of them waited for.
func TestCPUOfShortLivedChildrenIsNeitherMissedNorDoubled(t *testing.T) {
	r := namespace(t, nil, "/bin/sh", "-c",
		`i=0; while [ $i -lt 30 ]; do (j=0; while [ $j -lt 8000 ]; do j=$((j+1)); done) & (j=0; while [ $j -lt 8000 ]; do j=$((j+1)); done); i=$((i+1)); done; wait`)
	r.begin()
	end := make(chan time.Duration)
	go func() { end <- r.used() }()
	var truth, last time.Duration
	for samples := 0; truth == 0; samples++ {
		select {
		case truth = <-end:
			if samples < 10 {
				t.Errorf("%d samples", samples)
			}
		default:
		}
		s := r.sample(NoPSS)
		if s.CPU < last {
			t.Fatalf("from %v to %v", last, s.CPU)
		}
		last = s.CPU
		if s.Unreaped > 30*ms { // a tick or two, by which a process and what its parent is told differ
			t.Fatalf("%v said to be unreaped\nbefore %+v\nafter %+v", s.Unreaped, r.tree.prev, r.tree.cur)
		}
	}
	if d := last - truth; d < -30*ms || d > 30*ms { // both are sums of ticks of 10 ms
		t.Errorf("counted %v, was %v", last, truth)
	}
}

func TestCPUOfChildrenThatNobodyWaitsForIsCounted(t *testing.T) {
	r := namespace(t, nil, "ignore", "300", "300", "300")
	r.begin()
	done := make(chan struct{})
	go func() { r.expect("done"); close(done) }()
	for alive := true; alive; {
		select {
		case <-done:
			alive = false
		case <-time.After(fast): // what the watchdog does once it knows
		}
		r.sample(NoPSS)
	}
	s := r.sample(NoPSS)
	// How much of it depends on when the last sample before an end could be taken.
	if s.Unreaped <= 0 || s.Unreaped > 960*ms || s.CPU < s.Unreaped {
		t.Errorf("%v of 900 ms, in all %v", s.Unreaped, s.CPU)
	}
}

// atRest stops everybody, and says who goes on nevertheless.
func (r *run) atRest() (s Sample, why string) {
	r.Helper()
	r.stop()
	s = r.sample(NoPSS)
	for pid, state := range r.states() {
		if state != 'T' && state != 'Z' && state != 'D' {
			return s, fmt.Sprintf("%d is %c", pid, state)
		}
	}
	if after := r.sample(NoPSS); after.CPU != s.CPU || after.Processes != s.Processes {
		return s, fmt.Sprintf("stopped, and went from %+v to %+v", s, after)
	}
	return s, ""
}

func TestStopReachesEverybodyAndWakesOnlyWhomItStopped(t *testing.T) {
	r := namespace(t, nil, "/bin/sh", "-c",
		`i=0; while [ $i -lt 10 ]; do (while :; do (:); done) & i=$((i+1)); done; sh -c 'kill -STOP $$' & echo ready; wait`)
	r.begin()
	r.expect("ready")
	r.until("stopped itself", func(s Sample) bool {
		for i := range r.tree.cur {
			if r.tree.cur[i].state == 'T' {
				return s.Processes >= 12
			}
		}
		return false
	})
	for range 20 {
		before, why := r.atRest()
		// A fork that was under way may still end on a busy host: the next call finds it.
		for again := 0; why != "" && again < 5; again++ {
			before, why = r.atRest()
		}
		if why != "" {
			t.Fatal(why)
		}
		r.must(r.tree.Continue())
		r.until("running", func(s Sample) bool { return s.CPU > before.CPU })
	}
	asleep := 0
	for _, state := range r.states() {
		if state == 'T' {
			asleep++
		}
	}
	if asleep != 1 {
		t.Errorf("%d stopped, want the one that stopped itself", asleep)
	}
	r.must(r.tree.Signal(unix.SIGKILL))
	r.until("killed", func(s Sample) bool { return s.Live() == 0 })
}

func crowd(b testing.TB, n int) *run {
	r := namespace(b, nil, "/bin/sh", "-c", `i=1; while [ $i -lt `+strconv.Itoa(n)+` ]; do sleep 50 & i=$((i+1)); done; exec sleep 50`)
	r.begin()
	r.until("all there", func(s Sample) bool {
		for i := range r.tree.cur {
			if p := &r.tree.cur[i]; !p.root && string(p.comm[:5]) != "sleep" {
				return false
			}
		}
		return s.Processes == n
	})
	return r
}

func TestASampleAllocatesNothing(t *testing.T) {
	r := crowd(t, 20)
	if n := testing.AllocsPerRun(100, func() { r.sample(-1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	w := NewWatchdog(r.tree, Limits{CPU: time.Hour, Memory: 1 << 20, Tasks: 1000, CPUPercent: 1000})
	w.memHit = true
	w.start()
	if n := testing.AllocsPerRun(100, func() { _, err := w.step(); must.Do(t, err) }); n != 0 {
		t.Errorf("%v allocations of the watchdog", n)
	}
}
