package rootfs

import (
	"strings"
	"testing"

	"github.com/confine-run/confine/confine/hostfs"
	"github.com/confine-run/confine/confine/hostfs/hosttest"
	"github.com/confine-run/confine/confine/secrets"
	"github.com/confine-run/confine/confine/view"
)

// What a program keeps in a directory with a leading dot that nobody has heard of stays there.
func TestAReadableHomeShowsOfDotNamesOnlyAList(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/notes=1", "/home/u/docs/a=1", "/home/u/.newtool/token=1", "/home/u/.token=1", "/home/u/.config/newtool/token=1",
		"/home/u/.local/share/newtool/token=1", "/home/u/.cache/newtool/token=1", "/home/u/.vimrc=1", "/home/u/.vim/undo/x=1", "/home/u/.vim/plugin/x=1",
		"/home/u/.m2/repository/x=1", "/home/u/.m2/settings.xml=1", "/home/u/.cargo/registry/x=1", "/home/u/.cargo/env=1", "/home/u/.nvm/nvm.sh=1", "/home/u/.nvm/.npmrc=1",
		"/home/u/.dots/p/x=1")
	r := compile(t, h, func(in *view.Input) { in.Home, in.Workdir, in.Dir = true, "rw", "/home/u/.dots/p" })
	for _, shown := range []string{"notes", "docs/a", ".vimrc", ".vim/plugin/x", ".m2/repository/x", ".cargo/registry/x", ".nvm/nvm.sh", ".dots/p/x"} {
		if !r.sees("/home/u/" + shown) {
			t.Errorf("%s is not visible", shown)
		}
	}
	for _, hidden := range []string{".newtool/token", ".token", ".config/newtool/token", ".local/share/newtool/token", ".cache/newtool/token", ".vim/undo/x",
		".m2/settings.xml", ".cargo/env", ".nvm/.npmrc"} {
		if r.sees("/home/u/" + hidden) {
			t.Errorf("%s is visible", hidden)
		}
	}
	r.want("/home/u/.dots/p", "rw /home/u/.dots/p", "/home/u/.m2/repository", "overlay /home/u/.m2/repository")
}

// A link in the home directory shows nothing that isn't shown anyway.
func TestLinksOfAReadableHomeShowNothingMore(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/.vimrc -> .newtool/token", "/home/u/.newtool/token=1", "/home/u/x -> .newtool", "/home/u/.config -> dots/config", "/home/u/dots/config/htop/htoprc=1",
		"/home/u/data -> /srv/data", "/srv/data/secret=1")
	r := compile(t, h, func(in *view.Input) { in.Home = true })
	r.want("/home/u/.vimrc", "link .newtool/token", "/home/u/x", "link .newtool", "/home/u/.config", "link dots/config", "/home/u/data", "link /srv/data")
	if r.sees("/home/u/.newtool/token") || r.sees("/srv/data/secret") || !r.sees("/home/u/dots/config/htop/htoprc") {
		t.Error("a link shows what it leads to, or hides it")
	}
}

func TestGitSettingsThatLogInAreNotShown(t *testing.T) {
	for text, shown := range map[string]bool{
		"[user]\n\temail = u@example.com\n[core]\n\teditor = vim\n":              true,
		"[url \"ssh://git@github.com/\"]\n\tinsteadOf = https://github.com/\n":   true,
		"[credential]\n\thelper = store\n":                                       true,
		"[url \"https://x:y@github.com/\"]\n\tinsteadOf = https://github.com/\n": false,
		"[http]\n\textraHeader = AUTHORIZATION: basic eHg=\n":                    false,
		"[github]\n\tToken = 1\n":                                                false,
		"[a]\n\tb = https://host/one\n\tc = https://tok@host/two\n":              false,
		"[sendemail]\n\tsmtpPass = x\n":                                          false,
		strings.Repeat("#", secrets.MaxSize) + "\n[user]\n":                      false,
	} {
		r := compile(t, hosttest.Debian(t, "/home/u/.gitconfig="+text), func(in *view.Input) { in.Home = true })
		if r.sees("/home/u/.gitconfig") != shown {
			t.Errorf("%.80q: %v", text, !shown)
		}
	}
}

func TestEachDotNameIsBelowTheHome(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range homeShown {
		if x.path[0] != '.' || !cleanAbsolute("/"+x.path) || x.reason == "" || seen[x.path] || x.how == view.Write {
			t.Errorf("%+v", x)
		}
		seen[x.path] = true
		for rest := range secrets.AtHome() {
			if hostfs.Under(x.path, rest) {
				t.Errorf("%s is a secret", x.path)
			}
		}
	}
}
