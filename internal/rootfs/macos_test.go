package rootfs

import (
	"testing"

	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/view"
)

// TestMacOS: the system is shown at its canonical paths, and nothing else of the host.
func TestMacOS(t *testing.T) {
	for _, home := range []bool{false, true} {
		h := hosttest.MacOS(t)
		table, err := Compile(hosttest.MacInput(h, func(in *view.Input) { in.Home = home }))
		if err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		if g := table.Nearest(dir + "/x"); g != nil && g.Access == view.Write {
			t.Errorf("%s is writable, as the current directory", dir)
		}
	}
}
