package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confine-run/confine/internal/changes"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/linux"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/plan"
)

func TestWhatAKeptRunLacksIsTold(t *testing.T) {
	const lost, deep, partly = "at least 1 changes were too many to be kept", "changes with paths that are too long for the system could not be kept: at least 2",
		"changes that could not be kept whole, and can't be applied: 3"
	for _, c := range []struct {
		lost, deep, partly int
		want               string
	}{{0, 0, 0, ""}, {1, 0, 0, lost}, {0, 2, 0, deep}, {0, 0, 3, partly}, {1, 2, 3, lost + "; " + deep + "; " + partly}} {
		if got := missing(c.lost, c.deep, c.partly); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// The run may close the top of its overlay: what is in it isn't lost.
func TestTheTopOfAnUpperThatWasClosedIsOpened(t *testing.T) {
	for _, mode := range []uint32{0, 0o111, 0o200, 0o400, 0o755} {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(dir+"/made", nil, 0o644))
		must.Do(t, unix.Chmod(dir, mode))
		scratch, err := unix.Open(filepath.Dir(dir), unix.O_PATH|unix.O_DIRECTORY, 0)
		must.Do(t, err)
		fd, err := openUpper(scratch, filepath.Base(dir), unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			t.Fatalf("%o: %v", mode, err)
		}
		var st unix.Stat_t
		if err := unix.Fstatat(fd, "made", &st, 0); err != nil {
			t.Errorf("%o: %v", mode, err)
		}
		_, _ = unix.Close(fd), unix.Close(scratch)
	}
}

// A file whose status was read has its next time from the fine clock: what was changed just before the run began is no conflict.
func TestAChangeJustBeforeTheRunIsNoConflict(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tool")
	must.Do(t, os.WriteFile(name, nil, 0o644))
	for n := range 100 {
		var st unix.Stat_t
		must.Do(t, errors.Join(unix.Stat(name, &st), unix.Chmod(name, 0o600+uint32(n%2))))
		b := newBox(&plan.Plan{}, nil, &Options{})
		must.Do(t, unix.Stat(name, &st))
		if changed := time.Unix(st.Ctim.Unix()); changed.After(b.foreign()) {
			t.Fatalf("changed %v, and the run began %v before", changed, changed.Sub(b.foreign()))
		}
	}
}

// What no process could write, because something else is mounted there, is told by nobody as changed.
func TestNothingIsChangedBeneathMounts(t *testing.T) {
	at := &plan.Overlay{Dst: "/w"}
	b := &box{plan: &plan.Plan{Box: handoff.Box{Mounts: []handoff.Mount{
		{Kind: handoff.MountOverlay, Dst: "/w"}, {Kind: handoff.MountMask, Dst: "/w/a/key", Ino: 1},
		{Kind: handoff.MountBind, Dst: "/w/ro"}, {Kind: handoff.MountMask, Dst: "/w/absent"}, {Kind: handoff.MountPin, Dst: "/w/pin"},
	}}}}
	for _, c := range []struct {
		changes.Change
		refused bool
	}{
		{changes.Change{Path: "b", Kind: changes.Added, Type: changes.File}, false},
		{changes.Change{Path: "a/other", Kind: changes.Deleted, Type: changes.File, Was: changes.File}, false},
		{changes.Change{Path: "a", Kind: changes.ModeOnly, Type: changes.Dir, Was: changes.Dir}, false},
		{changes.Change{Path: "absent", Kind: changes.Added, Type: changes.File}, false},
		{changes.Change{Path: "pin/x", Kind: changes.Added, Type: changes.File}, false},
		{changes.Change{Path: "rose", Kind: changes.Added, Type: changes.File}, false},
		{changes.Change{Path: "a/key", Kind: changes.Deleted, Type: changes.File, Was: changes.File}, true},
		{changes.Change{Path: "a/key/x", Kind: changes.Added, Type: changes.File}, true},
		{changes.Change{Path: "a", Kind: changes.Deleted, Type: changes.Dir, Was: changes.Dir}, true},
		{changes.Change{Path: "a", Kind: changes.Modified, Type: changes.Symlink, Was: changes.Dir}, true},
		{changes.Change{Path: "ro/f", Kind: changes.Modified, Type: changes.File, Was: changes.File}, true},
		{changes.Change{Path: "ro", Kind: changes.Deleted, Type: changes.Dir, Was: changes.Dir}, true},
	} {
		err := b.beneathMounts(at, &changes.Set{Changes: []changes.Change{c.Change}})
		if (err != nil) != c.refused {
			t.Errorf("%s %s: %v", c.Kind, c.Path, err)
		}
	}
}

// What a box can't hold is closed once: by the time of its end the numbers are somebody else's.
func TestDescriptorsOfABoxThatBreaksAreClosedOnce(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	defer linux.CloseAll(pair[:])
	open := func() int {
		fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
		must.Do(t, err)
		return fd
	}
	b := newBox(&plan.Plan{}, &process{bare: true, sock: pair[0], pidfd: -1}, &Options{})
	const none = 1 << 30 // no descriptor: it can't be held
	own := open()
	b.hearBuilt(&built{Built: &handoff.Built{Uppers: []handoff.Upper{{}}}, proc: -1, scratch: none, own: []int{own}})
	if b.failed == nil {
		t.Fatal("it doesn't say so")
	}
	others := open()
	if others != own {
		t.Fatalf("%d wasn't closed", own)
	}
	b.stacks.close()
	if err := unix.Close(others); err != nil {
		t.Errorf("somebody else's was closed: %v", err)
	}
}
