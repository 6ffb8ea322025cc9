package landlock

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
)

func TestWhatEachVersionHandles(t *testing.T) {
	for _, c := range []struct {
		abi             int
		fs, net, scoped uint64
	}{
		{-1, 0, 0, 0}, {0, 0, 0, 0},
		{1, 0x1fff, 0, 0}, {2, 0x3fff, 0, 0}, {3, 0x7fff, 0, 0}, {4, 0x7fff, 3, 0},
		{5, 0xffff, 3, 0}, {6, 0xffff, 3, 3}, {7, 0xffff, 3, 3}, {8, 0xffff, 3, 3}, {9, 0x1ffff, 3, 3}, {99, 0x1ffff, 3, 3},
	} {
		r := Alone(Input{ABI: c.abi, Host: hosttest.New(t), NoTCP: true, Scoped: 3, TempDir: "/tmp/x"})
		if r.HandledFS != c.fs || r.HandledNet != c.net || r.Scoped != c.scoped || r.Held() != (c.fs != 0) || r.None() != (c.abi < 1) {
			t.Errorf("ABI %d: %+v", c.abi, r)
		}
		for _, rule := range r.Rules {
			if rule.Access&^r.HandledFS != 0 || rule.Access == 0 {
				t.Errorf("ABI %d: a rule that the kernel refuses: %+v", c.abi, rule)
			}
		}
		if r := Without(Input{ABI: c.abi}); !r.None() || len(r.Rules) != 0 {
			t.Errorf("ABI %d: nothing asked for, and %+v", c.abi, r)
		}
	}
	for i := range abis {
		a := &abis[i]
		if a.Version != i || i > 0 && (a.Kernel == "" || a.Adds == "" || a.FS < abis[i-1].FS || a.Net < abis[i-1].Net || a.Scoped < abis[i-1].Scoped) {
			t.Errorf("%+v", a)
		}
	}
}

func TestEachVersionSaysWhatItLacks(t *testing.T) {
	for abi := 1; abi <= 9; abi++ {
		r := Alone(Input{ABI: abi, Host: hosttest.New(t)})
		for k, since := range map[Kind]int{Moves: 2, Truncation: 3, Ioctls: 5, Names: 99, Metadata: 99, Sockets: 9} {
			if r.has(k, "") != (abi < since) {
				t.Errorf("ABI %d: %q is told: %v", abi, k.About(), r.has(k, ""))
			}
			if abi < since && !strings.Contains(r.Details(), k.About()) {
				t.Errorf("ABI %d: %q is not in %q", abi, k.About(), r.Details())
			}
		}
	}
}

func TestEveryLimitIsWorded(t *testing.T) {
	for k := range kinds {
		if Kind(k).About() == "" {
			t.Errorf("kind %d has no words", k)
		}
	}
}

func TestBelowAMountNamespace(t *testing.T) {
	host := hosttest.New(t, "/usr/", "/dev/null#", "/etc/ld.so.cache", "/home/u/w/", "/run/fifo%", "/run/file", "/run/sock|")
	null := bind("/dev/null", true)
	null.device = true
	file := bind("/run/file", false)
	file.optional = true
	mounts := []place{
		null, entry(terminals, "/dev/pts"), entry(private, "/dev/shm"),
		entry(link, "/dev/fd"), bind("/etc/ld.so.cache", true), entry(ownFile, "/etc/passwd"),
		bind("/home/u/w", false), entry(restricted, "/home/u/w/.git"), entry(processes, "/proc"),
		entry(hidden, "/proc/kcore"), bind("/run/fifo", true), file, entry(private, "/tmp"), bind("/usr", true),
		{kind: tree, dst: "/elsewhere", src: hostfs.File{Path: "/home/u/w", Dev: 7, Ino: inode("/home/u/w")}, readOnly: true, optional: true},
		{kind: overlay, dst: "/over", src: hostfs.File{Path: "/usr"}}, bind("/run/sock", true),
	}
	for abi := range 10 {
		r := Under(Input{ABI: abi, View: viewOf(mounts), Host: host})
		if r.Held() != (abi >= UnderSince) || len(r.Limits) != 0 {
			t.Fatalf("ABI %d: %+v", abi, r)
		}
		if !r.Held() {
			continue
		}
		for at, want := range map[string]uint64{
			"/": read, "/etc/passwd": read, "/usr/bin/sh": read, "/usr": read, "/tmp/x": write, "/dev/shm": write | device, "/over/f": write,
			"/dev/null": device | read, "/dev/pts/0": device | read, "/proc/self": proc | read, "/home/u/w/f": write, "/elsewhere/f": read,
			"/run/fifo": fifo | read, "/run/file": read | write&ofFiles,
			"/run/sock": read | ResolveUnix,
		} {
			if got := r.rights(at); got != want&r.HandledFS {
				t.Errorf("ABI %d: %s: %#x, want %#x", abi, at, got, want&r.HandledFS)
			}
		}
		if want := 9 + abi/9; len(r.Rules) != want {
			t.Errorf("ABI %d: %d rules: %+v", abi, len(r.Rules), r.Rules)
		}
		for _, rule := range r.Rules {
			theirs := strings.HasPrefix(rule.Path, "/home") || strings.HasPrefix(rule.Path, "/run")
			if rule.Optional != (rule.Path == "/run/file") || (rule.Ino != 0) != theirs {
				t.Errorf("ABI %d: %+v", abi, rule)
			}
			if rule.Access&(MakeChar|MakeBlock) != 0 {
				t.Errorf("ABI %d: %s: devices can be made", abi, rule.Path)
			}
		}
	}
}

// What nothing is told about stays as it is, and only what is named can be connected to.
func TestSocketsBelowAMountNamespace(t *testing.T) {
	host := hosttest.New(t, "/srv/tree/a|", "/srv/named|", "/srv/file", "/dev/null#")
	elsewhere := bind("/srv/named", true)
	elsewhere.dst = "/m"
	mounts := []place{bind("/dev/null", true), bind("/srv/file", false), bind("/srv/named", true), bind("/srv/tree", true), elsewhere,
		entry(private, "/tmp")}
	for abi := range 11 {
		r := Unix(Input{ABI: abi, View: viewOf(mounts), Host: host, Scoped: ScopeAbstractSockets})
		if r.Held() || r.HoldsSockets() != (abi >= 9) || (r.Scoped != 0) != (abi >= 6) {
			t.Errorf("ABI %d: %+v", abi, r)
		}
		if abi < 9 {
			if r.HandledFS != 0 || len(r.Rules) != 0 {
				t.Errorf("ABI %d: %+v", abi, r)
			}
			continue
		}
		for at, want := range map[string]uint64{"/": Refer, "/srv/tree/a": Refer, "/tmp/x": Refer, "/srv/file": Refer,
			"/srv/named": Refer | ResolveUnix, "/m": Refer | ResolveUnix} {
			if got := r.rights(at); got != want {
				t.Errorf("ABI %d: %s: %#x, want %#x", abi, at, got, want)
			}
		}
		for _, rule := range r.Rules {
			if rule.Path != "/" && rule.Ino != inode("/srv/named") {
				t.Errorf("%+v: nothing to tell a replacement by", rule)
			}
		}
	}
}

func TestNamedSocketsAlone(t *testing.T) {
	host := hosttest.New(t, "/w/named|", "/w/other|", "/w/file", "/w/d/", "/w/hidden/")
	for _, some := range []bool{false, true} {
		mounts := []place{bind("/w", true), bind("/w/named", true)}
		if some {
			mounts = append(mounts, entry(hidden, "/w/hidden"))
		}
		r := Alone(Input{ABI: 9, View: viewOf(mounts), Host: host})
		if r.rights("/w/named")&ResolveUnix == 0 || r.rights("/w/other")&ResolveUnix != 0 || r.rights("/w")&ResolveUnix != 0 {
			t.Errorf("hidden %v: %+v", some, r.Rules)
		}
		if r.rights("/w/d") != read {
			t.Errorf("hidden %v: a named socket takes something from what is beside it: %+v", some, r.Rules)
		}
		for _, rule := range r.Rules {
			if rule.Path == "/w/named" && rule.Access != ResolveUnix {
				t.Errorf("%+v", rule)
			}
		}
		for _, l := range r.Limits {
			if l.Kind == Unlisted && !some {
				t.Errorf("told, and not so: %+v", l)
			}
		}
		if r := Alone(Input{ABI: 8, View: viewOf(mounts), Host: host}); slices.ContainsFunc(r.Rules, func(l handoff.LandlockRule) bool { return l.Access == 0 || l.Path == "/w/named" }) {
			t.Errorf("before ABI 9: %+v", r.Rules)
		}
	}
}

func TestAlone(t *testing.T) {
	host := hosttest.New(t, "/usr/bin/", "/home/u/w/.git/hooks/", "/home/u/w/.git/config", "/home/u/w/.git/refs/", "/home/u/w/src/",
		"/home/u/w/file", "/home/u/w/link -> /etc", "/home/u/w/sock|", "/home/u/w/fifo%", "/home/u/.ssh/", "/etc/passwd", "/etc/shadow", "/data/open/", "/data/shut/in/",
		"/data/key", "/o/", "/etc/resolv.conf -> /run/stub", "/run/stub", "/tmp/", "/proc/", "/dev/null#", "/x/")
	null := bind("/dev/null", true)
	null.device = true
	mounts := []place{
		bind("/data", true), entry(hidden, "/data/key"), entry(hidden, "/data/shut"), null,
		entry(ownFile, "/etc/passwd"), entry(ownFile, "/etc/resolv.conf"), entry(ownFile, "/etc/none"),
		entry(private, "/home/u"), bind("/home/u/w", false), entry(pin, "/home/u/w/.git"),
		entry(restricted, "/home/u/w/.git/config"), entry(restricted, "/home/u/w/.git/hooks"),
		{kind: overlay, dst: "/o", src: hostfs.File{Path: "/o", Dev: 7, Ino: inode("/o")}},
		entry(processes, "/proc"), entry(hidden, "/proc/keys"), entry(restricted, "/proc/sys"),
		entry(private, "/tmp"), bind("/usr", true),
		{kind: tree, dst: "/y", src: hostfs.File{Path: "/x", Dev: 7, Ino: inode("/x")}},
	}
	r := Alone(Input{ABI: 7, View: viewOf(mounts), Host: host, TempDir: "/tmp/confine-1"})
	for at, want := range map[string]uint64{
		"/": 0, "/etc": 0, "/etc/shadow": 0, "/home/u": 0, "/home/u/.ssh": 0, "/tmp": 0, "/x": 0, "/y": 0, "/run": 0,
		"/usr/bin/sh": read, "/tmp/confine-1/f": write, "/dev/null": device, "/etc/passwd": ReadFile, "/run/stub": ReadFile, "/proc/1/maps": procRead,
		"/o/f": read, // for want of an overlay
		// Below something hidden nothing, and around it no list of names.
		"/data": 0, "/data/shut": 0, "/data/shut/in": 0, "/data/key": 0, "/data/open": read,
		// Protected: what is around it keeps its names, and everything beside is writable.
		"/home/u/w": read, "/home/u/w/new": read, "/home/u/w/.git": read, "/home/u/w/.git/config": read, "/home/u/w/.git/hooks/x": read,
		"/home/u/w/.git/refs": write, "/home/u/w/src": write, "/home/u/w/file": read | write&ofFiles, "/home/u/w/fifo": read | write&ofFiles,
		"/home/u/w/link": read, "/home/u/w/sock": read,
	} {
		if got := r.rights(at); got != want {
			t.Errorf("%s: %#x, want %#x", at, got, want)
		}
	}
	for _, l := range []Limit{
		{Unlisted, "/data"}, {NoNewNames, "/home/u/w"}, {NoNewNames, "/home/u/w/.git"}, {Overlay, "/o"}, {Private, "/tmp"}, {Private, "/home/u"},
		{Elsewhere, "/y"}, {Proc, "/proc"}, {Proc, "/proc/keys"}, {OwnEtc, "/etc"}, {Names, ""},
	} {
		if !r.has(l.Kind, l.Path) {
			t.Errorf("not told: %s %q", l.Path, l.Kind.About())
		}
	}
	if r.has(Unlisted, "/home/u/w") || r.has(Proc, "/proc/sys") || r.has(LeftOut, "/data") {
		t.Errorf("told, and not so: %+v", r.Limits)
	}
	kept := []string{"/home/u/w/.git/config", "/home/u/w/.git/hooks"}
	if want := []ImmutableDir{{"/home/u/w", kept}, {"/home/u/w/.git", kept}}; !reflect.DeepEqual(r.Immutable, want) {
		t.Errorf("immutable: %+v, want %+v", r.Immutable, want)
	}
	if d := r.Details(); !strings.Contains(d, "/home/u/w, /home/u/w/.git: "+NoNewNames.About()) || strings.Contains(d, "confine-1") {
		t.Errorf("details: %q", d)
	}
	for _, rule := range r.Rules {
		if (rule.Ino == 0) != (rule.Path == "/tmp/confine-1") {
			t.Errorf("%+v: nothing to tell a replacement by", rule)
		}
		if (host.Nodes[rule.Path] == nil || !host.Nodes[rule.Path].Mode.IsDir()) && rule.Ino != 0 && rule.Access&^ofFiles != 0 {
			t.Errorf("%+v: the kernel refuses that of a file", rule)
		}
	}
}

// How many names there are was maybe decided by a former target.
func TestTooManyNamesOpenNothing(t *testing.T) {
	lines := []string{"/w/secret/", "/w/.git/hooks/", "/v/.envrc"}
	for i := range maxEntries + 1 {
		name := "f" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26)
		lines = append(lines, "/w/"+name, "/v/"+name)
	}
	r := Alone(Input{ABI: 7, Host: hosttest.New(t, lines...), View: viewOf([]place{
		bind("/v", false), entry(restricted, "/v/.envrc"), bind("/w", false), entry(hidden, "/w/secret")})})
	if !r.has(LeftOut, "/w") || !r.has(LeftOut, "/v") {
		t.Errorf("not told: %+v", r.Limits)
	}
	if got := r.rights("/w/fa"); got != 0 {
		t.Errorf("beside something hidden: %#x", got)
	}
	if got := r.rights("/v/fa"); got != read {
		t.Errorf("beside something protected: %#x, want %#x", got, read)
	}
	host := hosttest.New(t, "/w/secret/", "/w/a")
	host.Nodes["/w"].Unlisted = true
	r = Alone(Input{ABI: 7, Host: host, View: viewOf([]place{bind("/w", true), entry(hidden, "/w/secret")})})
	if r.rights("/w/secret") != 0 || !r.has(LeftOut, "/w") {
		t.Errorf("a directory that can't be listed: %+v", r)
	}
}

// What is out of the user's reach now may not be so later: the directory is maybe
// the user's own.
func TestWhatIsOutOfReachStaysClosed(t *testing.T) {
	host := hosttest.New(t, "/w/d/config", "/w/d/secret", "/w/e/")
	host.Nodes["/w/d"].Shut, host.Other = true, true
	r := Alone(Input{ABI: 7, Host: host, View: viewOf([]place{
		bind("/w", false), entry(restricted, "/w/d/config"), entry(hidden, "/w/d/secret")})})
	if r.rights("/w/d/config") != 0 || r.rights("/w/d/secret") != 0 || r.rights("/w/e") != write {
		t.Errorf("%+v", r.Rules)
	}
}

func TestAProtectedLinkStays(t *testing.T) {
	shown := bind("/w/.envrc", true)
	shown.src.Path = "/w/env"
	for _, m := range []place{entry(hidden, "/w/.envrc"), shown} {
		r := Alone(Input{ABI: 7, Host: hosttest.New(t, "/w/.envrc -> /w/env", "/w/env", "/w/d/"), View: viewOf([]place{bind("/w", false), m})})
		if r.rights("/w") != read || r.rights("/w/d") != write || r.has(Elsewhere, "/w/.envrc") {
			t.Errorf("%#x around a protected link: %+v", r.rights("/w"), r)
		}
	}
}

// What a mount table has that Landlock hasn't is named with its path, and closed where
// something of the host's is in its place.
func TestEveryPlaceThatCantBeIsNamed(t *testing.T) {
	host := hosttest.New(t, "/home/u/w/", "/home/u/w/full/", "/home/u/w/full/secret", "/home/u/w/file", "/home/u/w/other/", "/zz/")
	mounts := []place{
		bind("/home/u/w", false),
		{kind: sized, dst: "/home/u/w/full"},
		{kind: sized, dst: "/nowhere"},
		{kind: tree, dst: "/f", src: hostfs.File{Path: "/home/u/w/file", Dev: 7, Ino: inode("/home/u/w/file")}},
		{kind: overlay, dst: "/zz", src: hostfs.File{Path: "/home/u/w/other", Dev: 7, Ino: inode("/home/u/w/other")}},
		{kind: overlay, dst: "/home/u/w/other", src: hostfs.File{Path: "/home/u/w/other", Dev: 7, Ino: inode("/home/u/w/other")}},
		entry(private, "/tmp"),
	}
	r := Alone(Input{ABI: 7, View: viewOf(mounts), Host: host, Root: "/img", DenyAtStart: true})
	for at, k := range map[string]Kind{"/home/u/w/full": Sized, "/nowhere": Sized, "/f": Elsewhere, "/zz": Elsewhere, "/home/u/w/other": Overlay, "/tmp": Private, "/": Root, "": Later} {
		if !r.has(k, at) || !strings.Contains(r.Details(), k.About()) {
			t.Errorf("%q: %q isn't told: %s", at, k.About(), r.Details())
		}
	}
	for at, want := range map[string]uint64{"/home/u/w/full/secret": 0, "/zz/f": 0, "/home/u/w/other/f": read, "/home/u/w/file": write & ofFiles} {
		if got := r.rights(at) & write & ofFiles; got != want&r.HandledFS&write&ofFiles {
			t.Errorf("%s: %#x, want %#x", at, got, want)
		}
	}
	r = Alone(Input{ABI: 7, View: viewOf(mounts[:1]), Host: host}) // the control
	if r.rights("/home/u/w/full/secret")&ReadFile == 0 {
		t.Error("closed, and nothing was to be there")
	}
	for _, k := range []Kind{Sized, Elsewhere, Overlay, Private, Root, Later} {
		if slices.ContainsFunc(r.Limits, func(l Limit) bool { return l.Kind == k }) {
			t.Errorf("%q: for nothing", k.About())
		}
	}
}

// Rules hold for all that is below: what is read-only in a private place is so by its mount.
func TestWhatTheSecondLayerCantHold(t *testing.T) {
	mounts := []place{
		{kind: tree, dst: "/usr", src: hostfs.File{Path: "/usr"}, readOnly: true},
		{kind: private, dst: "/tmp"},
		{kind: tree, dst: "/tmp/p", src: hostfs.File{Path: "/usr"}, readOnly: true},
	}
	if got := Under(Input{ABI: 7, View: viewOf(mounts), Host: hosttest.New(t, "/usr/")}).Limits; !slices.Equal(got, []Limit{{Inherited, "/tmp/p"}}) {
		t.Errorf("%+v", got)
	}
	r := Under(Input{ABI: 7, View: viewOf(mounts[:2]), Host: hosttest.New(t, "/usr/")})
	if len(r.Limits) != 0 || r.Gives("/usr/x", WriteFile) || !r.Gives("/tmp/x", WriteFile) {
		t.Errorf("%+v", r)
	}
	r = Under(Input{ABI: 7, View: viewOf(mounts), Host: hosttest.New(t, "/usr/"), RootWritable: true})
	if !slices.Equal(r.Limits, []Limit{{Inherited, "/"}}) || !r.Gives("/x", MakeReg) {
		t.Errorf("a root that is an overlay: %+v", r)
	}
}
