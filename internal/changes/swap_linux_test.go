package changes

import (
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// swapScene has a directory with something for each kind of step, and beside the
// tree a twin of it that a link in the tree leads to.
func swapScene(t *testing.T) (s *scene, outside string) {
	t.Helper()
	inMemory(t)
	files := map[string]string{"d/edit": "old", "d/gone": "g", "d/mode": "m", "d/sub/x": "x", "d/closed/": ""}
	s = newScene(t, files)
	outside = filepath.Join(filepath.Dir(s.lower), "outside")
	for name, content := range files {
		build(t, filepath.Dir(s.lower), map[string]string{"outside" + name[1:]: content})
	}
	must(t, os.Symlink(outside, s.lower+"/link"))
	build(t, s.upper, map[string]string{"d/edit": "new", "d/put": "p", "d/dir/a/b": "b", "d/mode": "m", "d/sub/x": "y", "d/sub/z": "z", "d/closed/": ""})
	must(t, os.Chmod(s.upper+"/d/mode", 0o777))
	must(t, os.Chmod(s.upper+"/d/closed", 0o500))
	whiteout(t, s.upper+"/d/gone")
	return s, outside
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// A directory is swapped for a link to its twin at every point of an apply in turn,
// and back before the recovery.
func TestADirectoryBecomesALinkAtEveryStep(t *testing.T) {
	stopped := 0
	for n := 1; ; n++ {
		s, outside := swapScene(t)
		r := s.keep(t)
		before, twin := snapshotPath(t, s.lower), snapshotPath(t, outside)
		left := n
		s.store.hook = func(string) error {
			if left--; left == 0 {
				must(t, exchange(s.lower+"/d", s.lower+"/link"))
			}
			return nil
		}
		_, err := s.store.Apply(r, nil, Options{})
		s.store.hook = nil
		if left > 0 {
			must(t, err)
			break
		}
		if err != nil {
			stopped++
		}
		must(t, exchange(s.lower+"/d", s.lower+"/link"))
		recovered(t, s.store)
		if d := difference(twin, snapshotPath(t, outside)); d != "" {
			t.Fatalf("%d: written outside:\n%s", n, d)
		}
		litter(t, s.lower)
		now := snapshotPath(t, s.lower)
		runs, _ := s.store.List()
		if isNew := len(runs) == 0; maps.Equal(now, before) == isNew {
			t.Errorf("%d: %v, %v:\n%s", n, err, runs, difference(before, now))
		}
	}
	if stopped < 10 {
		t.Errorf("only %d applies met the link", stopped)
	}
}

func TestARacingSwapper(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	through := 0
	for i := range rounds {
		s, outside := swapScene(t)
		r := s.keep(t)
		twin := snapshotPath(t, outside)
		stop := swapper(t, s.lower, i)
		// The control: whoever goes by name is led outside.
		for tries := 0; i == 0; tries++ {
			_ = os.WriteFile(s.lower+"/d/sub/control", nil, 0o644)
			_ = os.Remove(s.lower + "/d/sub/control")
			if os.Remove(outside+"/sub/control") == nil {
				break
			}
			if tries == 1_000_000 {
				t.Fatal("the swapper doesn't swap")
			}
		}
		var err error
		for range 20 {
			if _, err = s.store.Apply(r, nil, Options{}); err == nil {
				through++
				break
			}
		}
		stop()
		if d := difference(twin, snapshotPath(t, outside)); d != "" {
			t.Fatalf("round %d, %v: written outside:\n%s", i, err, d)
		}
	}
	t.Log(through, "of", rounds, "went through")
}

// swapper starts the attacker, and gives what ends it.
func swapper(t *testing.T, lower string, seed int) func() {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "CHANGES_ROLE=swapper", "CHANGES_BASE="+lower, "CHANGES_SEED="+strconv.Itoa(seed))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	_, err = out.Read(make([]byte, 1)) // it has begun
	must(t, err)
	var once sync.Once
	stop := func() { once.Do(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) }
	t.Cleanup(stop)
	return stop
}

// swapForever is the attacker: the link is there for a moment now and then, so that
// others get as far as to be led outside.
func swapForever() {
	base := os.Getenv("CHANGES_BASE")
	seed, _ := strconv.Atoi(os.Getenv("CHANGES_SEED"))
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	for first := true; ; first = false {
		_ = exchange(base+"/d", base+"/link")
		for range r.IntN(200) {
			_ = unix.Getppid()
		}
		_ = exchange(base+"/d", base+"/link")
		if first {
			_, _ = os.Stdout.WriteString("x")
		}
		for range r.IntN(2000) {
			_ = unix.Getppid()
		}
	}
}
