package disk

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

func TestAFastWriterIsCaught(t *testing.T) {
	const limit, most = 32 * mib, 2048 * mib
	for name, before := range map[string]int{"small tree": 10, "3000 entries": 3000} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			plant(t, dir, before)
			r := watched(t, dir, Limits{Bytes: limit}).begin()
			f, err := os.Create(dir + "/big")
			must.Do(t, err)
			defer f.Close()
			chunk, written := make([]byte, mib), int64(0)
			for len(r.hits) == 0 && written < most {
				n, err := f.Write(chunk)
				must.Do(t, err)
				written += int64(n)
			}
			h := r.hit(status.Disk)
			r.end()
			t.Logf("told at %d MiB of %d, %d MiB were written", h.used/mib, int64(limit)/mib, written/mib)
			if h.used <= limit || written >= most {
				t.Errorf("told at %d, %d were written", h.used, written)
			}
		})
	}
}

func TestManySmallFilesAreCaught(t *testing.T) {
	const limit, most = 500, 100_000
	dir := t.TempDir()
	plant(t, dir, 1000)
	r := watched(t, dir, Limits{Files: limit}).begin()
	n := 0
	for ; len(r.hits) == 0 && n < most; n++ {
		if n%1000 == 0 {
			mkdir(t, dir, "new", strconv.Itoa(n/1000))
		}
		put(t, filepath.Join(dir, "new", strconv.Itoa(n/1000), strconv.Itoa(n)), 0)
	}
	h := r.hit(status.Files)
	r.end()
	t.Logf("told at %d of %d, %d were made", h.used, limit, n)
	if h.used <= limit || n >= most {
		t.Errorf("told at %d, %d were made", h.used, n)
	}
}

func TestWithinTheLimitNothingIsTold(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/before", 16*mib)
	r := watched(t, dir, Limits{Bytes: 8 * mib, Files: 10}).begin()
	for i := range 5 {
		put(t, filepath.Join(dir, strconv.Itoa(i)), mib)
	}
	r.until("what was written", func(l looked) bool { return l.grown.bytes >= 5*mib && l.grown.files == 5 })
	r.end()
	r.quiet()
}

func TestRemovedFilesGiveRoom(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/before", 8*mib)
	r := watched(t, dir, Limits{Bytes: 12 * mib}).begin().baseline()
	put(t, dir+"/new", 6*mib)
	r.until("growth", func(l looked) bool { return l.grown.bytes >= 6*mib })
	must.Do(t, os.Remove(dir+"/new"))
	r.until("the file gone again", func(l looked) bool { return l.grown.bytes < mib && l.grown.files == 0 })
	must.Do(t, os.Remove(dir+"/before"))
	r.until("less than at the start", func(l looked) bool { return l.grown.bytes < -7*mib && l.grown.files == -1 })
	put(t, dir+"/another", 18*mib)
	r.until("the room taken", func(l looked) bool { return l.grown.bytes >= 9*mib })
	r.end()
	r.quiet()
}

// Between New and the end of the baseline the target runs already.
func TestFilesMadeDuringTheBaselineCount(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/before", 8*mib)
	r := watched(t, dir, Limits{Bytes: 2 * mib})
	put(t, dir+"/early", 4*mib)
	r.begin()
	h := r.hit(status.Disk)
	r.end()
	if h.used < 4*mib || h.used > 6*mib {
		t.Errorf("told at %d", h.used)
	}
}

func TestTheLastMomentIsLookedAt(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/before", mib)
	for name, limits := range map[string]Limits{"bytes": {Bytes: 2 * mib}, "files": {Files: 5}, "both": {2 * mib, 5}} {
		r := watched(t, dir, limits).alone()
		for i := range 10 {
			put(t, filepath.Join(dir, name+strconv.Itoa(i)), mib)
		}
		close(r.stop)
		must.Do(t, r.dog.Run(r.stop)) // there was no time for anything else
		must.Do(t, r.dog.Close())
		want := 0
		for _, l := range []int64{limits.Bytes, limits.Files} {
			if l > 0 {
				want++
			}
		}
		if len(r.hits) != want {
			t.Errorf("%s: told %d times, want %d", name, len(r.hits), want)
		}
	}
}

// A tree with more than the limit in it is moved about: it must not be taken for
// growth, and what is written into it meanwhile must not be missed for good.
func TestATreeThatIsMovedCountsOnce(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		mkdir(t, dir, "place", strconv.Itoa(i))
	}
	put(t, mkdir(t, dir, "place", "0", "x", "y")+"/big", 32*mib)
	r := watched(t, dir, Limits{Bytes: 8 * mib}).begin().baseline()
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				done <- n
				return
			default:
			}
			_ = os.Rename(filepath.Join(dir, "place", strconv.Itoa(n%40), "x"), filepath.Join(dir, "place", strconv.Itoa((n+1)%40), "x"))
			put(t, dir+"/stir", n%2*mib) // so that the file system moves
		}
	}()
	time.Sleep(500 * time.Millisecond)
	r.quiet()
	close(stop)
	n := <-done
	put(t, filepath.Join(dir, "place", strconv.Itoa(n%40), "x", "y", "more"), 16*mib)
	h := r.hit(status.Disk)
	r.end()
	if n < 10 || h.used > 24*mib {
		t.Errorf("moved %d times, told at %d", n, h.used)
	}
}

// Root can read everything. Anybody else is told by the file system.
func TestADirectoryMadeUnreadableHidesNothing(t *testing.T) {
	for name, mode := range map[string]os.FileMode{"nothing": 0, "no names": 0o300, "names only": 0o400} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := watched(t, dir, Limits{Bytes: 16 * mib}).begin().baseline()
			hidden := mkdir(t, dir, "hidden")
			t.Cleanup(func() { _ = os.Chmod(hidden, 0o755) })
			put(t, hidden+"/small", 0)
			f, err := os.Create(hidden + "/big")
			must.Do(t, err)
			defer f.Close()
			must.Do(t, os.Chmod(hidden, mode))
			chunk := make([]byte, mib)
			for range 64 {
				_, err := f.Write(chunk)
				must.Do(t, err)
			}
			r.hit(status.Disk)
			r.end()
		})
	}
}

// Its name gives it back no room, and nobody has to write past the limit at once.
func TestARemovedFileThatAProcessHasOpenCounts(t *testing.T) {
	dir, proc := t.TempDir(), t.TempDir()
	must.Do(t, os.Symlink("/proc/self", proc+"/1"))
	old, err := os.Create(dir + "/old")
	must.Do(t, err)
	defer old.Close()
	r := watched(t, dir, Limits{Bytes: 16 * mib})
	r.dog.CountOpen(opath(t, proc))
	r.begin().baseline()
	must.Do(t, os.Remove(dir+"/old"))
	chunk := make([]byte, mib)
	for range 64 {
		_, err := old.Write(chunk)
		must.Do(t, err)
	}
	if h := r.hit(status.Disk); h.used < 16*mib {
		t.Errorf("told of %d bytes", h.used)
	}
	r.end()
}

func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	empty, err := Measure(opath(t, dir))
	must.Do(t, err)
	sub := filepath.Join(dir, "a", "b")
	must.Do(t, os.MkdirAll(sub, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(sub, "f"), make([]byte, 2*mib), 0o644))
	must.Do(t, os.Link(filepath.Join(sub, "f"), filepath.Join(dir, "again")))
	must.Do(t, os.Symlink("/", filepath.Join(dir, "root")))
	if got, err := Measure(opath(t, dir)); err != nil || got-empty < 2*mib || got-empty > 3*mib {
		t.Errorf("%d more bytes, %v", got-empty, err)
	}
}
