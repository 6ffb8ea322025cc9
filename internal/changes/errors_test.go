package changes

import (
	"strings"
	"testing"
)

func TestRefusalsAndConflictsAreCounted(t *testing.T) {
	var refused RefusedError
	var conflicts ConflictError
	for _, want := range [][2]string{
		{"1 path can't be applied\n  a: x", "1 path has changed since the run\n  a: x"},
		{"2 paths can't be applied\n  a: x", "2 paths have changed since the run\n  a: x"},
	} {
		refused.never("a", "x")
		conflicts.add(Conflict{Path: "a", Reason: "x"})
		if got := [2]string{refused.Error(), conflicts.Error()}; !strings.HasPrefix(got[0], want[0]) || !strings.HasPrefix(got[1], want[1]) {
			t.Errorf("%q", got)
		}
	}
}

// What the hint of a refusal names is the run's choice, and the hint is there to be pasted.
func TestRefusalsAreDiscarded(t *testing.T) {
	const look = "look at it with confine diff --patch; then --allow-protected, or confine discard it"
	for _, c := range []struct {
		never     []string
		protected bool
		want      string
	}{
		{[]string{"/x;touch PWNED;#"}, false, "confine discard --run 1 '/x;touch PWNED;#'"},
		{[]string{"/a\n'"}, false, `confine discard --run 1 $'/a\012\047'`},
		{[]string{"/a", "/b", "/c d"}, false, "confine discard --run 1 /a /b '/c d'"},
		{[]string{"/a", "/b", "/c", "/d"}, false, "confine discard --run 1 PATH…"},
		{[]string{"/a"}, true, "confine discard --run 1 /a\n" + look},
		{nil, true, look},
	} {
		var e RefusedError
		if c.protected {
			e.protected("/p", "x")
		}
		for _, path := range c.never {
			e.never(path, "x")
		}
		if got := e.remedy("1"); got != c.want {
			t.Errorf("%q: %q", c.never, got)
		}
	}
}
