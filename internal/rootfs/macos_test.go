package rootfs

import (
	"testing"

	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/internal/view"
)

// TestMacOS: the system is shown at its canonical paths, and nothing else of the host.
func TestMacOS(t *testing.T) {
	for _, home := range []bool{false, true} {
		h := hosttest.MacOS(t)
		table, err := Compile(hosttest.MacInput(h, func(in *view.Input) { in.Home = home }))
		must.Do(t, err)
		shown := func(at string) bool {
			g := table.Nearest(at)
			return g != nil && g.Access != view.Private && g.Dst == g.Src.Path
		}
		for _, at := range []string{"/System/Library/Frameworks/x", "/usr/lib/dyld", "/opt/homebrew/Cellar/git/2/bin/git", "/private/etc/hosts", "/private/var/db/timezone/zoneinfo/UTC",
			"/Users/u/p/src/a"} {
			if !shown(at) {
				t.Errorf("%s isn't shown", at)
			}
		}
		for _, at := range []string{"/private/etc/master.passwd", "/private/tmp/other", "/usr/local/var/postgres/base", "/opt/homebrew/var/mysql/base", "/Library/Keychains/System.keychain",
			"/Users/u/.ssh/id", "/Users/u/Library/Keychains/login.keychain-db", "/Users/v/d", "/dev/disk0", "/Volumes/Other/d", "/System/Volumes/Data/Users/u/.ssh/id", "/private/var/folders/ab"} {
			if shown(at) {
				t.Errorf("%s is shown", at)
			}
		}
		for _, at := range []string{"/Users/u/Documents/d", "/Users/u/Library/Python/3.9/bin/x"} {
			if shown(at) != home {
				t.Errorf("%s: %v, where the home directory is shown: %v", at, !home, home)
			}
		}
		if table.Dir != "/Users/u/p" {
			t.Errorf("it starts in %q", table.Dir)
		}
		for _, l := range []string{"/tmp", "/var", "/etc"} {
			found := false
			for _, is := range table.Links {
				found = found || is.At == l
			}
			if !found {
				t.Errorf("the link %s isn't followed", l)
			}
		}
	}
}

// TestMacOSIsTooBroad: nobody's project is what everybody has.
func TestMacOSIsTooBroad(t *testing.T) {
	for _, dir := range []string{"/Users", "/private/tmp", "/Users/u", "/Library", "/System"} {
		table, err := Compile(hosttest.MacInput(hosttest.MacOS(t), func(in *view.Input) { in.Dir, in.Workdir = dir, "rw" }))
		must.Do(t, err)
		if g := table.Nearest(dir + "/x"); g != nil && g.Access == view.Write {
			t.Errorf("%s is writable, as the current directory", dir)
		}
	}
}

// TestMacOSKeepsWhatLogsIn: also from who shows all of the home directory; what is named stays.
func TestMacOSKeepsWhatLogsIn(t *testing.T) {
	h := hosttest.MacOS(t, "/Users/u/Library/Safari/x=1", "/Users/u/Library/Caches/x=1")
	for _, named := range []bool{false, true} {
		table, err := Compile(hosttest.MacInput(h, func(in *view.Input) {
			if in.AllowRead = []string{"/Users/u"}; named {
				in.AllowRead = append(in.AllowRead, "/Users/u/Library/Safari")
			}
		}))
		must.Do(t, err)
		hidden := func(at string) bool {
			for _, x := range table.View.Hidden {
				if g := table.Nearest(at); x.Dst == at && (g == nil || len(g.Dst) < len(at)) {
					return true
				}
			}
			return false
		}
		for at, want := range map[string]bool{"/Users/u/Library/Keychains": true, "/Users/u/Library/Safari": !named, "/Users/u/Library/Caches": false} {
			if hidden(at) != want {
				t.Errorf("%s: %v, named %v", at, !want, named)
			}
		}
	}
}
