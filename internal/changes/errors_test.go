package changes

import (
	"strings"
	"testing"
)

func TestRefusalsAreCounted(t *testing.T) {
	var e RefusedError
	e.add("a", "x", "h")
	if got := e.Error(); !strings.HasPrefix(got, "1 path can't be applied\n") {
		t.Errorf("one: %q", got)
	}
	e.add("b", "x", "h")
	if got := e.Error(); !strings.HasPrefix(got, "2 paths can't be applied\n") {
		t.Errorf("two: %q", got)
	}
}

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
