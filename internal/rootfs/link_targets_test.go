package rootfs

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/handoff"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
	"github.com/confine-run/confine/internal/protect"
	"github.com/confine-run/confine/internal/view"
)

// How long a start takes isn't for whoever fills the tree to say: what links in protected
// directories lead to is bounded over all of them, and that is told once.
func TestWhatProtectedLinksLeadToIsBoundedOverAllOfAPlan(t *testing.T) {
	const p = "/home/u/p/"
	filled := func(each int, dirs ...string) *hosttest.Host {
		h := hosttest.Debian(t, p+".npmrc -> rc", p+"rc=1", p+"conf/confine/mine -> ../../own", p+"own=1")
		for _, d := range dirs {
			for i := range each {
				h.Put(fmt.Sprintf("%st/%s%d", p, d, i), 0o644, "")
				h.Put(fmt.Sprintf("%s.%s/l%d", p, d, i), fs.ModeSymlink|0o777, fmt.Sprintf("../t/%s%d", d, i))
			}
		}
		return h
	}
	own := func(in *view.Input) { defaults(in); in.Env = environ("XDG_CONFIG_HOME=" + p + "conf") }
	held := func(r run) (n int) {
		for _, m := range r.Mounts {
			if m.Kind == handoff.MountReadOnly && strings.HasPrefix(m.Dst, p+"t/") {
				n++
			}
		}
		return n
	}
	all := []string{"vscode", "idea", "zed", "fleet", "cursor", "claude", "vim"}
	few := compile(t, filled(100, all...), own)
	if held(few) != 100*len(all) || few.ProtectsLess {
		t.Errorf("a few: %d are held, less %v", held(few), few.ProtectsLess)
	}
	h := filled(protect.MaxLinksBelow-10, all...)
	many := compile(t, h, own)
	told := slices.DeleteFunc(slices.Clone(many.Notices), func(n string) bool { return !strings.Contains(n, "not all that links") })
	if n := held(many); n == 0 || n > protect.MaxTargets/protect.LeastWay || !many.ProtectsLess || len(told) != 1 {
		t.Errorf("%d are held, less %v: %q", n, many.ProtectsLess, told)
	}
	if h.Calls > 10*protect.MaxTargets {
		t.Errorf("the host was asked %d times", h.Calls)
	}
	// What has a name of its own, and what is confine's, is none of it.
	many.want(p+"rc", "readonly", p+"own", "readonly", p+".vscode", "readonly", p+".idea", "readonly", p+".vim", "readonly")
}

// A way can be as long as a path: it is that which counts, not the number of links.
func TestLongWaysOfProtectedLinksAreBounded(t *testing.T) {
	const p = "/home/u/p/"
	deep := strings.TrimPrefix(strings.Repeat("/d", 100), "/")
	h := hosttest.Debian(t, p+deep+"/f=1")
	for i := range 400 {
		h.Put(p+".vim/l"+strconv.Itoa(i), fs.ModeSymlink|0o777, "../"+deep+"/f")
		h.Put(p+".idea/l"+strconv.Itoa(i), fs.ModeSymlink|0o777, "../none"+strconv.Itoa(i)+"/"+deep+"/f")
	}
	r := compile(t, h, defaults)
	if !r.ProtectsLess || h.Calls > 10*protect.MaxTargets || len(r.KeepClear) > protect.MaxTargets {
		t.Errorf("less %v, asked %d times, %d directories are kept clear", r.ProtectsLess, h.Calls, len(r.KeepClear))
	}
	r = compile(t, hosttest.Debian(t, p+deep+"/f=1", p+".vim/l -> ../"+deep+"/f"), defaults)
	r.want(p+deep+"/f", "readonly")
	if r.ProtectsLess {
		t.Error("one is too much")
	}
}

// Many links lead to one directory, which is searched once.
func TestADirectoryThatManyLinksLeadToIsSearchedOnce(t *testing.T) {
	const p = "/home/u/p/"
	lists := func(n int) int {
		h := hosttest.Debian(t, p+"d/l -> ../x", p+"x=1")
		for i := range n {
			h.Put(p+".vim/l"+strconv.Itoa(i), fs.ModeSymlink|0o777, "../d")
		}
		compile(t, h, defaults).want(p+"x", "readonly", p+"d", "readonly")
		return h.Lists
	}
	if one, many := lists(1), lists(50); many != one {
		t.Errorf("%d directories are listed for one, and %d for many", one, many)
	}
}

// Links that have to be hidden are told in one line, however many a tree has.
func TestLinksThatAreHiddenAreToldInOneLine(t *testing.T) {
	const p = "/home/u/p/"
	told := func(names ...string) (lines []string) {
		tree := []string{p + "x=1"}
		for _, n := range names {
			tree = append(tree, p+n+" -> none")
		}
		r := compile(t, hosttest.Debian(t, tree...), defaults)
		for _, n := range names {
			r.want(p+n, "mask")
		}
		return slices.DeleteFunc(slices.Clone(r.Notices), func(n string) bool { return !strings.Contains(n, "hidden") })
	}
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{".zshrc"}, `"` + p + `.zshrc" is hidden: it is protected`},
		{[]string{".zshrc", ".envrc", ".npmrc", ".bashrc", ".profile"}, ` and 2 more are hidden: they are protected`},
	} {
		if got := told(tt.names...); len(got) != 1 || !strings.Contains(got[0], tt.want) {
			t.Errorf("%q, want one with %q", got, tt.want)
		}
	}
	if got := told(); len(got) != 0 {
		t.Errorf("%q of no link", got)
	}
}
