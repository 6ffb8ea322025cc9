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
	"github.com/confine-run/confine/internal/plan"
	"github.com/confine-run/confine/internal/protect"
	"github.com/confine-run/confine/internal/view"
)

func defaults(in *view.Input) {
	for _, p := range protect.Default() {
		in.Protect = append(in.Protect, p.Path)
	}
	in.Workdir = "rw"
}

func TestProtectedPathsInAWritableTree(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/.git/config=1", "/home/u/p/.git/hooks/", "/home/u/p/.git/HEAD=1", "/home/u/p/.github/x=1",
		"/home/u/p/.vscode/s.json=1", "/home/u/p/.envrc=1", "/home/u/p/my.toml=1")
	r := compile(t, h, func(in *view.Input) {
		defaults(in)
		in.ConfigFiles = []string{"/home/u/p/my.toml", "/etc/confine.toml"}
	})
	r.want("/home/u/p", "rw /home/u/p", "/home/u/p/.git", "pin", "/home/u/p/.git/config", "readonly", "/home/u/p/.git/hooks", "readonly",
		"/home/u/p/.github", "pin", "/home/u/p/.vscode", "readonly", "/home/u/p/.envrc", "readonly", "/home/u/p/my.toml", "readonly",
		"/home/u/p/.github/workflows", "", "/home/u/p/src", "")
	r.keepsAbsent("/home/u/p/.github/workflows", "/home/u/p/.git/commondir", "/home/u/p/confine.toml", "/home/u/p/Jenkinsfile")
	if slices.Contains(r.KeepAbsent, "/home/u/p/.envrc") {
		t.Error("what exists is to be removed")
	}
	for name, way := range map[string]bool{".envrc": false, ".git/config": false, ".git/hooks": false, ".git": true, ".github": true} {
		i := slices.IndexFunc(r.Covered, func(c plan.Covered) bool { return c.Path == "/home/u/p/"+name })
		if i < 0 || (r.Covered[i].Ino == 0) != way {
			t.Errorf("%s is not noted to be looked at after the run: %v", name, r.Covered)
		}
	}
}

func TestNothingIsProtectedWhereNothingIsWritten(t *testing.T) {
	for _, mode := range []string{"ro", "overlay", "none"} {
		r := compile(t, hosttest.Debian(t, "/home/u/p/.git/config=1"), func(in *view.Input) { defaults(in); in.Workdir = mode })
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
	r := compile(t, hosttest.Debian(t, "/data/r/.git/config=1"), func(in *view.Input) {
		in.Protect = []string{".git/config", ".envrc"}
		in.Mounts = []view.Mount{{Src: "/data/r", Dst: "/srv/r", Mode: "rw"}}
	})
	r.want("/srv/r/.git", "pin", "/srv/r/.git/config", "readonly")
	if !slices.Contains(r.KeepAbsent, "/data/r/.envrc") || slices.Contains(r.KeepAbsent, "/srv/r/.envrc") { // outside
		t.Errorf("kept absent: %q", r.KeepAbsent)
	}
	// A tree named inside another writable one is a root of its own.
	r = compile(t, hosttest.Debian(t, "/data/r/.git/config=1"), func(in *view.Input) {
		in.Protect, in.AllowWrite = []string{".git/config"}, []string{"/data", "/data/r"}
	})
	r.want("/data/r", "pin", "/data/r/.git", "pin", "/data/r/.git/config", "readonly")
	// What the caller names as writable is.
	r = compile(t, hosttest.Debian(t, "/data/r/.git/config=1"), func(in *view.Input) {
		in.Protect, in.AllowWrite = []string{".git/config"}, []string{"/data/r", "/data/r/.git/config"}
	})
	if strings.Contains(r.at("/data/r/.git/config"), "readonly") {
		t.Error("what was named as writable isn't")
	}
}

func TestProtectedLinks(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/.envrc -> conf/env", "/home/u/p/conf/env=1", "/home/u/p/.vscode -> conf", "/home/u/p/.bashrc -> nowhere",
		"/home/u/p/.github -> conf", "/home/u/p/conf/workflows/")
	r := compile(t, h, func(in *view.Input) {
		in.Workdir, in.Protect = "rw", []string{".envrc", ".vscode", ".bashrc", ".github/workflows"}
	})
	r.want("/home/u/p/.envrc", "ro /home/u/p/conf/env", "/home/u/p/conf/env", "readonly", "/home/u/p/conf", "readonly",
		"/home/u/p/.vscode", "mask", "/home/u/p/.bashrc", "mask", "/home/u/p/.github", "mask", "/home/u/p/conf/workflows", "readonly")
	want := `"/home/u/p/.vscode", "/home/u/p/.bashrc", "/home/u/p/.github" are hidden: `
	if len(r.Notices) != 1 || !strings.HasPrefix(r.Notices[0], want) {
		t.Errorf("notices %q, want one that begins with %q", r.Notices, want)
	}
}

// A repository can hold links of protected names to anything that its user can read.
func TestAProtectedLinkShowsNothingThatIsHidden(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/.envrc -> ../.ssh/id", "/home/u/p/.profile -> .env", "/home/u/p/.env=1", "/home/u/p/.bashrc -> ok", "/home/u/p/ok=1",
		"/home/u/p/.zshrc -> /etc/shadow")
	r := compile(t, h, func(in *view.Input) { defaults(in); in.Deny = []string{".env"} })
	r.want("/home/u/p/.envrc", "mask", "/home/u/p/.profile", "mask", "/home/u/p/.zshrc", "mask", "/home/u/p/.bashrc", "ro /home/u/p/ok")
	if r.sees("/home/u/.ssh/id") || r.sees("/etc/shadow") {
		t.Error("what a link leads to is shown")
	}
}

// What a link leads to is protected, if it is there or not, and so are the links on the way.
func TestWhatProtectedLinksLeadTo(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/.envrc -> a", "/home/u/p/a -> envs/dev", "/home/u/p/envs -> real", "/home/u/p/real/dev=1",
		"/home/u/p/.bashrc -> none/rc", "/home/u/p/.zshrc -> b", "/home/u/p/b -> .zshrc", "/home/u/p/.git/hooks -> ../githooks", "/home/u/p/githooks/x=1")
	r := compile(t, h, defaults)
	r.want("/home/u/p/.envrc", "ro /home/u/p/real/dev", "/home/u/p/a", "ro /home/u/p/real/dev", "/home/u/p/envs", "mask", "/home/u/p/real/dev", "readonly",
		"/home/u/p/.zshrc", "mask", "/home/u/p/b", "mask", "/home/u/p/.git/hooks", "mask", "/home/u/p/githooks", "readonly", "/home/u/p/src", "")
	if !slices.Contains(r.KeepAbsent, "/home/u/p/none/rc") || !slices.Contains(r.KeepClear, "/home/u/p/none") {
		t.Errorf("kept absent: %q, clear: %q", r.KeepAbsent, r.KeepClear)
	}
}

func TestWhatGitIsToldOfIsProtected(t *testing.T) {
	const p = "/home/u/p/"
	h := hosttest.Debian(t, p+".git/config=[core]\n\thooksPath = .githooks\n[include]\npath = ../git.inc\n[includeIf \"onbranch:x\"]\npath = later.inc\n", p+".githooks/pre-commit=1",
		p+"git.inc=[filter \"f\"]\nclean = \"./tools/clean %f; tools/more -x\"\n[core]\nhooksPath = ~/p/other\n[remote \"r\"]\nurl = https://h/tools/url\nfetch = +refs/heads/*:refs/x/*\n",
		p+"tools/clean=1", p+"tools/more=1", p+"tools/url=1", p+"tools/free=1", "/home/u/.gitconfig=[diff]\nexternal = tools/differ\n[include]\npath = p/global\n", p+"tools/differ=1", p+"global=[x]\ny=1\n")
	r := compile(t, h, defaults)
	r.want(p+".githooks", "readonly", p+"git.inc", "readonly", p+"tools/clean", "readonly", p+"tools/more", "readonly", p+"tools/differ", "readonly", p+"global", "readonly",
		p+"tools", "pin", p+"tools/free", "", p+"tools/url", "")
	r.keepsAbsent(p+"other", p+".git/later.inc")
	// Where there is no repository, relative names lead nowhere.
	r = compile(t, hosttest.Debian(t, "/home/u/.gitconfig=[core]\nhooksPath = hooks\n[include]\npath = p/inc\n", p+"inc=1", p+"hooks/x=1"), defaults)
	r.want(p+"inc", "readonly", p+"hooks", "")
}

// Hooks are often links, and so is much else in what is protected.
func TestWhatLinksInProtectedDirectoriesLeadTo(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/.git/hooks/pre-commit -> ../../scripts/pc", "/home/u/p/scripts/pc=1", "/home/u/p/scripts/other=1",
		"/home/u/p/.claude/commands/x -> ../../none/x", "/home/u/p/.github/workflows/a.yml -> ../../ci/a.yml", "/home/u/p/ci/a.yml=1")
	r := compile(t, h, defaults)
	r.want("/home/u/p/scripts/pc", "readonly", "/home/u/p/ci/a.yml", "readonly", "/home/u/p/scripts/other", "")
	if !slices.Contains(r.KeepAbsent, "/home/u/p/none/x") || r.ProtectsLess {
		t.Errorf("kept absent %q, less %v", r.KeepAbsent, r.ProtectsLess)
	}
	for i := range protect.MaxLinksBelow + 1 {
		h.Put("/home/u/p/.vim/f"+strconv.Itoa(i), 0o644, "")
	}
	if r := compile(t, h, defaults); !r.ProtectsLess {
		t.Error("what is too much to look at isn't told")
	}
}

// A name that can't be looked at ends no run.
func TestNamesThatCantBeLookedAt(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/.envrc -> "+strings.Repeat("x", 300), "/home/u/p/.profile -> priv/s", "/home/u/p/priv/!", "/home/u/p/priv/s=1")
	h.Other = true
	r := compile(t, h, defaults)
	r.want("/home/u/p/.envrc", "mask", "/home/u/p/priv", "readonly", "/home/u/p/priv/s", "")
}

func TestRepositoriesAroundAndWithinATree(t *testing.T) {
	const p, repo = "/home/u/p/", "/.git/HEAD=1"
	h := hosttest.Debian(t, "/home/u/.git/HEAD=1", "/home/u/.git/config=[core]\nhooksPath = p/hooks\n", p+"hooks/x=1") // above the tree
	compile(t, h, defaults).want(p+"hooks", "readonly")
	h = hosttest.Debian(t, p+repo[1:], p+".gitmodules=[submodule \"s\"]\npath = s\n[submodule \"up\"]\npath = ../q\n", p+"s/.git/HEAD=1", p+"s/.git/config=1",
		p+".git/modules/m/config=1", p+".git/modules/m/worktrees/w/gitdir="+p+"w/.git\n", p+"w/.git=gitdir: x\n", "/home/u/q/.git/config=1")
	r := compile(t, h, defaults)
	r.want(p+"s/.git/config", "readonly", p+"w/.git", "readonly", p+".git/modules/m/worktrees/w/gitdir", "readonly", p+".git/modules/m/config", "readonly")
	// What isn't a repository yet must not become one; what is one goes on as one.
	r.keepsAbsent(p + "HEAD")
	r = compile(t, hosttest.Debian(t, p+"HEAD=1", p+"objects/", p+"refs/", p+"config=1", p+"hooks/"), defaults)
	r.want(p+"HEAD", "", p+"config", "readonly", p+"hooks", "readonly")
	// The tree is a link's way into itself, and there are more git directories than anybody has.
	lines := []string{p + repo[1:], p + "mods/m/config=1", p + ".git/modules -> ../mods"}
	r = compile(t, hosttest.Debian(t, lines...), defaults)
	r.want(p+"mods/m/config", "readonly")
	for i := range gitdir.MaxDirs + 1 {
		lines = append(lines, p+"mods/m"+strconv.Itoa(i)+"/config=1")
	}
	if r := compile(t, hosttest.Debian(t, lines...), defaults); !r.ProtectsLess {
		t.Error("what is too much isn't told")
	}
}

// Each of these a clone can have: the survey ends, and says so where it left something out.
func TestASurveyEnds(t *testing.T) {
	const p, repo = "/home/u/p/", "/.git/HEAD=1"
	lines := []string{p + repo[1:]}
	modules := ""
	for i := range 40 {
		l := "l" + strconv.Itoa(i)
		lines = append(lines, p+l+" -> .", p+"d/"+l+" -> ..")
		modules += "[submodule \"" + l + "\"]\npath = " + l + "\n[submodule \"d" + l + "\"]\npath = d/" + l + "\n"
	}
	r := compile(t, hosttest.Debian(t, append(lines, p+".gitmodules="+modules)...), defaults)
	if r.ProtectsLess {
		t.Errorf("links to the tree itself: %q", r.Notices)
	}
	// A link to the directory that it is in.
	r = compile(t, hosttest.Debian(t, p+".vscode/x -> .", p+".vscode/y -> ../.vscode/x/x"), defaults)
	r.want(p+".vscode", "readonly")
	modules = strings.Repeat("[submodule \"x\"]\npath = x\n", gitdir.MaxSearch+1)
	r = compile(t, hosttest.Debian(t, p+repo[1:], p+".gitmodules="+modules), defaults)
	if !r.ProtectsLess {
		t.Error("more submodules than are looked at aren't told")
	}
	// Many worktrees times many names.
	lines, modules = []string{p + repo[1:]}, ""
	for i := range 200 {
		lines = append(lines, p+".git/worktrees/w"+strconv.Itoa(i)+"/gitdir="+p+"w"+strconv.Itoa(i)+"/.git", p+"w"+strconv.Itoa(i)+"/x=1")
		modules += "[a]\nb = c/" + strconv.Itoa(i) + "\n"
	}
	r = compile(t, hosttest.Debian(t, append(lines, p+".git/config="+modules)...), defaults)
	if !r.ProtectsLess {
		t.Error("more names than are looked for aren't told")
	}
}

func TestSubmodulesOfWorktreesAndBareRepositories(t *testing.T) {
	const p = "/home/u/p/"
	h := hosttest.Debian(t, p+".git/HEAD=1", p+".git/worktrees/w/gitdir="+p+"w/.git\n", p+".git/worktrees/w/modules/s/config=[core]\nworktree = ../../../../../w/s\n",
		p+"w/.git=gitdir: ../.git/worktrees/w\n", p+"w/s/.git=gitdir: ../../.git/worktrees/w/modules/s\n",
		p+"w/.gitmodules=[submodule \"in\"]\npath = in\n", p+"w/in/.git/HEAD=1", p+"w/in/.git/config=1")
	r := compile(t, h, defaults)
	r.want(p+".git/worktrees/w/modules/s/config", "readonly", p+"w/s/.git", "readonly", p+"w/in/.git/config", "readonly")
	r.keepsAbsent(p + ".git/worktrees/w/modules/s/hooks")
	// The tree is a bare repository, or lies in one.
	h = hosttest.Debian(t, p+"HEAD=1", p+"objects/", p+"refs/", p+"config=[include]\npath = inc\n[core]\nhooksPath = hk\n", p+"inc=1", p+"hk/x=1")
	compile(t, h, defaults).want(p+"inc", "readonly", p+"hk", "readonly")
	h = hosttest.Debian(t, "/home/u/HEAD=1", "/home/u/objects/", "/home/u/refs/", "/home/u/config=[include]\npath = p/inc\n", p+"inc=1")
	compile(t, h, defaults).want(p+"inc", "readonly")
}

func TestWhatValuesOfGitName(t *testing.T) {
	const p = "/home/u/p/"
	for _, c := range []struct{ config, held, absent string }{
		{"[core]\nfsmonitor = \"'./my tools/fsm' -x\"\n", "my tools/fsm", ""},
		{"[core]\nfsmonitor = " + p + "my tools/fsm\n", "my tools/fsm", ""},
		{"[core]\nhooksPath = ~u/p/hk\n", "hk", ""},
		{"[core]\nhooksPath = ~/p/hk\n", "hk", ""},
		{"[core]\nfsmonitor = tools/new -x tools/arg\n", "", "tools/new"},
		{"[core]\nworktree = ../w\nhooksPath = hk\n", "w/hk", ""},
		{"[alias]\nx = !make -C build/out\n", "", ""},
		{"[alias]\nx = !tools/new -C build/out\n", "", "tools/new"},
		{"[pager]\nstatus = tools/new\n", "", "tools/new"},
		{"[interactive]\ndiffFilter = env A=1 tools/new build/out\n", "", "tools/new"},
		{"[diff \"x\"]\ntextconv = sh -e tools/new tools/arg\n", "", "tools/new"},
		{"[submodule \"x\"]\nupdate = !tools/new\npath = build/out\n", "", "tools/new"},
		{"[mergetool \"x\"]\npath = tools/new\n", "", "tools/new"},
		{"[remote \"x\"]\nurl = build/out\n", "", ""},
		{"[remote \"x\"]\nurl = ext::sh 'my tools/fsm'\n", "my tools/fsm", ""},
		{"[core]\nhooksPath = ghk\n", ".git/ghk", ""}, // as git has it for pushes
		{"[init]\ntemplateDir = ~v/hk\n", "hk", ""},
		{"[diff \"x\"]\ntextconv = tools\\\\ x/conv\n", "tools x/conv", ""},
	} {
		h := hosttest.Debian(t, p+".git/HEAD=1", p+".git/config="+c.config, p+"my tools/fsm=1", p+"hk/x=1", p+"w/hk/x=1", p+"tools x/conv=1",
			p+".git/ghk/x=1", "/etc/passwd=root:x:0:0::/root:/bin/sh\nv:x:7:7::"+p[:len(p)-1]+":/bin/sh\n")
		r := compile(t, h, func(in *view.Input) { defaults(in); in.Env = environ("USER=u") })
		if c.held != "" {
			r.want(p+c.held, "readonly")
		}
		for _, name := range []string{"tools/new", "tools/arg", "build/out"} {
			if slices.Contains(r.KeepAbsent, p+name) != (name == c.absent) {
				t.Errorf("%q: kept absent: %s", c.config, name)
			}
		}
	}
	r := compile(t, hosttest.Debian(t, p+".git/HEAD=1", p+".git/config=[core]\nhooksPath = "+p+"\n"), defaults)
	if !r.ProtectsLess || len(r.Notices) != 1 {
		t.Errorf("hooks in the tree itself: %q", r.Notices)
	}
	r = compile(t, hosttest.Debian(t, "/home/u/.gitconfig -> p/gc", p+"gc="), defaults)
	r.want(p+"gc", "readonly")
}

// Where confine keeps what apply goes by, no link on the way can be replaced.
func TestOwnDirectoriesThroughLinks(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/st -> ../real", "/home/u/real/confine/x=1")
	r := compile(t, h, func(in *view.Input) { defaults(in); in.Env = environ("XDG_STATE_HOME=/home/u/p/st") })
	r.want("/home/u/p/st", "mask")
}

func TestGitConfigurationThatIsTooLarge(t *testing.T) {
	many := func(line func(i int) string) run {
		text := ""
		for i := range 2 * gitdir.MaxNames {
			text += line(i)
		}
		return compile(t, hosttest.Debian(t, "/home/u/p/.git/HEAD=1", "/home/u/p/.git/config="+text), defaults)
	}
	if r := many(func(i int) string {
		return fmt.Sprintf("[branch \"b%d\"]\nmerge = refs/heads/b%d\nbase = origin/main\n", i, i)
	}); r.ProtectsLess {
		t.Errorf("many branches: %q", r.Notices)
	}
	if r := many(func(i int) string { return fmt.Sprintf("[branch \"b%d\"]\nbase = origin/b%d\n", i, i) }); !r.ProtectsLess {
		t.Error("more than is looked at isn't told")
	}
	h := hosttest.Debian(t, "/home/u/p/.git/config="+strings.Repeat("# \n", gitdir.MaxConfig))
	if r := compile(t, h, defaults); len(r.Notices) != 1 || !strings.Contains(r.Notices[0], "too much") || !r.ProtectsLess {
		t.Errorf("notices %q", r.Notices)
	}
}

func TestGitDirectoriesElsewhere(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/p/.git=gitdir: ../main/.git/worktrees/p\n", "/home/u/main/.git/worktrees/p/commondir=../..\n",
		"/home/u/main/.git/hooks/", "/home/u/main/.git/config=1", "/home/u/main/.git/modules/lib/x/HEAD=1",
		"/home/u/main/.git/modules/lib/x/config=1")
	r := compile(t, h, func(in *view.Input) { defaults(in); in.AllowWrite = []string{"/home/u/main"} })
	r.want("/home/u/p/.git", "readonly", "/home/u/main/.git", "pin", "/home/u/main/.git/hooks", "readonly",
		"/home/u/main/.git/config", "readonly", "/home/u/main/.git/worktrees/p/commondir", "readonly",
		"/home/u/main/.git/modules/lib/x", "pin", "/home/u/main/.git/modules/lib/x/config", "readonly")
	r.keepsAbsent("/home/u/main/.git/modules/lib/x/hooks")
	// The git directory is writable, but not the tree that it belongs to.
	r = compile(t, h, func(in *view.Input) { defaults(in); in.AllowWrite = []string{"/home/u/main/.git"} })
	r.want("/home/u/main/.git/hooks", "readonly", "/home/u/main/.git/modules/lib/x/config", "readonly")
	r = compile(t, h, defaults) // the git directory isn't writable: nothing to do there
	r.want("/home/u/p/.git", "readonly", "/home/u/main/.git/config", "")
	// A writable tree that begins within a git directory.
	r = compile(t, h, func(in *view.Input) {
		in.Protect, in.AllowWrite = []string{".git/config"}, []string{"/home/u/main/.git/modules"}
	})
	r.want("/home/u/main/.git/modules", "rw /home/u/main/.git/modules")
}

// The file that leads git from a submodule, or from another worktree, to its directory could
// lead it to one that the run has made.
func TestWhatLeadsGitElsewhereIsProtected(t *testing.T) {
	const git = "/home/u/p/.git"
	h := hosttest.Debian(t, git+"/HEAD=1", git+"/config=1", git+"/hooks/",
		git+"/modules/sub/HEAD=1", git+"/modules/sub/config=[Core]\n\tWorkTree = \"../../../lib/sub\"\n", "/home/u/p/lib/sub/.git=gitdir: ../../.git/modules/sub\n",
		git+"/worktrees/w/gitdir=/home/u/p/trees/w/.git\n", git+"/worktrees/w/commondir=../..\n", "/home/u/p/trees/w/.git=gitdir: "+git+"/worktrees/w\n",
		git+"/modules/empty/HEAD=1", git+"/modules/empty/config=[core]\n\tworktree = ../../../none\n", "/home/u/p/none/")
	r := compile(t, h, defaults)
	r.want("/home/u/p/lib/sub/.git", "readonly", "/home/u/p/trees/w/.git", "readonly")
	r.keepsAbsent("/home/u/p/none/.git")
}

func TestGitDirectoryOfAWorktreeIsShown(t *testing.T) {
	const main = "/home/u/main/.git"
	worktree := []string{"/home/u/p/.git=gitdir: ../main/.git/worktrees/p\n", main + "/worktrees/p/commondir=../..\n", main + "/hooks/", main + "/config=1",
		main + "/HEAD=1", main + "/objects/", main + "/refs/"}
	back := main + "/worktrees/p/gitdir=/home/u/p/.git\n"
	h := hosttest.Debian(t, append(worktree, back)...)
	for mode, want := range map[string]string{"ro": "ro " + main, "rw": "rw " + main, "overlay": "overlay " + main} {
		r := compile(t, h, func(in *view.Input) { defaults(in); in.Workdir = mode })
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
	r := compile(t, hosttest.Debian(t, append(worktree, main+"/worktrees/p/gitdir=../../../../p/.git\n")...), nil)
	r.want(main, "ro "+main)
	// One that doesn't point back shows nothing: a .git file could have been made for that.
	for _, lines := range [][]string{worktree, append(worktree, main+"/worktrees/p/gitdir=/home/u/q/.git\n"), {"/home/u/p/.git=gitdir: ../.ssh\n"},
		{"/home/u/p/.git=gitdir: /home/u/.ssh/\n", "/home/u/.ssh/config=Host *\n"}} {
		r := compile(t, hosttest.Debian(t, lines...), nil)
		if r.sees(main+"/config") || r.sees("/home/u/.ssh/id") || len(r.Notices) != 1 {
			t.Errorf("shown: %v, notices %q", r.sees(main+"/config"), r.Notices)
		}
	}
	// A submodule's says so in its configuration.
	module := "/home/u/super/.git/modules/p"
	r = compile(t, hosttest.Debian(t, "/home/u/p/.git=gitdir: "+module+"\n", module+"/config=[core]\n\tworktree = ../../../../p\n[remote]\n", module+"/HEAD=1", module+"/objects/", module+"/refs/"), nil)
	r.want(module, "ro "+module)
	r = compile(t, hosttest.Debian(t, "/home/u/p/.git=gitdir: "+module+"\n", module+"/config=[other]\n\tworktree = ../../../../p\n"), nil)
	r.want(module, "")
	// What isn't a git directory is not shown, nor what the tree lies in.
	r = compile(t, hosttest.Debian(t, "/home/u/p/.git=gitdir: "+module+"\n", module+"/config=[core]\n\tworktree = ../../../../p\n", module+"/HEAD=1"), nil)
	r.want(module, "")
	r = compile(t, hosttest.Debian(t, "/home/u/p/.git=gitdir: ..\n", "/home/u/config=[core]\n\tworktree = p\n", "/home/u/HEAD=1", "/home/u/objects/", "/home/u/refs/", "/home/u/note=1"), nil)
	if r.sees("/home/u/note") || len(r.Notices) != 1 {
		t.Errorf("what the tree lies in is shown: %q", r.Notices)
	}
	// What the caller named is as the caller named it.
	r = compile(t, h, func(in *view.Input) { in.Workdir, in.AllowRead = "rw", []string{"/home/u/main"} })
	r.want("/home/u/main", "ro /home/u/main", main, "")
}

func TestDefaultProtectIsData(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range protect.Default() {
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
	h := hosttest.Debian(t, "/home/u/p/.env=1", "/home/u/p/.envrc=1")
	for _, mode := range []string{"rw", "overlay"} {
		r := compile(t, h, func(in *view.Input) { defaults(in); in.Workdir, in.Deny = mode, []string{".env", "gone"} })
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

// index is one of git's, of version 2, with such gitlinks.
func index(names ...string) string {
	text := "DIRC\x00\x00\x00\x02\x00\x00\x00" + string(rune(len(names)))
	for _, name := range names {
		entry := strings.Repeat("\x00", 24) + "\x00\x00\xe0\x00" + strings.Repeat("\x00", 32) + "\x00" + string(rune(len(name))) + name + "\x00"
		text += entry + strings.Repeat("\x00", (8-len(entry)%8)%8)
	}
	return text + strings.Repeat("\x00", 20)
}

func TestGitlinksOfTheIndexAreSubmodules(t *testing.T) {
	repository := []string{"/home/u/p/.git/HEAD=1", "/home/u/p/.git/objects/", "/home/u/p/.git/refs/", "/home/u/p/.git/config="}
	h := hosttest.Debian(t, append(repository, "/home/u/p/.git/index="+index("with", "without", "closed/sub"), "/home/u/p/without/", "/home/u/p/closed/",
		"/home/u/p/with/.git/config=", "/home/u/p/with/.git/HEAD=1", "/home/u/p/with/.git/index="+index("deeper"))...)
	r := compile(t, h, func(in *view.Input) {
		defaults(in)
		in.Workdir, in.AllowRead = "rw", []string{"closed"}
	})
	r.want("/home/u/p/with/.git/config", "readonly")
	r.keepsAbsent("/home/u/p/without/.git", "/home/u/p/with/deeper/.git")
	var dirs []string
	for _, x := range r.GitIndexes {
		dirs = append(dirs, x.Dir)
	}
	if want := []string{"/home/u/p/.git", "/home/u/p/with/.git"}; !slices.Equal(dirs, want) || !slices.Equal(r.GitIndexes[0].Gitlinks, []string{"with", "without", "closed/sub"}) {
		t.Errorf("indexes %+v", r.GitIndexes)
	}
	for at, want := range map[string]bool{
		"/home/u/p/x/.git": true, "/home/u/p/.git/index": true, "/home/u/p/closed/sub/.git": false, "/home/u/p/closedx": true,
		"/home/u/p/.git/config": false, "/home/u/other": false, "/home/u/px": false, "/": false,
	} {
		if got := plan.Writable(r.Places, at); got != want {
			t.Errorf("%s: writable %v", at, got)
		}
	}
	// A tree that is no repository can become one, with an index.
	r = compile(t, hosttest.Debian(t, "/home/u/p/a=1"), func(in *view.Input) { defaults(in); in.Workdir = "rw" })
	if len(r.GitIndexes) != 1 || r.GitIndexes[0].Dir != "/home/u/p/.git" || r.GitIndexes[0].Repository {
		t.Errorf("%+v", r.GitIndexes)
	}
	// One that can't be read is told, and what is read-only has none that matters.
	r = compile(t, hosttest.Debian(t, append(repository, "/home/u/p/.git/index=x")...), func(in *view.Input) { defaults(in); in.Workdir = "rw" })
	if !r.ProtectsLess || len(r.GitIndexes) != 0 {
		t.Errorf("%v %+v", r.ProtectsLess, r.GitIndexes)
	}
	r = compile(t, hosttest.Debian(t, repository...), func(in *view.Input) { defaults(in); in.Workdir = "ro" })
	if len(r.GitIndexes) != 0 || r.Places != nil {
		t.Errorf("%+v", r.GitIndexes)
	}
}

// A program that reads the first of several names reads one that appears beside the protected one.
func TestEveryNameThatAProgramLooksFor(t *testing.T) {
	have := map[string]bool{}
	for _, p := range protect.Default() {
		have[p.Path] = true
	}
	for program, names := range map[string][]string{
		"emacs":      {".emacs", ".emacs.el", ".emacs.elc", ".emacs.d", ".config/emacs"},
		"vim":        {".vimrc", ".gvimrc", ".exrc", ".vim", ".config/vim"},
		"nvim":       {".config/nvim", ".nvim.lua", ".nvimrc", ".exrc", "~/.local/share/nvim/site"},
		"less":       {".less", ".lesskey", ".config/lesskey", ".config/less"},
		"zsh":        {".zshrc", ".zshrc.zwc", ".zshenv", ".zshenv.zwc", ".zprofile", ".zprofile.zwc", ".zlogin", ".zlogin.zwc", ".zlogout", ".zlogout.zwc"},
		"gdb":        {".gdbinit", ".gdbearlyinit", ".config/gdb"},
		"irb":        {".irbrc", "irb.rc", "_irbrc", "$irbrc", ".config/irb"},
		"pry":        {".pryrc", ".config/pry"},
		"gpg":        {"~/.gnupg/gpg.conf", "~/.gnupg/gpg.conf-2", "~/.gnupg/dirmngr.conf"},
		"bazelisk":   {".bazelrc", ".bazeliskrc", ".bazelversion", "tools/bazel"},
		"NuGet":      {"nuget.config", "NuGet.config", "NuGet.Config"},
		"husky":      {".husky", ".huskyrc", ".huskyrc.js", ".huskyrc.json", ".config/husky"},
		"hk":         {"hk.pkl", "hk.toml", "hk.yaml", "hk.yml", "hk.json"},
		"woodpecker": {".woodpecker", ".woodpecker.yml", ".woodpecker.yaml"},
		"drone":      {".drone.yml", ".drone.jsonnet", ".drone.star"},
		"buildkite":  {".buildkite", "buildkite.yml", "buildkite.yaml", "buildkite.json", "buildkite/pipeline.yml"},
		"AppVeyor":   {"appveyor.yml", ".appveyor.yml"},
		"Zuul":       {"zuul.yaml", "zuul.d", ".zuul.yaml", ".zuul.d"},
		"logins":     {".rhosts", ".shosts", ".k5login", ".ssh"},
	} {
		for _, name := range names {
			if !have[name] {
				t.Errorf("%s: %s is not protected", program, name)
			}
		}
	}
}

// What is a program's own at the top of a project is what a shell runs in a home directory.
func TestWhatIsProtectedAtHomeOnly(t *testing.T) {
	const home, p = "/home/u/", "/home/u/p/"
	h := hosttest.Debian(t, home+"bin/tool -> ../src/tool", home+"src/tool=1", home+"src/other=1", home+".cargo/env=1", home+".aws/config=1",
		p+"bin/x=1", p+".cargo/env=1", p+".kube/config=1")
	both := func(in *view.Input) { defaults(in); in.AllowWrite = []string{"/home/u"} }
	r := compile(t, h, both)
	r.want(home+"bin", "readonly", home+"src/tool", "readonly", home+"src/other", "", home+".cargo", "pin", home+".cargo/env", "readonly",
		home+".aws/config", "readonly", p+"bin", "", p+".cargo/env", "", p+".kube/config", "")
	r.keepsAbsent(home+".local/lib", home+".cargo/bin", home+".kube/config")
	// A project alone, with and without them.
	for _, h := range []*hosttest.Host{h, hosttest.Debian(t, p+"x=1")} {
		r = compile(t, h, defaults)
		r.want(p+"bin", "", p+".cargo/env", "", p+".kube/config", "")
		for _, name := range []string{"bin", ".cargo/bin", ".cargo/env", ".local/lib", ".kube/config", "~/bin", "~"} {
			if slices.Contains(r.KeepAbsent, p+name) {
				t.Errorf("%s is kept absent", p+name)
			}
		}
	}
	// The tree begins on the way, or is the place itself.
	r = compile(t, h, func(in *view.Input) {
		in.Protect, in.AllowWrite = []string{"~/.cargo/env", "~/bin"}, []string{"/home/u/.cargo", "/home/u/bin"}
	})
	r.want(home+".cargo/env", "readonly")
	if r.at(home+"bin") == "readonly" {
		t.Error("what was named as writable isn't")
	}
	// Nothing has its home at the root.
	r = compile(t, h, func(in *view.Input) { both(in); in.HomeDir = "/" })
	r.want(home+"bin", "")
	// Libraries are too large to be searched for links.
	for i := range protect.MaxLinksBelow + 1 {
		h.Put(home+".local/lib/python3.12/site-packages/f"+strconv.Itoa(i), 0o644, "")
	}
	r = compile(t, h, both)
	r.want(home+".local/lib", "readonly", home+"src/tool", "readonly")
	if r.ProtectsLess {
		t.Errorf("notices %q", r.Notices)
	}
}

func TestWhatIsObeyedAtHomeOnly(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/.cargo -> /big/cargo", "/big/cargo/env=1", "/home/u/bin/x -> ../src/x", "/home/u/src/x=1")
	o := protect.NewTrusted(h, []string{".envrc", "~/bin", "~/.cargo/env", "~/none"}, "/home/u", func(string) string { return "" })
	if got, want := o.AtHome(), []string{"/home/u/bin", "/home/u/.cargo", "/big/cargo/env", "/home/u/none"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if found, complete := o.In("/home/u", true); !slices.Contains(found, "/home/u/src/x") || !complete {
		t.Errorf("%q, %v", found, complete)
	}
	if found, _ := o.In("/home/u/src", false); len(found) > 0 {
		t.Errorf("%q", found)
	}
	for _, home := range []string{"", "/", "relative"} {
		if got := protect.NewTrusted(h, []string{"~/bin"}, home, func(string) string { return "" }).AtHome(); len(got) > 0 {
			t.Errorf("%q: %q", home, got)
		}
	}
}
