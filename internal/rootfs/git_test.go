package rootfs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/gitdir"
	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/view"
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

// A run can make git directories of submodules and worktrees in a writable tree. Whatever
// there is, the next one keeps the caller's own hooks.
func TestWhatARunMakesUsesUpNoBoundOfTheCallers(t *testing.T) {
	t.Parallel()
	const p, git = "/home/u/p/", "/home/u/p/.git/"
	deep := strings.Repeat("/"+strings.Repeat("d", 60), 60)
	many := func(n int, line string) (lines []string) {
		for i := range n {
			lines = append(lines, strings.ReplaceAll(line, "%", strconv.Itoa(i)))
		}
		return lines
	}
	for name, planted := range map[string][]string{
		"nothing":           nil,
		"configuration":     {git + "modules/m/HEAD=1", git + "modules/m/config=" + strings.Repeat("\n", gitdir.MaxConfig-1)},
		"deep worktrees":    append(many(3, git+"worktrees/w%/gitdir="+p+"b%"+deep+"/.git\n"), many(3, p+"b%"+deep+"/x=1")...),
		"links in hooks":    append(many(1500, git+"modules/m/hooks/l% -> ../../../../t/%"), append(many(1500, git+"modules/n/hooks/l% -> ../../../../t/n%"), git+"modules/m/HEAD=1", git+"modules/n/HEAD=1")...),
		"hooks that are":    append(many(200, git+"modules/m%/hooks -> ../../../t"+strings.Repeat("/../t", 90)), append(many(200, git+"modules/m%/HEAD=1"), p+"t/x=1")...),
		"submodules":        many(gitdir.MaxDirs+1, git+"modules/m%/HEAD=1"),
		"worktrees":         many(gitdir.MaxDirs+1, git+"worktrees/w%/HEAD=1"),
		"names of programs": {git + "modules/m/HEAD=1", git + "modules/m/config=[core]\n\tworktree = ../../..\n" + strings.Join(many(gitdir.MaxLooks, "[filter \"%\"]\nclean = a/%\n"), "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hosttest.Debian(t, append([]string{git + "HEAD=1", git + "config=[core]\n\thooksPath = tools/hooks\n", p + "tools/hooks/pre-commit=1",
				git + "hooks/pre-push -> ../../tools/push", p + "tools/push=1", git + "modules/zz/HEAD=1", git + "modules/zz/config=[core]\n\tworktree = ../../../lib\n",
				p + "lib/.git=gitdir: ../.git/modules/zz\n", p + ".gitmodules=[submodule \"zz\"]\n\tpath = lib\n"}, planted...)...)
			r := compile(t, h, defaults)
			r.want(p+"tools/hooks", "readonly", p+"tools/push", "readonly", git+"modules/zz/config", "readonly", p+"lib/.git", "readonly")
			if name == "submodules" || name == "worktrees" {
				if !r.ProtectsLess {
					t.Error("too many aren't told")
				}
				r.want(git+"modules", "readonly")
			}
		})
	}
}

// Names in a git directory that no tree belongs to lead to nothing that is removed.
func TestAGitDirectoryThatNoTreePointsToNamesNothing(t *testing.T) {
	t.Parallel()
	const p, git = "/home/u/p/", "/home/u/p/.git/"
	config := git + "modules/m/config=[core]\n\tworktree = ../../../lib\n\thooksPath = dist\n"
	for _, points := range []bool{false, true} {
		tree := []string{git + "HEAD=1", git + "config=1", git + "modules/m/HEAD=1", config, p + "lib/x=1"}
		if points {
			tree = append(tree, p+"lib/.git=gitdir: ../.git/modules/m\n")
		}
		r := compile(t, hosttest.Debian(t, tree...), defaults)
		if got := slices.Contains(r.KeepAbsent, p+"lib/dist"); got != points {
			t.Errorf("pointed to %v, kept absent %v", points, got)
		}
		if got := slices.Contains(r.KeepAbsent, p+"lib/.git"); got == points {
			t.Errorf("pointed to %v, .git kept absent %v", points, got)
		}
	}
	// The tree is the repository's own: its .git stays writable.
	r := compile(t, hosttest.Debian(t, git+"HEAD=1", git+"config=1", git+"modules/m/HEAD=1", git+"modules/m/config=[core]\n\tworktree = ../../..\n"), defaults)
	r.want(p+".git", "pin")
}

// A submodule that isn't checked out gets no git directory from a run.
func TestSubmodulesThatAreNotThereStaySo(t *testing.T) {
	t.Parallel()
	const p, git = "/home/u/p/", "/home/u/p/.git/"
	list := func(name, at string) string {
		return fmt.Sprintf("%s.gitmodules=[submodule %q]\n\tpath = %s\n", p, name, at)
	}
	for _, tt := range []struct {
		name   string
		tree   []string
		absent []string
		stays  []string
	}{
		{"an empty directory", []string{list("lib", "lib"), p + "lib/"}, []string{p + "lib/.git", git + "modules/lib"}, nil},
		{"none", []string{list("lib", "lib")}, []string{p + "lib/.git", git + "modules/lib"}, nil},
		{"another name", []string{list(`a "b"`, "lib"), p + "lib/"}, []string{p + "lib/.git", git + `modules/a "b"`}, nil},
		{"its git directory is there", []string{list("lib", "lib"), p + "lib/", git + "modules/lib/config=1"}, []string{p + "lib/.git", git + "modules/lib/hooks"}, []string{git + "modules/lib/config", "readonly"}},
		{"a file that leads nowhere", []string{list("lib", "lib"), p + "lib/.git=gitdir: ../.git/modules/lib\n"}, []string{git + "modules/lib"}, []string{p + "lib/.git", "readonly"}},
		{"a name that leads out", []string{list("../../x", "lib"), p + "lib/"}, []string{p + "lib/.git"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := compile(t, hosttest.Debian(t, append(tt.tree, git+"HEAD=1", git+"config=1")...), defaults)
			r.keepsAbsent(tt.absent...)
			if slices.Contains(r.KeepAbsent, "/home/u/p/x") || slices.Contains(r.KeepAbsent, git+"x") {
				t.Error("a name leads out")
			}
			r.want(tt.stays...)
		})
	}
}

// A file where a directory is looked for would make room for a link, or leads git elsewhere.
func TestAFileOnTheWayStays(t *testing.T) {
	t.Parallel()
	const p = "/home/u/p/"
	r := compile(t, hosttest.Debian(t, p+".git=gitdir: ../none\n", p+".cargo=x", p+".config=x"), defaults)
	r.want(p+".git", "readonly", p+".cargo", "readonly", p+".config", "readonly")
}

// What a file of git's leads to where nothing is doesn't come to be.
func TestGitDirectoriesThatAreNamedAndMissingStaySo(t *testing.T) {
	t.Parallel()
	const p = "/home/u/p/"
	for _, tt := range []struct{ name, file, absent string }{
		{"a tree's", ".git=gitdir: src/g\n", "src/g"},
		{"common to others", ".git/commondir=../common\n", "common"},
		{"a submodule's", "lib/.git=gitdir: ../g\n", "g"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := []string{p + tt.file, p + "src/x=1", p + ".gitmodules=[submodule \"lib\"]\npath = lib\n"}
			if tt.name != "a tree's" {
				tree = append(tree, p+".git/HEAD=1", p+".git/config=1")
			}
			if r := compile(t, hosttest.Debian(t, tree...), defaults); !slices.Contains(r.KeepAbsent, p+tt.absent) {
				t.Errorf("%s isn't kept absent: %q", tt.absent, r.KeepAbsent)
			}
		})
	}
}
