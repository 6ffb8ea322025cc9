package changes

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
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
		must(t, s.store.Recover())
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
	s, outside := swapScene(t)
	twin := snapshotPath(t, outside)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "CHANGES_ROLE=swapper", "CHANGES_BASE="+s.lower)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	// The control: whoever goes by name is led outside.
	for tries := 0; ; tries++ {
		_ = os.WriteFile(s.lower+"/d/control", nil, 0o644)
		if os.Remove(outside+"/control") == nil {
			break
		}
		if tries == 1_000_000 {
			t.Fatal("the swapper doesn't swap")
		}
	}
	var through atomic.Int64
	for range 500 {
		build(t, s.upper, map[string]string{"d/edit": "new"})
		id, err := s.store.Keep(Keeping{Start: farFuture, Trees: []Tree{s.tree}, Sets: []*Set{s.read(t)}})
		if err != nil || id == "" {
			continue
		}
		r, err := s.store.Open(id)
		must(t, err)
		if _, err := s.store.Apply(r, nil, Options{Force: true}); err == nil {
			through.Add(1)
		}
		_ = r.Close()
		_, _ = s.store.Discard(id)
		if err := os.Remove(outside + "/control"); err == nil {
			continue
		}
		if d := difference(twin, snapshotPath(t, outside)); d != "" {
			t.Fatalf("written outside:\n%s", d)
		}
	}
	t.Log(through.Load(), "of 500 went through")
}

// swapForever is the attacker.
func swapForever() {
	base := os.Getenv("CHANGES_BASE")
	for {
		_ = exchange(base+"/d", base+"/link")
	}
}
