package disk

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

const (
	mib     = 1 << 20
	forever = 30 * time.Second
)

// run is a watchdog at work on one tree.
type run struct {
	testing.TB
	dir  string
	dog  *Watchdog
	hits chan told
	stop chan struct{}
	done chan error

	mu   sync.Mutex
	last looked
}

// looked is what the last look came to.
type looked struct {
	looks int
	grown amount
}

func opath(tb testing.TB, path string) int {
	tb.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	must.Do(tb, err)
	tb.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// watched makes the watchdog of dir, which doesn't run yet.
func watched(tb testing.TB, dir string, limits Limits) *run {
	tb.Helper()
	time.Sleep(20 * time.Millisecond) // the tick of times of files: what was made before is older
	w, err := New([]int{opath(tb, dir)}, limits)
	must.Do(tb, err)
	r := &run{TB: tb, dir: dir, dog: w, hits: make(chan told, 4), stop: make(chan struct{}), done: make(chan error, 1)}
	w.OnHit = func(c status.Capability, used int64) { r.hits <- told{c, used} }
	w.found = func(grown amount) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.last = looked{r.last.looks + 1, grown}
	}
	return r
}

// alone has it see a file system with nothing else on it. What others remove at the same
// time hides what is written, where it takes a loss of space to look.
func (r *run) alone() *run {
	r.Helper()
	r.dog.trees = lonely{r.dog.trees}
	l, err := r.dog.trees.level()
	must.Do(r, err)
	r.dog.start, r.dog.walked = l, l
	return r
}

// lonely is trees whose file system has lost what is in its trees.
type lonely struct{ trees }

func (g lonely) level() (level, error) {
	s, err := g.walk(order{})
	return level{amount: s.all}, err
}

func (r *run) begin() *run {
	go func() { r.done <- r.dog.Run(r.stop) }()
	return r
}

// end stops it; every hit was told when it returns.
func (r *run) end() {
	r.Helper()
	close(r.stop)
	if err := <-r.done; err != nil {
		r.Error(err)
	}
	if err := r.dog.Close(); err != nil {
		r.Error(err)
	}
}

func (r *run) hit(want status.Capability) told {
	r.Helper()
	select {
	case h := <-r.hits:
		if h.what != want {
			r.Fatalf("told of %s, not of %s", h.what, want)
		}
		return h
	case err := <-r.done:
		r.Fatalf("Run returned: %v", err)
	case <-time.After(forever):
		r.Fatalf("no %s hit", want)
	}
	return told{}
}

// quiet: nothing was told.
func (r *run) quiet() {
	r.Helper()
	select {
	case h := <-r.hits:
		r.Errorf("told of %s: %d", h.what, h.used)
	default:
	}
}

// until waits for the watchdog to see what is expected.
func (r *run) until(what string, ok func(looked) bool) {
	r.Helper()
	for end := time.Now().Add(forever); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		last := r.last
		r.mu.Unlock()
		if ok(last) {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("not seen: %s; %+v", what, last)
		}
	}
}

// baseline waits until it is taken.
func (r *run) baseline() *run {
	r.Helper()
	r.until("the baseline", func(l looked) bool { return l.looks > 0 })
	return r
}

// survey is one walk over dir.
func surveyOf(tb testing.TB, dirs ...string) survey {
	tb.Helper()
	var fds []int
	for _, dir := range dirs {
		fds = append(fds, opath(tb, dir))
	}
	f, err := newForest(fds)
	must.Do(tb, err)
	defer f.close()
	s, err := f.walk(order{})
	must.Do(tb, err)
	return s
}

// put writes a file of so many bytes, none of them zero.
func put(tb testing.TB, path string, size int) {
	tb.Helper()
	text := make([]byte, size)
	for i := range text {
		text[i] = byte(i%251) + 1
	}
	must.Do(tb, os.WriteFile(path, text, 0o644))
}

func mkdir(tb testing.TB, path ...string) string {
	tb.Helper()
	dir := filepath.Join(path...)
	must.Do(tb, os.MkdirAll(dir, 0o755))
	return dir
}

// plant makes n empty files, a hundred to a directory.
func plant(tb testing.TB, dir string, n int) {
	tb.Helper()
	sub := ""
	for i := range n {
		if i%100 == 0 {
			sub = mkdir(tb, dir, strconv.Itoa(i/100))
		}
		put(tb, filepath.Join(sub, strconv.Itoa(i)), 0)
	}
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must.Do(tb, err)
	return len(list)
}

func blocks(tb testing.TB, path string) int64 {
	tb.Helper()
	var st unix.Stat_t
	must.Do(tb, unix.Lstat(path, &st))
	return st.Blocks * 512
}
