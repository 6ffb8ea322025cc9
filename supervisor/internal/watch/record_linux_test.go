package watch

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCommandLinesAreCut(t *testing.T) {
	long := strings.Repeat("é", 4096)
	for name, c := range map[string]struct {
		words    []string
		cut      bool
		want     []string
		wantsCut bool
	}{
		"short":           {words: []string{"cc", "-c", "a.c"}, want: []string{"cc", "-c", "a.c"}},
		"cut before":      {words: []string{"cc"}, cut: true, want: []string{"cc"}, wantsCut: true},
		"one long word":   {words: []string{"cc", long, "x"}, want: []string{"cc", long[:wordsTold-2]}, wantsCut: true},
		"many words":      {words: slices.Repeat([]string{"word"}, 500), want: append(slices.Repeat([]string{"word"}, wordsTold/4), ""), wantsCut: true},
		"exactly so long": {words: []string{strings.Repeat("x", wordsTold)}, want: []string{strings.Repeat("x", wordsTold)}},
	} {
		got, cut := shorten(c.words, c.cut)
		if !slices.Equal(got, c.want) || cut != c.wantsCut {
			t.Errorf("%s: %q, %v", name, got, cut)
		}
		if !utf8.ValidString(strings.Join(got, "")) {
			t.Errorf("%s: cut within a character", name)
		}
	}
}
