package tree

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
)

// fakeProc is a directory that looks like the proc of a pid namespace.
type fakeProc struct {
	*testing.T
	dir  string
	tree *Tree
}

func newFakeProc(t *testing.T) *fakeProc {
	f := &fakeProc{T: t, dir: t.TempDir()}
	fd, err := unix.Open(f.dir, flagsDir, 0)
	must.Do(t, err)
	f.tree = newTree(fd, 1)
	t.Cleanup(func() { f.tree.Close() })
	f.put(stat{pid: 1, state: 'S', threads: 6, utime: 500, stime: 500, rss: 1000})
	return f
}

// put writes PID/stat; with rollup: PID/smaps_rollup with that many kB of PSS.
func (f *fakeProc) put(s stat, rollup ...int) {
	f.Helper()
	s.state = cmp.Or(s.state, 'S')
	s.threads = cmp.Or(s.threads, 1)
	if s.start == 0 {
		s.start = int64(s.pid)
	}
	dir := filepath.Join(f.dir, strconv.Itoa(int(s.pid)))
	must.Do(f, os.MkdirAll(dir, 0o755))
	f.write(filepath.Join(dir, "stat"), statLine(s, fmt.Sprintf("p%d", s.pid)))
	for _, kb := range rollup {
		f.write(filepath.Join(dir, "smaps_rollup"), fmt.Sprintf("Rss: 1 kB\nPss: %8d kB\n", kb))
	}
}

func (f *fakeProc) write(name, text string) {
	f.Helper()
	must.Do(f, os.WriteFile(name, []byte(text), 0o644))
}

func (f *fakeProc) remove(pids ...int) {
	f.Helper()
	for _, pid := range pids {
		must.Do(f, os.RemoveAll(filepath.Join(f.dir, strconv.Itoa(pid))))
	}
}

func (f *fakeProc) sample(above int64) Sample {
	f.Helper()
	s, err := f.tree.Sample(Need{PSSAbove: above})
	must.Do(f, err)
	return s
}

// cpu fails unless that many ticks are counted, so many of them from the ledger.
func (f *fakeProc) cpu(when string, want, unreaped int64) {
	f.Helper()
	s := f.sample(NoPSS)
	if s.CPU != ticks(want) || s.Unreaped != ticks(unreaped) || s.User+s.System != s.CPU {
		f.Errorf("%s: %v (%v + %v), %v of it unreaped; want %v, %v", when, s.CPU, s.User, s.System, s.Unreaped, ticks(want), ticks(unreaped))
	}
}

func TestSampleLeavesOutWhatBelongsToTheSandbox(t *testing.T) {
	f := newFakeProc(t)
	f.put(stat{pid: 1, state: 'S', threads: 6, utime: 500, stime: 500, cutime: 3, cstime: 4, rss: 1000})
	f.put(stat{pid: 2, ppid: 1, threads: 3, utime: 10, stime: 20, cutime: 1, cstime: 2, rss: 100})
	f.put(stat{pid: 3, ppid: 2, state: 'Z', utime: 1})
	s := f.sample(NoPSS)
	page := int64(os.Getpagesize())
	if s.Processes != 2 || s.Tasks != 4 || s.Zombies != 1 || s.Live() != 3 || s.RSS != 100*page || s.HasPSS || s.Memory() != s.RSS {
		t.Errorf("%+v", s)
	}
	if s.User != ticks(3+10+1+1) || s.System != ticks(4+20+2) || s.CPU != s.User+s.System {
		t.Errorf("user %v, system %v, cpu %v", s.User, s.System, s.CPU)
	}
}

func TestPSSIsMeasuredOnlyAboveTheThreshold(t *testing.T) {
	f := newFakeProc(t)
	page := int64(os.Getpagesize())
	f.put(stat{pid: 2, ppid: 1, rss: 100}, 40)
	f.put(stat{pid: 3, ppid: 1, rss: 100}, 60)
	f.put(stat{pid: 4, ppid: 1, state: 'Z'})
	if s := f.sample(200 * page); s.HasPSS || s.Memory() != 200*page {
		t.Errorf("at the threshold: %+v", s)
	}
	s := f.sample(200*page - 1)
	if !s.HasPSS || s.PSS != 100<<10 || s.Memory() != s.PSS || s.Estimated != 0 {
		t.Errorf("above it: %+v", s)
	}
	if big := f.tree.Biggest(); big != (Process{PID: 3, Name: "p3", Bytes: 60 << 10}) {
		t.Errorf("biggest: %+v", big)
	}
}

func TestRSSStandsInForAPSSThatCanNotBeRead(t *testing.T) {
	f := newFakeProc(t)
	page := int64(os.Getpagesize())
	f.put(stat{pid: 2, ppid: 1, rss: 100}) // no smaps_rollup, though it lives
	f.put(stat{pid: 3, ppid: 1, rss: 100}, 60)
	if s := f.sample(0); s.PSS != 100*page+60<<10 || s.Estimated != 1 {
		t.Errorf("%+v", s)
	}
}

func TestTimeThatNobodyWaitedForIsKept(t *testing.T) {
	f := newFakeProc(t)
	f.put(stat{pid: 2, ppid: 1, utime: 5})
	f.put(stat{pid: 3, ppid: 2, utime: 7, stime: 3, cutime: 2})
	f.put(stat{pid: 4, ppid: 2, utime: 6})
	f.cpu("alive", 23, 0)
	f.remove(3)
	f.cpu("one dropped", 23, 12)
	f.remove(4)
	f.put(stat{pid: 2, ppid: 1, utime: 6, cutime: 6})
	f.cpu("one reaped", 24, 12)
	f.put(stat{pid: 5, ppid: 2, utime: 1})
	f.cpu("another started", 25, 12)
}

func TestTimeThatGoesWithTheParentIsLookedForAtEveryAncestor(t *testing.T) {
	start := func(t *testing.T) *fakeProc {
		f := newFakeProc(t)
		f.put(stat{pid: 2, ppid: 1, utime: 1})
		f.put(stat{pid: 3, ppid: 2, utime: 10})
		f.put(stat{pid: 4, ppid: 3, utime: 20})
		f.cpu("alive", 31, 0)
		f.remove(3, 4)
		return f
	}
	t.Run("reaped by the parent first", func(t *testing.T) {
		f := start(t)
		f.put(stat{pid: 2, ppid: 1, utime: 1, cutime: 30})
		f.cpu("gone", 31, 0)
	})
	t.Run("the orphan reaped by PID 1", func(t *testing.T) {
		f := start(t)
		f.put(stat{pid: 2, ppid: 1, utime: 1, cutime: 10})
		f.put(stat{pid: 1, utime: 501, stime: 500, cutime: 20})
		f.cpu("gone", 31, 0)
	})
	t.Run("dropped by the parent", func(t *testing.T) {
		f := start(t)
		f.put(stat{pid: 2, ppid: 1, utime: 1, cutime: 10})
		f.cpu("gone", 31, 20)
	})
}

func TestAReusedPidIsAnotherProcess(t *testing.T) {
	f := newFakeProc(t)
	f.put(stat{pid: 2, ppid: 1})
	f.put(stat{pid: 3, ppid: 2, utime: 10, start: 100})
	f.cpu("alive", 10, 0)
	f.put(stat{pid: 3, ppid: 2, utime: 4, start: 200})
	f.cpu("dropped and reused", 14, 10)
	f.put(stat{pid: 3, ppid: 2, utime: 1, start: 200}) // within one tick of the clock
	f.cpu("reused in the same tick", 15, 14)
}

func TestTheLedgerKeepsNothingThatIsUncertain(t *testing.T) {
	f := newFakeProc(t)
	f.put(stat{pid: 5, ppid: 1})
	f.put(stat{pid: 3, ppid: 5, utime: 10}) // numbers have wrapped: read before its parent
	f.cpu("alive", 10, 0)
	f.remove(3)
	f.cpu("the parent's base may hold it already", 10, 0)

	f = newFakeProc(t)
	f.put(stat{pid: 7, ppid: 6, utime: 10}) // whose parent was gone when it was to be read
	f.cpu("an orphan", 10, 0)
	f.remove(7)
	f.cpu("no ancestor known", 10, 0)
}

func TestTheEndOfTheNamespaceIsNoLoss(t *testing.T) {
	f := newFakeProc(t)
	f.put(stat{pid: 2, ppid: 1, utime: 10})
	f.cpu("alive", 10, 0)
	f.remove(1, 2)
	s, err := f.tree.Sample(Need{PSSAbove: NoPSS})
	if !errors.Is(err, os.ErrProcessDone) || s.CPU != 100*time.Millisecond || s.Unreaped != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestAnUnreadableStatIsAnErrorAndNoLoss(t *testing.T) {
	f := newFakeProc(t)
	f.put(stat{pid: 2, ppid: 1, utime: 10})
	f.cpu("alive", 10, 0)
	f.write(filepath.Join(f.dir, "2", "stat"), "2 (sh")
	if _, err := f.tree.Sample(Need{}); err == nil {
		t.Error("no error")
	}
	f.remove(2)
	f.cpu("after it", 10, 0)
}

func TestTrimKillsAProcessWithTooManyThreadsFirst(t *testing.T) {
	f := newFakeProc(t)
	f.put(stat{pid: 2, ppid: 1})
	f.put(stat{pid: 3, ppid: 2, threads: 50})
	f.put(stat{pid: 4, ppid: 2, threads: 2})
	_, err := f.tree.Trim(10)
	// No directory but that of a process takes a signal.
	if !errors.Is(err, unix.EBADF) || len(f.tree.doomed) != 1 || f.tree.doomed[0].pid != 3 {
		t.Errorf("%v, %v", f.tree.doomed, err)
	}
}

func TestTrimKillsTheParentOfTooManyZombies(t *testing.T) {
	f := newFakeProc(t)
	f.put(stat{pid: 2, ppid: 1})
	f.put(stat{pid: 3, ppid: 2})
	for pid := int32(10); pid < 16; pid++ {
		f.put(stat{pid: pid, ppid: 3 - pid%2, state: 'Z'})
	}
	f.put(stat{pid: 17, ppid: 3, state: 'Z'})
	if killed, err := f.tree.Trim(7); killed != nil || err != nil {
		t.Errorf("seven zombies: %d, %v", killed, err)
	}
	_, err := f.tree.Trim(6)
	if !errors.Is(err, unix.EBADF) || len(f.tree.doomed) != 1 || f.tree.doomed[0].pid != 3 {
		t.Errorf("%v, %v", f.tree.doomed, err)
	}
}

func TestTrimForgivesZombiesOfItsOwnKills(t *testing.T) {
	f := newFakeProc(t)
	f.put(stat{pid: 2, ppid: 1})
	for pid := int32(10); pid < 30; pid++ {
		f.put(stat{pid: pid, ppid: 2, state: 'Z'})
		f.tree.doomed = append(f.tree.doomed, identity{pid, int64(pid)})
	}
	if killed, err := f.tree.Trim(7); killed != nil || err != nil {
		t.Errorf("%d, %v", killed, err)
	}
	f.tree.doomed = f.tree.doomed[:12]
	_, err := f.tree.Trim(7)
	if last := len(f.tree.doomed) - 1; !errors.Is(err, unix.EBADF) || f.tree.doomed[last].pid != 2 {
		t.Errorf("of eight others: %v, %v", f.tree.doomed, err)
	}
}

func TestDescendantsByTheirParents(t *testing.T) {
	all := []stat{{pid: 9, ppid: 5}, {pid: 2, ppid: 1}, {pid: 5, ppid: 3}, {pid: 4, ppid: 2}, {pid: 3, ppid: 1}, {pid: 6, ppid: 3}}
	got := fmt.Sprint(descendants(nil, 3, all))
	if got != "[3 5 6 9]" && got != "[3 6 5 9]" {
		t.Error(got)
	}
	loop := []stat{{pid: 5, ppid: 3}, {pid: 3, ppid: 5}} // numbers reused while reading
	if n := len(descendants(nil, 3, loop)); n > 4 {
		t.Errorf("%d in a loop of two", n)
	}
}

func TestNewRefusesWhatIsNoProc(t *testing.T) {
	fd, err := unix.Open(t.TempDir(), flagsDir, 0)
	must.Do(t, err)
	defer unix.Close(fd)
	if _, err := New(fd); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a temporary directory: %v", err)
	}
	if _, err := New(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
}

func TestBoundFollowsWhatGrewSincePSSWasMeasured(t *testing.T) {
	page := int64(os.Getpagesize())
	kb := func(pages int64) int { return int(pages * page >> 10) }
	for name, c := range map[string]struct {
		later []stat // the second is what the first has become in another sample
		want  int64  // in pages
	}{
		"nothing":                     {nil, 120},
		"touched first":               {[]stat{{pid: 2, rss: 130, faults: 30}}, 150 + 30},
		"by huge pages":               {[]stat{{pid: 2, rss: 130}}, 150},
		"copied":                      {[]stat{{pid: 2, rss: 100, faults: 30}}, 150},
		"copied, all that was shared": {[]stat{{pid: 2, rss: 100, faults: 1000}}, 200},
		"given back and taken again":  {[]stat{{pid: 2, rss: 40}, {pid: 2, rss: 90}}, 170},
		"by somebody new":             {[]stat{{pid: 4, rss: 25}}, 145},
		"more than there is":          {[]stat{{pid: 2, rss: 100, faults: 80}, {pid: 3, rss: 5}}, 105},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeProc(t)
			f.put(stat{pid: 2, ppid: 1, rss: 100}, kb(60))
			f.put(stat{pid: 3, ppid: 1, rss: 100}, kb(60))
			if s := f.sample(0); s.Bound != 120*page {
				t.Fatalf("measured: %d pages", s.Bound/page)
			}
			s := f.sample(NoPSS)
			for _, p := range c.later {
				p.ppid = 1
				f.put(p)
				s = f.sample(NoPSS)
			}
			if s.HasPSS || s.Bound != c.want*page {
				t.Errorf("%d pages, want %d", s.Bound/page, c.want)
			}
		})
	}
	f := newFakeProc(t)
	f.put(stat{pid: 2, ppid: 1, rss: 100}, kb(60))
	f.sample(0)
	if s := f.sample(60 * page); s.HasPSS {
		t.Errorf("without a reason: %+v", s)
	}
	if s, err := f.tree.Sample(Need{PSSAbove: NoPSS, AnewAbove: 99 * page}); err != nil || !s.HasPSS {
		t.Errorf("anew: %+v, %v", s, err)
	}
	if s, err := f.tree.Sample(Need{NoPSSAbove: 50 * page}); err != nil || s.HasPSS {
		t.Errorf("left to a sample at rest: %+v, %v", s, err)
	}
}

// TestSamplesGoOnWhilePSSIsMeasured: a smaps_rollup that keeps its reader waiting keeps nobody from
// seeing what the tree has got meanwhile, and what is measured at last is of when that was begun.
func TestSamplesGoOnWhilePSSIsMeasured(t *testing.T) {
	page := int64(os.Getpagesize())
	f := newFakeProc(t)
	f.put(stat{pid: 2, ppid: 1, rss: 100})
	rollup := filepath.Join(f.dir, "2", "smaps_rollup")
	answer := func(pages int64) {
		w, err := os.OpenFile(rollup, os.O_WRONLY, 0)
		if err == nil {
			_, err = fmt.Fprintf(w, "Pss: %d kB\n", pages*page>>10)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			t.Error(err)
		}
	}
	must.Do(t, unix.Mkfifo(rollup, 0o600))
	look := func(rss int64) Sample {
		t.Helper()
		f.put(stat{pid: 2, ppid: 1, rss: rss})
		s, err := f.tree.Sample(Need{Beside: true})
		if err != nil || s.HasPSS || s.Earlier != nil {
			t.Fatalf("%+v, %v", s, err)
		}
		return s
	}
	look(100)
	look(90)
	if s := look(400); s.Bound != 400*page {
		t.Errorf("while nobody answers: %d pages", s.Bound/page)
	}
	answer(60)
	s, err := f.tree.Measured(true)
	if err != nil || s == nil || !s.HasPSS || s.PSS != 60*page || s.RSS != 100*page {
		t.Fatalf("measured: %+v, %v", s, err)
	}
	if s, err := f.tree.Sample(Need{PSSAbove: NoPSS}); err != nil || s.Bound != 370*page {
		t.Errorf("60 pages, and 310 since: %d, %v", s.Bound/page, err)
	}
	// What was asked for before is worth nothing once everybody was measured at rest.
	look(500)
	go answer(10)
	for f.tree.beside.busy && len(f.tree.beside.done) == 0 {
		time.Sleep(time.Millisecond)
	}
	f.tree.beside.stale = true
	if s, err := f.tree.Measured(true); s != nil || err != nil || f.tree.lastPSS.PSS != 60*page {
		t.Errorf("what is stale counts: %+v, %v", s, err)
	}
}

func TestDescriptorsAreThoseOfTheProcessWithTheMost(t *testing.T) {
	f := newFakeProc(t)
	f.put(stat{pid: 2, ppid: 1})
	f.put(stat{pid: 3, ppid: 1})
	f.put(stat{pid: 4, ppid: 1, state: 'Z'})
	f.put(stat{pid: 5, ppid: 1}) // nobody may look into it
	for pid, n := range map[int]int{1: 30, 2: 3, 3: 12, 4: 20} {
		dir := filepath.Join(f.dir, strconv.Itoa(pid), "fd")
		must.Do(t, os.Mkdir(dir, 0o755))
		for i := range n {
			f.write(filepath.Join(dir, strconv.Itoa(i)), "")
		}
	}
	f.sample(NoPSS)
	if got := f.tree.Descriptors(); got != 12 {
		t.Errorf("%d, want the 12 of process 3", got)
	}
}
