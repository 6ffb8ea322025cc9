package hint

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"time-limit", "time_limit", "memory-limit", "strict", "standard", "env"}
	for _, c := range []struct{ name, in, want string }{
		{"one letter changed", "strikt", "strict"},
		{"one letter missing", "time-limt", "time-limit"},
		{"one letter too many", "memory-limiit", "memory-limit"},
		{"two letters swapped", "tiem-limit", "time-limit"},
		{"other case", "STRICT", "strict"},
		{"other separator", "memory_limit", "memory-limit"},
		{"the first of two that are as near", "time.limit", "time-limit"},
		{"a short word", "enw", "env"},
		{"the beginning", "memory", "memory-limit"},
		{"the same beginning", "timeout", "time-limit"},
		{"nothing near", "zebra", ""},
		{"a beginning too short", "st", ""},
		{"empty", "", ""},
		{"very long", strings.Repeat("x", 1<<20), ""},
	} {
		if got := Nearest(c.in, words); got != c.want {
			t.Errorf("%s: Nearest(%.20q) = %q, want %q", c.name, c.in, got, c.want)
		}
	}
	if got := Nearest("x", nil); got != "" {
		t.Errorf("Nearest of nothing = %q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"abc", "abc", 0}, {"ca", "abc", 3},
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
