package rootfs

import (
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/handoff"
)

func defaults(in *Input) {
	for _, p := range DefaultProtect() {
		in.Protect = append(in.Protect, p.Path)
	}
	in.Workdir = "rw"
}

func TestProtectedPathsInAWritableTree(t *testing.T) {
	h := host(t, "/home/u/p/.git/config=1", "/home/u/p/.git/hooks/", "/home/u/p/.git/HEAD=1", "/home/u/p/.github/x=1",
		"/home/u/p/.vscode/s.json=1", "/home/u/p/.envrc=1", "/home/u/p/my.toml=1")
	r := compile(t, h, func(in *Input) { defaults(in); in.ConfigFiles = []string{"/home/u/p/my.toml", "/etc/confine.toml"} })
	r.want("/home/u/p", "rw /home/u/p", "/home/u/p/.git", "pin", "/home/u/p/.git/config", "readonly", "/home/u/p/.git/hooks", "readonly",
		"/home/u/p/.github", "pin", "/home/u/p/.vscode", "readonly", "/home/u/p/.envrc", "readonly", "/home/u/p/my.toml", "readonly",
		"/home/u/p/.github/workflows", "", "/home/u/p/src", "")
	for _, p := range []string{"/home/u/p/.github/workflows", "/home/u/p/.git/commondir", "/home/u/p/confine.toml", "/home/u/p/Jenkinsfile"} {
		if !slices.Contains(r.KeepAbsent, p) {
			t.Errorf("%s is not kept absent", p)
		}
	}
	if slices.Contains(r.KeepAbsent, "/home/u/p/.envrc") {
		t.Error("what exists is to be removed")
	}
}

func TestNothingIsProtectedWhereNothingIsWritten(t *testing.T) {
	for _, mode := range []string{"ro", "overlay", "none"} {
		r := compile(t, host(t, "/home/u/p/.git/config=1"), func(in *Input) { defaults(in); in.Workdir = mode })
		for _, m := range r.Mounts {
			if m.Kind == handoff.MountPin || m.Kind == handoff.MountReadOnly {
				t.Errorf("%s: %s at %s", mode, kindNames[m.Kind], m.Dst)
			}
		}
		if len(r.KeepAbsent) > 0 {
			t.Errorf("%s: %q", mode, r.KeepAbsent)
		}
	}
}

func TestProtectionFollowsTheTree(t *testing.T) {
	r := compile(t, host(t, "/data/r/.git/config=1"), func(in *Input) {
		in.Protect = []string{".git/config", ".envrc"}
		in.Mounts = []Mount{{Src: "/data/r", Dst: "/srv/r", Mode: "rw"}}
	})
	r.want("/srv/r/.git", "pin", "/srv/r/.git/config", "readonly")
	if !slices.Equal(r.KeepAbsent, []string{"/data/r/.envrc"}) { // outside
		t.Errorf("kept absent: %q", r.KeepAbsent)
	}
	// A tree named inside another writable one is a root of its own.
	r = compile(t, host(t, "/data/r/.git/config=1"), func(in *Input) {
		in.Protect, in.AllowWrite = []string{".git/config"}, []string{"/data", "/data/r"}
	})
	r.want("/data/r", "pin", "/data/r/.git", "pin", "/data/r/.git/config", "readonly")
	// What the caller names as writable is.
	r = compile(t, host(t, "/data/r/.git/config=1"), func(in *Input) {
		in.Protect, in.AllowWrite = []string{".git/config"}, []string{"/data/r", "/data/r/.git/config"}
	})
	if strings.Contains(r.at("/data/r/.git/config"), "readonly") {
		t.Error("what was named as writable isn't")
	}
}

func TestProtectedLinks(t *testing.T) {
	h := host(t, "/home/u/p/.envrc -> conf/env", "/home/u/p/conf/env=1", "/home/u/p/.vscode -> conf", "/home/u/p/.bashrc -> nowhere",
		"/home/u/p/.github -> conf", "/home/u/p/conf/workflows/")
	r := compile(t, h, func(in *Input) {
		in.Workdir, in.Protect = "rw", []string{".envrc", ".vscode", ".bashrc", ".github/workflows"}
	})
	r.want("/home/u/p/.envrc", "ro /home/u/p/conf/env", "/home/u/p/conf/env", "readonly", "/home/u/p/conf", "readonly",
		"/home/u/p/.vscode", "mask", "/home/u/p/.bashrc", "mask", "/home/u/p/.github", "mask", "/home/u/p/conf/workflows", "readonly")
	if len(r.Notices) != 3 {
		t.Errorf("notices %q", r.Notices)
	}
}

func TestGitDirectoriesElsewhere(t *testing.T) {
	h := host(t, "/home/u/p/.git=gitdir: ../main/.git/worktrees/p\n", "/home/u/main/.git/worktrees/p/commondir=../..\n",
		"/home/u/main/.git/hooks/", "/home/u/main/.git/config=1", "/home/u/main/.git/modules/lib/x/HEAD=1",
		"/home/u/main/.git/modules/lib/x/config=1")
	r := compile(t, h, func(in *Input) { defaults(in); in.AllowWrite = []string{"/home/u/main"} })
	r.want("/home/u/p/.git", "readonly", "/home/u/main/.git", "pin", "/home/u/main/.git/hooks", "readonly",
		"/home/u/main/.git/config", "readonly", "/home/u/main/.git/worktrees/p/commondir", "readonly",
		"/home/u/main/.git/modules/lib/x", "pin", "/home/u/main/.git/modules/lib/x/config", "readonly")
	if !slices.Contains(r.KeepAbsent, "/home/u/main/.git/modules/lib/x/hooks") {
		t.Errorf("kept absent: %q", r.KeepAbsent)
	}
	// The git directory is writable, but not the tree that it belongs to.
	r = compile(t, h, func(in *Input) { defaults(in); in.AllowWrite = []string{"/home/u/main/.git"} })
	r.want("/home/u/main/.git/hooks", "readonly", "/home/u/main/.git/modules/lib/x/config", "readonly")
	r = compile(t, h, defaults) // the git directory isn't writable: nothing to do there
	r.want("/home/u/p/.git", "readonly", "/home/u/main/.git/config", "")
	// A writable tree that begins within a git directory.
	r = compile(t, h, func(in *Input) {
		in.Protect, in.AllowWrite = []string{".git/config"}, []string{"/home/u/main/.git/modules"}
	})
	r.want("/home/u/main/.git/modules", "rw /home/u/main/.git/modules")
}

// The file that leads git from a submodule, or from another worktree, to its directory could
// lead it to one that the run has made.
func TestWhatLeadsGitElsewhereIsProtected(t *testing.T) {
	const git = "/home/u/p/.git"
	h := host(t, git+"/HEAD=1", git+"/config=1", git+"/hooks/",
		git+"/modules/sub/HEAD=1", git+"/modules/sub/config=[Core]\n\tWorkTree = \"../../../lib/sub\"\n", "/home/u/p/lib/sub/.git=gitdir: ../../.git/modules/sub\n",
		git+"/worktrees/w/gitdir=/home/u/p/trees/w/.git\n", git+"/worktrees/w/commondir=../..\n", "/home/u/p/trees/w/.git=gitdir: "+git+"/worktrees/w\n",
		git+"/modules/empty/HEAD=1", git+"/modules/empty/config=[core]\n\tworktree = ../../../none\n", "/home/u/p/none/")
	r := compile(t, h, defaults)
	r.want("/home/u/p/lib/sub/.git", "readonly", "/home/u/p/trees/w/.git", "readonly")
	if !slices.Contains(r.KeepAbsent, "/home/u/p/none/.git") {
		t.Errorf("kept absent: %q", r.KeepAbsent)
	}
}

func TestGitDirectoryOfAWorktreeIsShown(t *testing.T) {
	const main = "/home/u/main/.git"
	worktree := []string{"/home/u/p/.git=gitdir: ../main/.git/worktrees/p\n", main + "/worktrees/p/commondir=../..\n", main + "/hooks/", main + "/config=1",
		main + "/HEAD=1"}
	back := main + "/worktrees/p/gitdir=/home/u/p/.git\n"
	h := host(t, append(worktree, back)...)
	for mode, want := range map[string]string{"ro": "ro " + main, "rw": "rw " + main, "overlay": "overlay " + main} {
		r := compile(t, h, func(in *Input) { defaults(in); in.Workdir = mode })
		if got := r.at(main); got != want && got != want+"+pin" {
			t.Errorf("%s: %q", mode, got)
		}
		if r.sees("/home/u/main/.git/config") != true || r.sees("/home/u/main/x") {
			t.Errorf("%s: not the git directory alone is shown", mode)
		}
		if mode == "rw" {
			r.want(main+"/config", "readonly", main+"/hooks", "readonly", main+"/worktrees/p/commondir", "readonly", "/home/u/p/.git", "readonly")
			if slices.Contains(r.KeepAbsent, main+"/.envrc") {
				t.Error("a git directory is taken for a tree")
			}
		}
	}
	// By a relative path, as newer versions of git write it.
	r := compile(t, host(t, append(worktree, main+"/worktrees/p/gitdir=../../../../p/.git\n")...), nil)
	r.want(main, "ro "+main)
	// One that doesn't point back shows nothing: a .git file could have been made for that.
	for _, lines := range [][]string{worktree, append(worktree, main+"/worktrees/p/gitdir=/home/u/q/.git\n"), {"/home/u/p/.git=gitdir: ../.ssh\n"},
		{"/home/u/p/.git=gitdir: /home/u/.ssh/\n", "/home/u/.ssh/config=Host *\n"}} {
		r := compile(t, host(t, lines...), nil)
		if r.sees(main+"/config") || r.sees("/home/u/.ssh/id") || len(r.Notices) != 1 {
			t.Errorf("shown: %v, notices %q", r.sees(main+"/config"), r.Notices)
		}
	}
	// A submodule's says so in its configuration.
	module := "/home/u/super/.git/modules/p"
	r = compile(t, host(t, "/home/u/p/.git=gitdir: "+module+"\n", module+"/config=[core]\n\tworktree = ../../../../p\n[remote]\n", module+"/HEAD=1"), nil)
	r.want(module, "ro "+module)
	r = compile(t, host(t, "/home/u/p/.git=gitdir: "+module+"\n", module+"/config=[other]\n\tworktree = ../../../../p\n"), nil)
	r.want(module, "")
	// What the caller named is as the caller named it.
	r = compile(t, h, func(in *Input) { in.Workdir, in.AllowRead = "rw", []string{"/home/u/main"} })
	r.want("/home/u/main", "ro /home/u/main", main, "")
}

func TestDefaultProtectIsData(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range DefaultProtect() {
		if seen[p.Path] || p.Reason == "" || strings.HasPrefix(p.Path, "/") {
			t.Errorf("entry %+v", p)
		}
		seen[p.Path] = true
	}
	for _, must := range []string{".git/hooks", ".git/config", "confine.toml", ".envrc"} {
		if !seen[must] {
			t.Errorf("%s is not protected", must)
		}
	}
}

func TestWhatIsHiddenOrProtectedIsKnownByItsNumber(t *testing.T) {
	h := host(t, "/home/u/p/.env=1", "/home/u/p/.envrc=1")
	for _, mode := range []string{"rw", "overlay"} {
		r := compile(t, h, func(in *Input) { defaults(in); in.Workdir, in.Deny = mode, []string{".env", "gone"} })
		for _, m := range r.Mounts {
			switch m.Dst {
			case "/home/u/p/.env": // an overlay gives files other devices
				if want, _ := h.Lstat(m.Dst); m.Ino != want.Ino || (m.Dev == 0) != (mode == "overlay") {
					t.Errorf("%s: %+v", mode, m)
				}
			case "/home/u/p/.envrc":
				if want, _ := h.Lstat(m.Dst); m.Ino != want.Ino {
					t.Errorf("%s: %+v", mode, m)
				}
			}
		}
	}
}
