package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/overlaytest"
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
				build(t, base, overlaytest.Tree())
				s, other := newStore(t), newStore(t)
				s.noMknod, other.noMknod = noMknod, noMknod
				o, id := overlaytest.New(t, 0, base), ""
				for round := range 3 {
					before := do(t, o)
					want := do(t, o, overlaytest.RandomActs(r, 60)...)
					if maps.Equal(before, want) {
						t.Fatal("nothing happened")
					}
					id = add(t, s, id, Place{"/work/a", o.Uppers(t)[0]})
					if again := do(t, o); !maps.Equal(withoutLinks(want), withoutLinks(again)) {
						t.Errorf("round %d: it was changed by being read:\n%s", round, difference(want, again))
					}
					o = overlaytest.New(t, 0, lowers(trees(t, s, id), "/work/a", base)...)
					if d := difference(withoutLinks(want), withoutLinks(do(t, o))); d != "" {
						t.Fatalf("round %d: seen | seen again\n%s", round, d)
					}
				}
				want := do(t, o)
				var bundle bytes.Buffer
				must(t, s.Export(t.Context(), id, &bundle))
				got, err := other.Import(t.Context(), &bundle, Limits{})
				must(t, err)
				if got != id {
					t.Errorf("ID %s, and elsewhere %s", id, got)
				}
				o = overlaytest.New(t, 0, lowers(trees(t, other, id), "/work/a", base)...)
				if d := difference(want, do(t, o)); d != "" {
					t.Errorf("seen | seen elsewhere\n%s", d)
				}
			})
		}
	}
}

// do does operations inside, and gives what is seen then.
func do(t *testing.T, o *overlaytest.Overlay, acts ...overlaytest.Act) map[string]string {
	t.Helper()
	_, seen := o.Do(t, acts...)
	return seen
}

// withoutLinks leaves out which names are of one file: copying up separates those of a lower layer, and merged directories
// have no times of their own.
func withoutLinks(seen map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range seen {
		out[k], _, _ = strings.Cut(v, " = ")
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
