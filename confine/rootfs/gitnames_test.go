package rootfs

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/confine-run/confine/confine/gitdir"
	"github.com/confine-run/confine/confine/hostfs/hosttest"
	"github.com/confine-run/confine/internal/handoff"
)

// Each directory on the way to what is obeyed is a mount: how many, whoever fills the tree must not decide.
func TestWaysToWhatGitNamesAreBounded(t *testing.T) {
	const p = "/home/u/p/"
	deep := func(names int) run {
		lines, text := []string{p + ".git/HEAD=1"}, ""
		for i := range names {
			name := "d" + strconv.Itoa(i) + strings.Repeat("/x", 200) + "/f"
			lines = append(lines, p+name+"=1")
			text += "[a" + strconv.Itoa(i) + "]\nb = " + name + "\n"
		}
		return compile(t, hosttest.Debian(t, append(lines, p+".git/config="+text)...), defaults)
	}
	few := deep(3)
	few.want(p+"d2"+strings.Repeat("/x", 200)+"/f", "readonly")
	if few.ProtectsLess {
		t.Errorf("%q", few.Notices)
	}
	many := deep(60)
	pins := 0
	for _, m := range many.Mounts {
		if m.Kind == handoff.MountPin {
			pins++
		}
	}
	if !many.ProtectsLess || pins > gitdir.MaxLevels {
		t.Errorf("less %v, %d pins", many.ProtectsLess, pins)
	}
	many.want(p+".git/config", "readonly")
}

// A ".." leads up from wherever the name before it leads.
func TestNamesThatTurnAround(t *testing.T) {
	const p = "/home/u/p/"
	r := compile(t, hosttest.Debian(t, p+".git/HEAD=1", p+".git/config=[core]\nhooksPath = h/../k\n"), defaults)
	if !slices.Contains(r.KeepAbsent, p+"k") || !slices.Contains(r.KeepClear, p+"h") {
		t.Errorf("kept absent %q, clear %q", r.KeepAbsent, r.KeepClear)
	}
	r = compile(t, hosttest.Debian(t, p+".git/HEAD=1", p+".git/config=[core]\nhooksPath = h/../k\n", p+"h/", p+"k/"), defaults)
	r.want(p+"h", "pin", p+"k", "readonly")
	r = compile(t, hosttest.Debian(t, p+".git/HEAD=1", p+".git/config=[core]\nhooksPath = "+p+"h/../k\n"), defaults)
	if !slices.Contains(r.KeepClear, p+"h") {
		t.Errorf("by an absolute name: clear %q", r.KeepClear)
	}
	// Several at once, through links, and in what says where the git directory is.
	r = compile(t, hosttest.Debian(t, p+".git/HEAD=1", p+".git/config=[core]\nhooksPath = a/b/../../k\n", p+"a/b/", p+"k/"), defaults)
	r.want(p+"a/b", "pin", p+"a", "pin", p+"k", "readonly")
	r = compile(t, hosttest.Debian(t, p+".git/HEAD=1", p+".git/config=[core]\nhooksPath = a/b/../../k\n"), defaults)
	if !slices.Contains(r.KeepClear, p+"a") || !slices.Contains(r.KeepClear, p+"a/b") {
		t.Errorf("clear %q", r.KeepClear)
	}
	r = compile(t, hosttest.Debian(t, p+".envrc -> env/a/../rc", p+"env/a/", p+"env/rc=1"), defaults)
	r.want(p+"env/a", "pin", p+"env/rc", "readonly")
	r = compile(t, hosttest.Debian(t, p+".git=gitdir: a/../real\n", p+"a/", p+"real/HEAD=1", p+"real/objects/", p+"real/refs/"), defaults)
	r.want(p+"a", "pin", p+"real", "pin")
	// A tree that a name merely climbs out of isn't kept from anything.
	r = compile(t, hosttest.Debian(t, p+".git/HEAD=1", p+".git/config=[core]\nhooksPath = ../k\n", p+"src/"), defaults)
	r.want(p+"src", "")
	if slices.Contains(r.KeepClear, p+"k") {
		t.Errorf("clear %q", r.KeepClear)
	}
}

// A rebase that goes on runs what its list says. One that isn't there may be begun.
func TestARebaseThatIsGoingOn(t *testing.T) {
	const p = "/home/u/p/"
	r := compile(t, hosttest.Debian(t, p+".git/HEAD=1", p+".git/rebase-merge/git-rebase-todo=1"), defaults)
	r.want(p+".git/rebase-merge", "readonly")
	r = compile(t, hosttest.Debian(t, p+".git/HEAD=1"), defaults)
	if slices.Contains(r.KeepAbsent, p+".git/rebase-merge") {
		t.Error("it is kept absent")
	}
}
