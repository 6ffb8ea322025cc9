package confine

import "testing"

func TestWhatIsNotTakenOverUnasked(t *testing.T) {
	env := func(name string) string {
		return map[string]string{"HOME": "/home/nobody-here", "XDG_STATE_HOME": "/s"}[name]
	}
	for name, want := range map[string]bool{
		"/p/.git/hooks": true, "/p/sub/.git/config": true, "/p/.git/modules/m/config": true, "/p/.git/modules/m/hooks": true,
		"/p/.git/worktrees/w/commondir": true, "/p/.git/config.worktree": true, "/p/.git/HEAD": false, "/p/.git/index": false,
		"/p/.git/refs/heads/config": false, "/p/.git/logs/refs/heads/hooks": false, "/p/.git/objects/ab/config": false,
		"/p/.envrc": true, "/p/a/b/.vscode": true, "/p/hooks": false, "/p/config": false, "/p/confine.toml": true,
		"/s/confine": true, "/s/other": false, "/home/nobody-here/.config/confine": true, "/home/nobody-here/.cache/confine": true,
	} {
		if got := Protected(name, true, env); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !Protected("/p/.git", false, env) || Protected("/p/.git", true, env) {
		t.Error("a .git that is no directory says where git looks instead")
	}
}
