package rootfs

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/secrets"
	"github.com/confine-run/confine/internal/view"
)

func TestAHomeThatCantBeAnOverlayIsToldOf(t *testing.T) {
	h := hosttest.Debian(t, "/home/u/notes=1", "/home/file=1")
	for home, why := range map[string]string{
		"": "not set", "rel": "not absolute", "/": "no home directory", "//": "no home directory", "/nonexistent": "nothing is there",
		"/home/file": "not a directory", "/usr": "the system's", "/proc/1": "the system's", "/home/u": "",
	} {
		r := compile(t, h, func(in *view.Input) { in.EphemeralHome, in.HomeDir, in.Dir = true, home, "/home/u/p" })
		if !strings.Contains(r.NoHome, why) || (r.NoHome == "") != (why == "") || (len(r.Notices) == 1) != (why != "") {
			t.Errorf("HOME=%q: %q %q", home, r.NoHome, r.Notices)
		}
		r = compile(t, h, func(in *view.Input) { in.HomeDir = home }) // who doesn't ask needn't know
		if r.NoHome != "" || len(r.Notices) != 0 {
			t.Errorf("HOME=%q, unasked: %q %q", home, r.NoHome, r.Notices)
		}
	}
}

func TestAHomeThatIsNobodysOverlayIsAnError(t *testing.T) {
	h := hosttest.Debian(t, "/img/bin/true*", "/home/v/notes=1")
	h.Other = true
	as := func(home string) func(*view.Input) {
		return func(in *view.Input) { in.EphemeralHome, in.HomeDir, in.AccessUID, in.UID = true, home, 1004, 1004 }
	}
	_, err := Compile(hosttest.Input(h, as("/root")))
	if e, ok := errors.AsType[*view.Error](err); !ok || !errors.Is(err, fs.ErrPermission) || e.Option != optEphemeralHome || !strings.Contains(e.Hint, "uid 1004") {
		t.Errorf("the home of another: %v", err)
	}
	if _, err := Compile(hosttest.Input(h, as("/home/v"))); err != nil { // the control
		t.Error(err)
	}
	for _, home := range []string{"/home/u", ""} {
		if _, err := Compile(hosttest.Input(h, func(in *view.Input) { in.EphemeralHome, in.Rootfs, in.HomeDir = true, "/img", home })); !errors.Is(err, view.ErrOtherRoot) {
			t.Errorf("in another tree, HOME=%q: %v", home, err)
		}
		if _, err := Compile(hosttest.Input(h, func(in *view.Input) { in.EphemeralHome, in.Virtual, in.HomeDir = true, true, home })); !errors.Is(err, view.ErrConflict) {
			t.Errorf("--virtual-fs, HOME=%q: %v", home, err)
		}
	}
}

// A HOME that a link in a tree of work leads elsewhere shows nothing, by whatever asks for it.
func TestAHomeBehindALinkInATreeOfWorkIsNone(t *testing.T) {
	asks := map[string]func(*view.Input){
		"nobody":           func(in *view.Input) {},
		"development":      func(in *view.Input) { in.Home, in.Workdir = true, "rw" },
		"--ephemeral-home": func(in *view.Input) { in.EphemeralHome = true },
	}
	for _, tt := range []struct {
		name, home string
		extra      []string
		change     func(*view.Input)
	}{
		{"a link", "/home/u/p/h", []string{"/home/u/p/h -> ../private"}, nil},
		{"a link on the way", "/home/u/p/l/private", []string{"/home/u/p/l -> .."}, nil},
		{"two links", "/outer", []string{"/outer -> home/u/p/l", "/home/u/p/l -> /home/u/private"}, nil},
		{"a link to nothing", "/home/u/p/h", []string{"/home/u/p/h -> ../private/new"}, nil},
		{"a link to the tree itself", "/home/u/p/h", []string{"/home/u/p/h -> ."}, nil},
		{"a link to what is around", "/home/u/p/h", []string{"/home/u/p/h -> .."}, nil},
		{"a magic link", "/home/u/p/h", []string{"/home/u/p/h -> /proc/self/cwd/../private", "/proc/self -> 7", "/proc/7/cwd -> /home/u/p"}, nil},
		{"a checkout elsewhere", "/data/c/h", []string{"/data/c/.git/", "/data/c/h -> /home/u/private"}, nil},
		{"a named tree", "/data/c/h", []string{"/data/c/h -> /home/u/private"}, func(in *view.Input) { in.AllowRead = []string{"/data/c"} }},
		{"temporary files", "/tmp/c/h", []string{"/tmp/c/h -> /home/u/private"}, nil},
	} {
		for asked, ask := range asks {
			h := hosttest.Debian(t, append(tt.extra, "/home/u/private/notes=secret", "/home/u/private/.cargo/bin/cargo*", "/home/u/private/.config/git/config=1")...)
			r := compile(t, h, func(in *view.Input) {
				in.HomeDir = tt.home
				ask(in)
				if tt.change != nil {
					tt.change(in)
				}
			})
			for _, name := range []string{"/home/u/private/notes", "/home/u/private/.cargo/bin/cargo", "/home/u/private/.config/git/config"} {
				if r.sees(name) {
					t.Errorf("%s, %s: %s is shown", tt.name, asked, name)
				}
			}
			if told := strings.Count(strings.Join(r.Notices, "\n"), "lies in a tree of work") == 1; told != (asked != "nobody") {
				t.Errorf("%s, %s: %q", tt.name, asked, r.Notices)
			}
			if r.Env["HOME"] != "/tmp" {
				t.Errorf("%s, %s: HOME is %s", tt.name, asked, r.Env["HOME"])
			}
		}
	}
	// The controls: the same home by its own name, and by a link of the system's.
	for _, home := range []string{"/home/u/private", "/people/u/private"} {
		h := hosttest.Debian(t, "/home/u/private/notes=text", "/people -> home")
		r := compile(t, h, func(in *view.Input) { in.HomeDir, in.Home = home, true })
		if !r.sees("/home/u/private/notes") || len(r.Notices) != 0 {
			t.Errorf("HOME=%s: %q", home, r.Notices)
		}
	}
}

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
