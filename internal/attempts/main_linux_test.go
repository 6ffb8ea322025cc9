package attempts

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEachAnyAndGiven(t *testing.T) {
	var made []string
	note := func(name string, err error) Try {
		return Try{Name: name, Do: func([]string) error { made = append(made, name); return err }}
	}
	more := [][]Try{{note("yes", nil), note("no", unix.EPERM), note("broken", ErrBroken)}}
	for _, c := range []struct {
		words string
		want  int
		made  string
	}{
		{"yes", Done, "yes"}, {"no", Refused, "no"}, {"broken", Broken, "broken"}, {"nonesuch", Broken, ""}, {"", Broken, ""},
		{"each yes , yes", Done, "yes yes"}, {"each yes , no , yes", Refused, "yes no"}, {"each , yes", Broken, ""},
		{"any no , no", Refused, "no no"}, {"any no , yes", Done, "no yes"}, {"any yes , no", Done, "yes no"},
		{"any no , broken", Broken, "no broken"}, {"any yes , broken", Done, "yes broken"},
		{"given yes ; no", Refused, "yes no"}, {"given no ; yes", Broken, "no"}, {"given yes ; any no , yes", Done, "yes no yes"}, {"given yes", Broken, ""},
	} {
		made = nil
		err := run(strings.Fields(c.words), more)
		got := Done
		switch {
		case errors.Is(err, ErrBroken):
			got = Broken
		case err != nil:
			got = Refused
		}
		if got != c.want || strings.Join(made, " ") != c.made {
			t.Errorf("%q: %d after %q, want %d after %q (%v)", c.words, got, made, c.want, c.made, err)
		}
	}
}

func TestWordsAreUnique(t *testing.T) {
	var names []string
	for _, some := range tries {
		for _, try := range *some {
			if try.Name == "" || try.Do == nil || slices.Contains(names, try.Name) {
				t.Errorf("%q: %+v", try.Name, try)
			}
			names = append(names, try.Name)
		}
	}
	if len(names) < 50 {
		t.Errorf("only %d words", len(names))
	}
}
