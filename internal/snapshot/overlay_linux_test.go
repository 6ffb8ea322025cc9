package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"testing"
)

// What was seen in a sandbox is seen again on the layers of its snapshot, three times one on the other, with
// whiteouts of both forms, and after the way to another store.
func TestLayersGiveBackWhatWasSeen(t *testing.T) {
	for _, noMknod := range []bool{false, true} {
		for seed := range uint64(10) {
			t.Run(fmt.Sprintf("by attribute %v %d", noMknod, seed), func(t *testing.T) {
				if seed > 3 && testing.Short() {
					t.Skip("short")
				}
				r := rand.New(rand.NewPCG(seed, 7))
				base := t.TempDir()
				build(t, base, map[string]string{"a": "one\n", "b": "two\n", "d/x": "x", "d/y": "y", "d/e/z": "z", "d/e/f/": "", "l@": "a", "dl@": "d", "empty/": "", "same": "same"})
				s, other := newStore(t), newStore(t)
				s.noMknod, other.noMknod = noMknod, noMknod
				o, id := newOverlay(t, base), ""
				for round := range 3 {
					before := o.do(t)
					want := o.do(t, randomActs(r, 60)...)
					if maps.Equal(before, want) {
						t.Fatal("nothing happened")
					}
					id = add(t, s, id, Place{"/work/a", o.upper})
					if again := o.do(t); !maps.Equal(withoutLinks(want), withoutLinks(again)) {
						t.Errorf("round %d: it was changed by being read:\n%s", round, difference(want, again))
					}
					o = newOverlay(t, lowers(trees(t, s, id), "/work/a", base)...)
					if d := difference(withoutLinks(want), withoutLinks(o.do(t))); d != "" {
						t.Fatalf("round %d: seen | seen again\n%s", round, d)
					}
				}
				want := o.do(t)
				var bundle bytes.Buffer
				must(t, s.Export(t.Context(), id, &bundle))
				got, err := other.Import(t.Context(), &bundle, Limits{})
				must(t, err)
				if got != id {
					t.Errorf("ID %s, and elsewhere %s", id, got)
				}
				o = newOverlay(t, lowers(trees(t, other, id), "/work/a", base)...)
				if d := difference(want, o.do(t)); d != "" {
					t.Errorf("seen | seen elsewhere\n%s", d)
				}
			})
		}
	}
}

// withoutLinks leaves out which names are of one file: copying up separates those of a lower layer, and merged directories
// have no times of their own.
func withoutLinks(seen map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range seen {
		for i := range len(v) - 2 {
			if v[i:i+3] == " = " {
				v = v[:i]
				break
			}
		}
		out[k] = v
	}
	return out
}

// lowers are what a place is mounted on, the top first.
func lowers(trees []Tree, place, base string) (all []string) {
	all = []string{base}
	for _, t := range trees {
		if _, err := os.Lstat(t.Path + place); err == nil {
			all = append([]string{t.Path + place}, all...)
		}
	}
	return all
}

func randomActs(r *rand.Rand, n int) (acts []act) {
	pool := []string{"a", "b", "c", "hard", "l", "dl", "d", "d/x", "d/y", "d/n", "d/e", "d/e/z", "d/e/f", "d/e/f/g", "empty", "empty/in", "new", "new/x",
		"new/d", "new/d/y", "a/under", "same", "bad\xffname", "line\nfeed"}
	pick := func() []byte { return []byte(pool[r.IntN(len(pool))]) }
	modes := []int64{0o644, 0o755, 0o600, 0o400, 0o444, 0o700, 0o555, 0o000, 0o711, 0o1777}
	ops := []string{"write", "write", "rename", "rename", "link", "symlink", "chmod", "remove", "remove", "mkdir", "mkdir", "xattr", "touch", "sparse"}
	for range n {
		a := act{Op: ops[r.IntN(len(ops))], A: pick()}
		switch a.Op {
		case "write", "xattr":
			a.B = fmt.Appendf(nil, "%d\n", r.IntN(3))
		case "rename", "link", "symlink":
			a.B = pick()
		case "chmod":
			a.N = modes[r.IntN(len(modes))]
		case "sparse":
			a.B, a.N = []byte("data"), 1<<20+int64(r.IntN(5000))
		case "touch":
			a.N = int64(r.IntN(1e9)) - 5e8
		}
		acts = append(acts, a)
	}
	return acts
}
