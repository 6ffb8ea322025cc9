package tree

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
)

// fakeTree gives prepared samples and notes what was done to it.
type fakeTree struct {
	clock   time.Time
	sample  Sample
	pss     int64
	err     error
	stopErr error
	trims   []int // what Trim answers, one after the other
	done    []string
	walks   []Walk // that were wanted
	weighed Sample // the last with PSS
	endless bool   // a walk doesn't come to its end
}

func (f *fakeTree) Sample(n Need) (Sample, error) {
	f.sample.At = f.clock
	s := f.sample
	s.Stopped = n.StopAbove > 0 && s.Processes > n.StopAbove
	s.Scratch = n.Scratch
	if f.walks = append(f.walks, n.Memfds); n.Memfds != NoWalk {
		s.Walked = !f.endless || n.Memfds == WholeWalk
	}
	if s.Bound = s.ceiling(); f.weighed.HasPSS {
		s.Bound = min(s.Bound, f.weighed.Memory()+max(s.ceiling()-f.weighed.ceiling(), 0))
	}
	if n.wantsPSS(&s) {
		s.HasPSS, s.PSS, s.pssCost = true, f.pss, ms/10
		s.Bound, f.weighed = s.Memory(), s
	}
	return s, f.err
}

func (f *fakeTree) Measured(bool) (*Sample, error) { return nil, nil }

func (f *fakeTree) Biggest() Process { return Process{PID: 7, Name: "big"} }
func (f *fakeTree) Stop() error      { f.done = append(f.done, "stop"); return f.stopErr }
func (f *fakeTree) Continue() error  { f.done = append(f.done, "continue"); return nil }
func (f *fakeTree) Trim(limit int64) ([]int, error) {
	f.done = append(f.done, fmt.Sprint("trim ", limit))
	if len(f.trims) == 0 {
		return nil, nil
	}
	killed := make([]int, f.trims[0])
	f.trims = f.trims[1:]
	return killed, nil
}

type watched struct {
	*testing.T
	*Watchdog
	tree *fakeTree
	told []string
}

func watch(t *testing.T, limits Limits) *watched {
	w := &watched{T: t, tree: &fakeTree{clock: time.Unix(1000, 0)}}
	w.Watchdog = &Watchdog{
		Limits: limits, Cores: 2, tree: w.tree, host: host{now: func() time.Time { return w.tree.clock }},
		OnCPU:    func(used time.Duration) { w.told = append(w.told, fmt.Sprint("cpu ", used)) },
		OnMemory: func(n int64, p Process) { w.told = append(w.told, fmt.Sprint("memory ", n, " ", p.Name)) },
		OnTasks:  func(n int64) { w.told = append(w.told, fmt.Sprint("tasks ", n)) },
	}
	w.start()
	return w
}

// look lets time pass and looks once.
func (w *watched) look(after time.Duration) time.Duration {
	w.Helper()
	w.tree.clock = w.tree.clock.Add(after)
	wait, err := w.step()
	must.Do(w, err)
	return wait
}

func (w *watched) expect(what string, got []string, want ...string) {
	w.Helper()
	if !slices.Equal(got, want) {
		w.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestEachLimitIsReportedOnce(t *testing.T) {
	w := watch(t, Limits{CPU: time.Second, Memory: 1000, Tasks: 10})
	w.look(0)
	w.tree.sample = Sample{Times: Times{CPU: 999 * ms}, RSS: 1000, Tasks: 10}
	w.tree.pss = 1000
	w.look(ms)
	w.expect("at the limits", w.told)
	w.tree.sample = Sample{Times: Times{CPU: time.Second}, RSS: 5000, Tasks: 14, Zombies: 3}
	w.tree.pss, w.tree.trims = 1001, []int{1}
	for range 3 {
		w.look(ms)
	}
	w.expect("above them", w.told, "cpu 1s", "memory 1001 big", "tasks 11")
}

func TestPSSIsMeasuredBeforeTheLimitIsReported(t *testing.T) {
	w := watch(t, Limits{Memory: 1000 << 20})
	w.tree.sample.RSS, w.tree.pss = 4000<<20, 900<<20
	w.look(ms)
	w.expect("PSS below the limit", w.told)
	w.expect("stopped to measure what could be above it", w.tree.done, "stop", "continue")
	for range 100 {
		w.look(ms)
	}
	w.expect("nobody stopped for what is known", w.tree.done, "stop", "continue")
	w.tree.sample.RSS, w.tree.pss = 4200<<20, 950<<20
	w.look(ms)
	w.expect("it has grown by less than seemed", w.told)
	w.expect("stopped to measure again", w.tree.done, "stop", "continue", "stop", "continue")
	if u := w.Usage(); u.MemoryPeak != 950<<20 {
		t.Errorf("peak %d", u.MemoryPeak>>20)
	}
}

func TestThePauseAfterAStopEndsWithHalfOfTheOvershoot(t *testing.T) {
	const limit = 1000 << 20
	w := watch(t, Limits{Memory: limit})
	w.tree.sample.RSS, w.tree.pss = 1100<<20, 990<<20
	w.look(ms)
	w.expect("first", w.tree.done, "stop", "continue")
	w.pss.pause = w.tree.clock.Add(time.Second) // it took long
	w.tree.sample.RSS = 1100<<20 + 10<<20 + Overshoot(limit)/2
	w.look(ms)
	w.expect("in the pause, at half of the overshoot", w.tree.done, "stop", "continue")
	w.tree.sample.RSS += 1 << 20
	w.look(ms)
	w.expect("above it", w.tree.done, "stop", "continue", "stop", "continue")
}

func TestThePeakIsPSSAndFollowsGrowth(t *testing.T) {
	w := watch(t, Limits{})
	for _, mb := range []int64{10, 100, 104, 120, 90} {
		w.tree.sample.RSS, w.tree.pss = mb<<20, mb<<19
		w.look(ms)
	}
	if u := w.Usage(); u.MemoryPeak != 60<<20 {
		t.Errorf("%d MiB", u.MemoryPeak>>20)
	}
}

func TestSwappedMemoryIsAskedForOnceASecond(t *testing.T) {
	w := watch(t, Limits{Memory: 1000 << 20})
	w.swap = func() bool { return true }
	w.usage.MemoryPeak = 900 << 20
	var weighed int
	for range 30 {
		w.tree.pss = int64(10 + weighed)
		w.look(100 * ms)
		if w.last.HasPSS {
			weighed++
		}
	}
	if weighed != 3 {
		t.Errorf("%d times in three seconds", weighed)
	}
}

func TestTasksThatComeBackAreTrimmedWithEverybodyStopped(t *testing.T) {
	w := watch(t, Limits{Tasks: 10})
	w.tree.sample.Tasks = 20
	w.tree.trims, w.tree.stopErr = []int{10, 50, 5}, fmt.Errorf("x: %w", ErrUnsettled)
	w.look(ms)
	w.expect("done", w.tree.done, "trim 10", "trim 10", "stop", "trim 10", "trim 10", "continue")
	w.expect("told", w.told, "tasks 20")
	w.tree.done, w.tree.trims = nil, []int{11}
	w.tree.sample.Tasks, w.tree.sample.Processes = 21, 21
	w.look(ms)
	w.expect("very many", w.tree.done, "stop", "trim 10", "trim 10", "continue")
	w.tree.done = nil
	w.tree.sample.Zombies = 20
	w.look(ms)
	w.expect("stopped, though most were zombies", w.tree.done, "stop", "trim 10", "continue")
}

func TestHoardedZombiesAreTrimmed(t *testing.T) {
	w := watch(t, Limits{Tasks: 10})
	w.tree.sample = Sample{Tasks: 13, Zombies: 10}
	w.look(ms)
	w.expect("ten zombies", w.tree.done)
	w.tree.sample = Sample{Tasks: 13, Zombies: 11}
	w.look(ms)
	w.expect("nobody to kill", w.told)
	w.tree.trims = []int{1}
	w.look(ms)
	w.expect("a hoarder", w.told, "tasks 2")
}

func TestTheRateStopsAndContinues(t *testing.T) {
	w := watch(t, Limits{CPUPercent: 50})
	for range 20 { // less than the rate
		w.tree.sample.CPU += 4 * ms
		w.look(10 * ms)
	}
	w.expect("below the rate", w.tree.done)
	var running, stopped time.Duration
	for range 2000 { // as much as it can
		wait := w.wait(&w.last)
		if w.stopped.IsZero() {
			w.tree.sample.CPU += 2 * wait
			running += wait
		} else {
			stopped += wait
		}
		w.look(wait)
	}
	if share := 200 * running / (running + stopped); share < 49 || share > 52 {
		t.Errorf("two busy cores got %d %% of one", share)
	}
	if u := w.Usage(); u.Throttled.Round(100*ms) != stopped.Round(100*ms) {
		t.Errorf("throttled %v, was stopped %v", u.Throttled, stopped)
	}
	if !slices.Contains(w.tree.done, "continue") {
		w.Error("never continued")
	}
}

func TestRunEndsWithPID1AndFailsWithTheTree(t *testing.T) {
	w := watch(t, Limits{})
	w.tree.err = os.ErrProcessDone
	if err := w.Watchdog.Run(nil); err != nil {
		t.Errorf("PID 1 gone: %v", err)
	}
	w = watch(t, Limits{CPUPercent: 10})
	w.tree.err = os.ErrPermission
	if err := w.Watchdog.Run(nil); !errors.Is(err, os.ErrPermission) {
		t.Errorf("proc unreadable: %v", err)
	}
}
