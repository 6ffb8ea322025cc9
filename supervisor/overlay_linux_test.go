package supervisor

import "testing"

func TestWhatAKeptRunLacksIsTold(t *testing.T) {
	const lost, deep, partly = "at least 1 changes were too many to be kept", "changes with paths that are too long for the system could not be kept: at least 2",
		"changes that could not be kept whole, and can't be applied: 3"
	for _, c := range []struct {
		lost, deep, partly int
		want               string
	}{{0, 0, 0, ""}, {1, 0, 0, lost}, {0, 2, 0, deep}, {0, 0, 3, partly}, {1, 2, 3, lost + "; " + deep + "; " + partly}} {
		if got := missing(c.lost, c.deep, c.partly); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
