package disk

import (
	"errors"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

const ms = time.Millisecond

func TestWhenToWalk(t *testing.T) {
	usual := situation{limits: amount{bytes: 1000}, cost: 10 * ms, credit: burst, since: 100 * ms}
	for name, c := range map[string]struct {
		change func(*situation)
		want   bool
	}{
		"far from the limit":                 {func(s *situation) { s.lost.bytes = 900 }, false},
		"it could be passed":                 {func(s *situation) { s.lost.bytes = 1100 }, true},
		"with what was there":                {func(s *situation) { s.grown.bytes, s.lost.bytes = 900, 200 }, true},
		"no credit":                          {func(s *situation) { s.lost.bytes, s.credit = 1100, 0 }, false},
		"twice the limit, without credit":    {func(s *situation) { s.lost.bytes, s.credit = 3000, 0 }, true},
		"twice the limit, just walked":       {func(s *situation) { s.lost.bytes, s.credit, s.since = 3000, 0, 30*ms }, false},
		"files":                              {func(s *situation) { s.limits, s.lost = amount{files: 5}, amount{files: 6} }, true},
		"nothing was limited there":          {func(s *situation) { s.limits, s.lost = amount{files: 5}, amount{bytes: 1 << 40} }, false},
		"nothing limited":                    {func(s *situation) { s.limits, s.lost, s.since = amount{}, amount{1 << 40, 1}, time.Hour }, false},
		"long ago":                           {func(s *situation) { s.since = 1100 * ms }, true},
		"long ago, and dear":                 {func(s *situation) { s.since, s.cost = 1100*ms, 100*ms }, false},
		"long ago, and nothing moved":        {func(s *situation) { s.since, s.still = 1100*ms, true }, false},
		"very long ago":                      {func(s *situation) { s.since, s.still = 6*time.Second, true }, true},
		"a file system that tells nothing":   {func(s *situation) { s.since, s.blind, s.cost = 60*ms, true, ms }, true},
		"it tells nothing, and it was dear":  {func(s *situation) { s.since, s.blind = 150*ms, true }, false},
		"close to the limit, nothing moving": {func(s *situation) { s.grown.bytes, s.still = 1000, true }, false},
	} {
		s := usual
		c.change(&s)
		if got := s.due(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTheNextLookComesBeforeALimitCanBePassed(t *testing.T) {
	for name, c := range map[string]struct {
		s    situation
		want time.Duration
	}{
		"no limit":   {situation{}, slowest},
		"large":      {situation{limits: amount{bytes: 8 << 30}}, slowest},
		"half a GiB": {situation{limits: amount{bytes: 512 << 20}}, 125 * ms},
		"nearly full": {situation{limits: amount{bytes: 512 << 20}, grown: amount{bytes: 500 << 20},
			lost: amount{bytes: 10 << 20}}, fastest},
		"over":            {situation{limits: amount{bytes: 1}, lost: amount{bytes: 100}}, fastest},
		"files":           {situation{limits: amount{files: 1 << 15}}, 31250 * time.Microsecond},
		"blind":           {situation{limits: amount{bytes: 8 << 30}, blind: true}, pauseBlind},
		"blind, and dear": {situation{limits: amount{bytes: 8 << 30}, blind: true, cost: 8 * ms}, 160 * ms},
	} {
		if got := c.s.next(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// fake is trees whose figures are given.
type fake struct {
	found   []survey // for one walk after the other; the last stays
	fail    error
	lost    level
	perLook amount // that the file systems lose
	cost    time.Duration
	walks   int
	walked  time.Duration
	now     time.Time
}

func (f *fake) walk(o order) (survey, error) {
	f.walks++
	f.walked += f.cost
	f.now = f.now.Add(f.cost)
	s := f.found[0]
	if len(f.found) > 1 {
		f.found = f.found[1:]
	}
	s.cost = f.cost
	return s, f.fail
}

func (f *fake) level() (level, error) {
	f.lost.amount = f.lost.plus(f.perLook)
	return f.lost, nil
}

// live runs a watchdog through so much time of its own.
func live(t *testing.T, f *fake, limits Limits, d time.Duration) (hits []told) {
	t.Helper()
	w, err := newWatchdog(f, limits)
	must.Do(t, err)
	f.now = time.Unix(1000, 0)
	w.now = func() time.Time { return f.now }
	w.OnHit = func(c status.Capability, used int64) { hits = append(hits, told{c, used}) }
	for end := f.now.Add(d); f.now.Before(end); {
		wait, err := w.step(nil)
		must.Do(t, err)
		f.now = f.now.Add(wait)
	}
	return hits
}

type told struct {
	what status.Capability
	used int64
}

func TestWalksTakeTheirShareAndNoMore(t *testing.T) {
	const long, limit = 100 * time.Second, 1 << 20
	for name, c := range map[string]struct {
		cost    time.Duration
		perLook amount // a write somewhere else on the same file system
		least   int    // walks
		most    float64
	}{
		"nothing happens":                {10 * ms, amount{}, 20, 0.01},
		"somebody else writes a little":  {10 * ms, amount{bytes: 1000}, 90, 0.055},
		"somebody else writes much":      {10 * ms, amount{bytes: limit / 30}, 500, 0.055},
		"the same with a big tree":       {400 * ms, amount{bytes: limit / 1300}, 10, 0.06},
		"somebody else fills the disk":   {10 * ms, amount{bytes: 1 << 40}, 500, 0.21},
		"the same, with another big one": {400 * ms, amount{bytes: 1 << 40}, 40, 0.21},
	} {
		f := &fake{found: []survey{{}}, cost: c.cost, perLook: c.perLook}
		if hits := live(t, f, Limits{Bytes: limit}, long); len(hits) > 0 {
			t.Errorf("%s: told of %v", name, hits)
		}
		got := float64(f.walked) / float64(long)
		if f.walks < c.least || got > c.most {
			t.Errorf("%s: %d walks, %.3f of a core, want at least %d and at most %.3f", name, f.walks, got, c.least, c.most)
		}
	}
}

func TestALimitIsReportedOnlyAfterTwoWalks(t *testing.T) {
	over, within := survey{all: amount{bytes: 5000}}, survey{}
	for name, c := range map[string]struct {
		found []survey
		want  int
	}{
		"twice":       {[]survey{within, over, over, within}, 1},
		"once":        {[]survey{within, over, within, over, within}, 0},
		"for ever":    {[]survey{within, over}, 1},
		"newborn":     {[]survey{{fresh: amount{bytes: 5000}, all: amount{bytes: 5000}, cut: true}}, 1},
		"newborn one": {[]survey{{fresh: amount{bytes: 5000}, all: amount{bytes: 5000}, cut: true}, within}, 0},
		"old":         {[]survey{over}, 0},
	} {
		f := &fake{found: c.found, perLook: amount{bytes: 100}}
		hits := live(t, f, Limits{Bytes: 1000}, 10*time.Second)
		if len(hits) != c.want || c.want == 1 && hits[0] != (told{status.Disk, 5000}) {
			t.Errorf("%s: %v", name, hits)
		}
	}
}

func TestAHugeTreeIsJudgedByItsFileSystem(t *testing.T) {
	f := &fake{found: []survey{{}}, fail: errTooBig, perLook: amount{bytes: 10}}
	hits := live(t, f, Limits{Bytes: 1000, Files: 10}, 100*time.Second)
	if f.walks != 1 || len(hits) != 1 || hits[0].what != status.Disk {
		t.Errorf("%d walks, %v", f.walks, hits)
	}
	f = &fake{found: []survey{{}}, fail: errTooBig, lost: level{noBytes: true}}
	w, err := newWatchdog(f, Limits{Bytes: 1})
	must.Do(t, err)
	if _, err := w.step(nil); !errors.Is(err, errTooBig) {
		t.Errorf("neither can be had: %v", err)
	}
}

func TestUnreadableDirectoriesAreJudgedByTheFileSystem(t *testing.T) {
	f := &fake{found: []survey{{}, {obscured: true}}, perLook: amount{bytes: 10}}
	if hits := live(t, f, Limits{Bytes: 1000}, 100*time.Second); len(hits) != 1 {
		t.Errorf("%v", hits)
	}
	f = &fake{found: []survey{{obscured: true}}, perLook: amount{bytes: 10}}
	if hits := live(t, f, Limits{Bytes: 1000}, 100*time.Second); len(hits) != 1 {
		t.Errorf("from the start: %v", hits)
	}
}
