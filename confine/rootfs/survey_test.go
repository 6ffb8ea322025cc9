package rootfs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/confine-run/confine/confine/gitdir"
	"github.com/confine-run/confine/confine/hostfs/hosttest"
)

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
			for _, name := range tt.absent {
				if !slices.Contains(r.KeepAbsent, name) {
					t.Errorf("%s isn't kept absent", name)
				}
			}
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
