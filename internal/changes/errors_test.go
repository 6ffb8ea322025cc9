package changes

import (
	"strings"
	"testing"
)

func TestConflictsAreCounted(t *testing.T) {
	var e ConflictError
	e.add(Conflict{Path: "a", Reason: "x"})
	if got := e.Error(); !strings.HasPrefix(got, "1 path has changed since the run\n") {
		t.Errorf("one: %q", got)
	}
	e.add(Conflict{Path: "b", Reason: "x"})
	if got := e.Error(); !strings.HasPrefix(got, "2 paths have changed since the run\n") {
		t.Errorf("two: %q", got)
	}
}
