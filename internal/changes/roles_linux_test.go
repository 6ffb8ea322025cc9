package changes

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// applyAndDie applies, or recovers, and is killed at the n-th change to a disk.
func applyAndDie() {
	s, err := OpenStore(os.Getenv("CHANGES_STORE"))
	must(nil, err)
	n, err := strconv.Atoi(os.Getenv("CHANGES_KILL"))
	must(nil, err)
	s.hook = func(string) error {
		if n--; n == 0 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
		return nil
	}
	if os.Getenv("CHANGES_RECOVER") != "" {
		recovered(nil, s)
		os.Exit(0)
	}
	r, err := s.Latest(nil)
	must(nil, err)
	_, err = s.Apply(r, nil, Options{})
	must(nil, err)
	os.Exit(0)
}

// killed runs that in a process, and tells whether it came to be killed.
func killed(t *testing.T, s *Store, n int, recover string) bool {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "CHANGES_ROLE=apply", "CHANGES_STORE="+s.path, "CHANGES_KILL="+strconv.Itoa(n), "CHANGES_RECOVER="+recover)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !ws.Signaled() || ws.Signal() != unix.SIGKILL {
		t.Fatalf("%d: %v\n%s", n, err, out)
	}
	return true
}

// everyKind is a scene with each kind of step.
func everyKind(t *testing.T) *scene {
	t.Helper()
	inMemory(t)
	s := newScene(t, map[string]string{"edit": "old", "mode": "m", "gone": "g", "tree/a": "a", "tree/sub/b": "b", "todir": "file", "tofile/x": "x",
		"link@": "edit", "closed/in": "in", "closed/deep/in": "in", "kept": "k",
		"held/in": "in", "held/gone": "g", "held/deep/in": "in"})
	build(t, s.upper, map[string]string{"edit": "new", "mode": "m", "todir/in/deep": "deep", "tofile": "file", "link@": "mode", "new": "fresh",
		"newdir/one": "1", "newdir/sub/two": "2", "newdir/to@": "one", "closed/in": "changed", "closed/deep/in": "changed", "closed/deep/more": "more",
		"held/in": "changed", "held/more": "more", "held/sub/new": "new", "held/deep/in": "changed"})
	must(t, os.Link(s.upper+"/newdir/one", s.upper+"/again"))
	must(t, os.Chmod(s.upper+"/mode", 0o600))
	must(t, os.Chmod(s.upper+"/newdir/sub", 0o500))
	must(t, os.Chmod(s.upper+"/closed/deep", 0o500))
	must(t, os.Chmod(s.upper+"/closed", 0o100))
	whiteout(t, s.upper+"/gone")
	whiteout(t, s.upper+"/tree")
	whiteout(t, s.upper+"/held/gone")
	for _, at := range []string{"/held/deep", "/held", ""} { // closed to their owner, before and after
		must(t, os.Chmod(s.lower+at, 0o555))
		must(t, os.Chmod(s.upper+at, 0o555))
	}
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwx", s.lower, s.upper).Run() })
	return s
}

// oldAndNew are the two trees that there may be.
func oldAndNew(t *testing.T) (before, after map[string]string) {
	t.Helper()
	s := everyKind(t)
	before = snapshotPath(t, s.lower)
	s.apply(t, s.keep(t))
	return before, snapshotPath(t, s.lower)
}

func (s *scene) check(t *testing.T, at string, before, after map[string]string) (isNew bool) {
	t.Helper()
	now := snapshotPath(t, s.lower)
	for path := range now {
		if strings.Contains(path, tempPrefix) {
			t.Errorf("%s: left behind: %s", at, path)
		}
	}
	isNew = maps.Equal(now, after)
	if !isNew && !maps.Equal(now, before) {
		t.Errorf("%s: neither old nor new\nold | now\n%s\nnew | now\n%s", at, difference(before, now), difference(after, now))
	}
	if st, err := os.Stat(s.lower); err != nil || st.Mode().Perm() != 0o555 {
		t.Errorf("%s: the tree's root has mode %v, %v", at, st.Mode(), err)
	}
	runs, err := s.store.List()
	must(t, err)
	if isNew != (len(runs) == 0) {
		t.Errorf("%s: new: %v, but the store has %v", at, isNew, runs)
	}
	var in []string
	must(t, names(s.store.fd, func(name string) error { in = append(in, name); return nil }))
	if len(in) > 2 || isNew && len(in) > 1 {
		t.Errorf("%s: in the store: %q", at, in)
	}
	if isNew {
		return true
	}
	// Nothing of the interrupted one stands in the way.
	r, err := s.store.Latest(nil)
	must(t, err)
	defer r.Close()
	if _, err := s.store.Apply(r, nil, Options{}); err != nil {
		t.Errorf("%s: again: %v", at, err)
	} else if d := difference(after, snapshotPath(t, s.lower)); d != "" {
		t.Errorf("%s: again\n%s", at, d)
	}
	return false
}

func TestKilledAtEveryStep(t *testing.T) {
	before, after := oldAndNew(t)
	if d := difference(before, after); len(strings.Split(d, "\n")) < 15 {
		t.Fatalf("too little happens:\n%s", d)
	}
	olds, news := 0, 0
	for n := 1; ; n++ {
		s := everyKind(t)
		s.keep(t)
		if !killed(t, s.store, n, "") {
			t.Logf("%d points, %d times old, %d times new", n-1, olds, news)
			break
		}
		recovered(t, s.store)
		if s.check(t, fmt.Sprint("killed at ", n), before, after) {
			news++
		} else {
			olds++
		}
	}
	if olds < 10 || news < 10 {
		t.Errorf("%d times old, %d times new", olds, news)
	}
}

func TestKilledWhileRecovering(t *testing.T) {
	before, after := oldAndNew(t)
	step := 3
	if testing.Short() {
		step = 20
	}
	points := 0
	for n := 4; ; n += step {
		s := everyKind(t)
		s.keep(t)
		if !killed(t, s.store, n, "") {
			break
		}
		// Each attempt gets a little further than the one before.
		for m := 1 + n%3; killed(t, s.store, m, "yes"); m += 3 {
			points++
		}
		s.check(t, fmt.Sprint("killed at ", n, " and while recovering"), before, after)
	}
	t.Log(points, "points")
	if points < 30 && !testing.Short() {
		t.Error("recovery was hardly ever interrupted")
	}
}

func TestFailedAtEveryStep(t *testing.T) {
	before, after := oldAndNew(t)
	for n := 1; ; n++ {
		s := everyKind(t)
		r := s.keep(t)
		left, point := n, ""
		s.store.hook = func(at string) error {
			if left--; left == 0 {
				point = at
				return unix.ENOSPC
			}
			return nil
		}
		_, err := s.store.Apply(r, nil, Options{})
		s.store.hook = nil
		if point == "" {
			must(t, err)
			break
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s (%d): %v", point, n, err)
		}
		now := snapshotPath(t, s.lower)
		if done := point == "clean" || point == "forget"; !done && !maps.Equal(now, before) {
			t.Errorf("%s (%d): not undone\n%s", point, n, difference(before, now))
		}
		recovered(t, s.store)
		s.check(t, fmt.Sprint(point, " failed, ", n), before, after)
	}
}
