package landlock

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/hostfs"
	"github.com/confine-run/confine/internal/hostfs/hosttest"
)

// Whatever the table says, nobody gets more than it does; and what is a file when
// the plan is made gets no less, unless that is told.
func TestNeverMoreThanTheTable(t *testing.T) {
	splits := 0
	for seed := range uint64(3000) {
		host, mounts := randomTable(t, rand.New(rand.NewPCG(seed, 1)))
		abi := int(seed%7) + 1
		r := Alone(Input{ABI: abi, View: viewOf(mounts), Host: host})
		for at, node := range host.Nodes {
			mode := node.Mode
			want := wanted(mounts, host, at) & r.HandledFS
			got, counts := r.rights(at), ^uint64(0)
			if mode.Type() == fs.ModeSymlink {
				continue
			}
			if !mode.IsDir() {
				counts = ofFiles
			}
			if got&counts&^want != 0 {
				t.Fatalf("seed %d: %s has %#x, and should have at most %#x\n%s", seed, at, got&counts, want, show(mounts, r))
			}
			if !mode.IsDir() && want&counts&^got != 0 && !leftOut(r, at) {
				t.Fatalf("seed %d: %s has %#x, and should have %#x\n%s", seed, at, got, want&counts, show(mounts, r))
			}
		}
		for _, l := range r.Limits {
			if l.Kind == Unlisted || l.Kind == NoNewNames {
				splits++
			}
		}
	}
	if splits < 500 {
		t.Errorf("%d directories taken apart: the tables are too simple to show anything", splits)
	}
}

func leftOut(r *Ruleset, at string) bool {
	return slices.ContainsFunc(r.Limits, func(l Limit) bool { return l.Kind == LeftOut && hostfs.Under(at, l.Path) })
}

// randomTable is a small tree, and some entries about it, as rootfs sorts them.
func randomTable(t *testing.T, rnd *rand.Rand) (*hosttest.Host, []place) {
	host := hosttest.New(t, "/a/")
	var paths []string
	for range 25 {
		at := ""
		for range 1 + rnd.IntN(4) {
			at += "/" + string(rune('a'+rnd.IntN(3)))
			if n := host.Nodes[at]; n != nil && !n.Mode.IsDir() {
				break
			}
		}
		if host.Nodes[at] != nil {
			continue
		}
		mode := fs.ModeDir
		if rnd.IntN(2) == 0 {
			mode = 0
		}
		host.Put(at, mode, "")
		paths = append(paths, at)
	}
	if len(paths) > 0 && rnd.IntN(4) == 0 {
		host.Nodes[paths[rnd.IntN(len(paths))]].Unlisted = true
	}
	var mounts []place
	for _, at := range paths {
		switch rnd.IntN(8) {
		case 0:
			mounts = append(mounts, bind(at, true))
		case 1:
			mounts = append(mounts, bind(at, false))
		case 2:
			mounts = append(mounts, entry(hidden, at))
		case 3:
			mounts = append(mounts, entry(restricted, at))
		case 4:
			if host.Nodes[at].Mode.IsDir() {
				mounts = append(mounts, entry(private, at))
			}
		}
	}
	slices.SortFunc(mounts, func(a, b place) int { return strings.Compare(key(a.dst), key(b.dst)) })
	return host, mounts
}

// wanted is what the table says about a path, said as simply as can be.
func wanted(mounts []place, host *hosttest.Host, at string) uint64 {
	for dir := at; dir != "/"; dir = path.Dir(dir) {
		for i := len(mounts) - 1; i >= 0; i-- {
			if m := &mounts[i]; m.dst == dir {
				switch m.kind {
				case tree:
					if m.readOnly {
						return read
					}
					return write
				case restricted:
					return wanted(mounts[:i], host, dir) & read
				}
				return 0
			}
		}
	}
	return 0
}

func show(mounts []place, r *Ruleset) string {
	var b strings.Builder
	for _, m := range mounts {
		fmt.Fprintf(&b, "mount %d %s %v\n", m.kind, m.dst, m.readOnly)
	}
	for _, rule := range r.Rules {
		fmt.Fprintf(&b, "rule %s %#x\n", rule.Path, rule.Access)
	}
	return b.String()
}
