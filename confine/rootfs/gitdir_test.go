package rootfs

import (
	"slices"
	"testing"

	"github.com/confine-run/confine/confine/hostfs/hosttest"
	"github.com/confine-run/confine/confine/view"
	"github.com/confine-run/confine/internal/handoff"
)

// What git keeps of a worktree that the run doesn't see isn't pruned: it finds a file where
// that is, or can't write there.
func TestWorktreesElsewhereAreNotPruned(t *testing.T) {
	t.Parallel()
	const git, away = "/home/u/p/.git", "/home/u/away"
	repository := []string{git + "/HEAD=1", git + "/config=1", git + "/hooks/", git + "/worktrees/w/commondir=../..\n", git + "/worktrees/w/HEAD=1"}
	stands := func(r run) bool {
		return slices.ContainsFunc(r.Mounts, func(m handoff.Mount) bool { return m.Kind == handoff.MountFile && m.Dst == away+"/.git" })
	}
	for _, tt := range []struct {
		name, gitdir, file string
		change             func(*view.Input)
		stands             bool
		admin              string // what is at the worktree's directory in the repository
	}{
		{"writable", away + "/.git", git + "/worktrees/w", nil, true, "pin"},
		{"overlay", away + "/.git", git + "/worktrees/w", func(in *view.Input) { in.Workdir = "overlay" }, true, ""},
		{"read-only", away + "/.git", git + "/worktrees/w", func(in *view.Input) { in.Workdir = "ro" }, false, ""},
		{"shown", away + "/.git", git + "/worktrees/w", func(in *view.Input) { in.AllowRead = []string{away} }, false, "pin"},
		{"by a relative name", "../../../../away/.git", git + "/worktrees/w", nil, true, "pin"},
		{"around", "/home/u/x/../away/.git", git + "/worktrees/w", nil, false, "readonly"},
		{"another's", away + "/.git", "/home/u/q/.git/worktrees/w", nil, false, "readonly"},
		{"by another name", away + "/x", git + "/worktrees/w", nil, false, "readonly"},
		{"gone", "/home/u/gone/.git", git + "/worktrees/w", nil, false, "pin"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := hosttest.Debian(t, append([]string{git + "/worktrees/w/gitdir=" + tt.gitdir + "\n", away + "/.git=gitdir: " + tt.file + "\n", "/home/u/x/", "/home/u/q/.git/worktrees/w/HEAD=1"}, repository...)...)
			r := compile(t, h, func(in *view.Input) {
				if defaults(in); tt.change != nil {
					tt.change(in)
				}
			})
			if stands(r) != tt.stands {
				t.Errorf("a file stands there: %v, want %v", !tt.stands, tt.stands)
			}
			r.want(git+"/worktrees/w", tt.admin)
		})
	}
}
