package tree

import (
	"slices"
	"testing"
)

func TestFilesInMemoryCountOnce(t *testing.T) {
	for name, c := range map[string]struct {
		s    Sample
		want int64
	}{
		"RSS alone":                        {Sample{RSS: 50}, 50},
		"RSS and all files":                {Sample{RSS: 50, Scratch: 20, Memfds: 30}, 100},
		"PSS alone":                        {Sample{RSS: 50, PSS: 40, HasPSS: true}, 40},
		"nothing of the files is mapped":   {Sample{RSS: 50, PSS: 40, HasPSS: true, Scratch: 20, Memfds: 30}, 90},
		"some of them is":                  {Sample{PSS: 40, PSSShmem: 10, HasPSS: true, Scratch: 20, Memfds: 30}, 80},
		"all of them are":                  {Sample{PSS: 90, PSSShmem: 50, HasPSS: true, Scratch: 20, Memfds: 30}, 90},
		"shared memory in no file hides":   {Sample{PSS: 90, PSSShmem: 60, HasPSS: true, Scratch: 20, Memfds: 30}, 90},
		"but never more than itself hides": {Sample{PSS: 50, PSSShmem: 50, HasPSS: true, Memfds: 60}, 60},
	} {
		if got := c.s.Memory(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestAMemfdThatWasClosedSinceIsNotHeldAgainstAnybody(t *testing.T) {
	w := watch(t, Limits{Memory: 1000 << 20})
	w.tree.sample.Memfds = 800 << 20
	w.look(walkEvery)
	// Closed, and the memory used for something else, before the next walk.
	w.tree.sample.RSS, w.tree.pss = 700<<20, 700<<20
	w.look(ms)
	w.expect("measured again", w.tree.done, "stop")
	if last := w.tree.walks[len(w.tree.walks)-1]; last != WholeWalk {
		t.Errorf("with walk %d", last)
	}

	w = watch(t, Limits{Memory: 2000 << 20})
	w.tree.sample.Memfds = 800 << 20
	w.look(walkEvery)
	w.tree.sample.RSS, w.tree.pss = 1000<<20, 1000<<20
	w.look(ms)
	if u := w.Usage(); u.MemoryPeak != 800<<20 {
		t.Errorf("a peak of %d MiB from two moments", u.MemoryPeak>>20)
	}
	w.look(walkEvery)
	w.look(walkEvery)
	if u := w.Usage(); u.MemoryPeak != 1800<<20 {
		t.Errorf("a peak of %d MiB from one", u.MemoryPeak>>20)
	}
}

// hostShared is what the host says of its shared memory.
func (w *watched) hostShared() *int64 {
	shared := new(int64)
	*shared = 100 << 20
	w.walks.shared = *shared
	w.shared = func() int64 { return *shared }
	return shared
}

func (w *watched) wants(what string, want ...Walk) {
	w.Helper()
	if !slices.Equal(w.tree.walks, want) {
		w.Errorf("%s: walks %v, want %v", what, w.tree.walks, want)
	}
	w.tree.walks = nil
}

func TestMemfdsAreLookedForOnlyWhereTheyCouldMatter(t *testing.T) {
	w := watch(t, Limits{CPUPercent: 50, Tasks: 10, CPU: 1 << 40})
	w.shared = func() int64 { t.Error("the host was asked"); return 1 << 40 }
	w.tree.sample.RSS = 1 << 40
	w.look(walkEvery)
	w.wants("no limit of memory", NoWalk)

	w = watch(t, Limits{Memory: 1000 << 20})
	shared := w.hostShared()
	w.look(walkEvery)
	*shared += walkWorth - 1
	w.look(walkEvery)
	w.wants("as much as could matter to nothing", NoWalk, NoWalk)
	*shared++
	w.look(ms)
	w.look(walkEvery)
	w.wants("more than there was", PartWalk, NoWalk)
	*shared -= walkWorth
	w.look(walkEvery)
	w.wants("less again", PartWalk)
	w.tree.sample.RSS = 780 << 20 // with the host's it could be near the limit
	w.look(walkEvery)             // as the next one knows
	w.look(walkEvery)
	w.look(walkEvery)
	w.wants("near the limit", NoWalk, PartWalk, PartWalk)
	w.tree.sample.RSS, w.tree.sample.Memfds = 10<<20, 1
	w.look(ms)
	w.look(walkEvery)
	w.look(walkEvery)
	w.wants("some that is held", NoWalk, PartWalk, PartWalk)

	w = watch(t, Limits{Memory: 1000 << 20})
	*w.hostShared() = -1
	w.look(walkEvery)
	w.wants("a host that doesn't say", PartWalk)
}

func TestWalksHaveABudget(t *testing.T) {
	w := watch(t, Limits{Memory: 1000 << 20})
	w.tree.sample.walkCost = ms
	w.look(ms)
	w.look(walkEvery - ms)
	w.look(ms)
	w.wants("cheap ones", PartWalk, NoWalk, PartWalk)
	w.tree.sample.walkCost = 50 * ms
	w.look(walkEvery)
	w.look(999 * ms)
	w.look(ms)
	w.wants("dear ones", PartWalk, NoWalk, PartWalk)
	w.tree.sample.walkCost, w.tree.endless = ms, true
	*w.hostShared() += walkWorth
	w.look(1000 * ms)
	w.look(19 * ms)
	w.look(ms)
	w.wants("one in parts", PartWalk, NoWalk, PartWalk)
}
