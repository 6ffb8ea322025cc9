package config

import (
	"io/fs"
	"testing"
)

func TestGuardProtectsFilesThatProgramsObey(t *testing.T) {
	env := func(name string) string {
		return map[string]string{"HOME": "/home/nobody-here", "XDG_STATE_HOME": "/s"}[name]
	}
	guard := NewGuard(env, nil)
	for name, want := range map[string]bool{
		"/p/.git/hooks": true, "/p/sub/.git/config": true, "/p/.git/modules/m/config": true, "/p/.git/modules/m/hooks": true,
		"/p/.git/remotes": true, "/p/.git/modules/m/branches": true, "/p/.git/refs/remotes": false, "/p/.git/logs/refs/remotes": false,
		"/p/remotes": false, "/p/.jj/repo/store/git/config": true, "/p/.jj/repo/store/extra": false,
		"/p/.git/worktrees/w/commondir": true, "/p/.git/config.worktree": true, "/p/.git/HEAD": false, "/p/.git/index": false,
		"/p/.git/refs/heads/config": false, "/p/.git/logs/refs/heads/hooks": false, "/p/.git/objects/ab/config": false,
		"/p/.envrc": true, "/p/a/b/.vscode": true, "/p/hooks": false, "/p/config": false, "/p/confine.toml": true,
		"/p/.cargo/config.toml": true, "/p/.cargo/registry": false, "/p/a/.mvn/extensions.xml": true, "/p/.mvn/wrapper/maven-wrapper.jar": false,
		"/p/.gradle/8.5/checksums": false, "/p/.gradle": false, "/p/.gradle/init.d": true, "/p/.local/bin": true, "/p/.local/lib": false,
		"/p/bin/tool": false, "/p/CLAUDE.md": true, "/p/a/AGENTS.md": true, "/p/.yarn/releases": true, "/p/.yarn/cache": false, "/p/bunfig.toml": true, "/p/.m2/repository": false,
		"/s/confine": true, "/s/other": false, "/home/nobody-here/.config/confine": true, "/home/nobody-here/.cache/confine": true,
		"/home/nobody-here/bin": true, "/home/nobody-here/.local/lib": true, "/home/nobody-here/p/bin": false, "/p/bin": false, "/p/.cargo/bin": false,
		"/p/.kube/config": false, "/home/nobody-here/.kube/config": true, "/p/.pdbrc": true, "/p/~/bin": false, "/p/.config/environment.d": true,
	} {
		if got := guard.Protects(name, fs.ModeDir); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !guard.Protects("/p/.git", 0) || guard.Protects("/p/.git", fs.ModeDir) {
		t.Error("a .git that is no directory says where git looks instead")
	}
	for _, name := range []string{"/p/.config", "/p/.github", "/home/nobody-here/.cargo"} {
		if !guard.Protects(name, fs.ModeSymlink) || guard.Protects(name, 0) || guard.Protects(name, fs.ModeDir) {
			t.Errorf("%s: a link there leads to what is obeyed", name)
		}
	}
}
