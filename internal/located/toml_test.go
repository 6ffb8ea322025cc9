package located

import (
	"errors"
	"fmt"
	"testing"

	"github.com/confine-run/confine/internal/must"
)

// list describes the values in v, a line each: its path, its kind, its text, and where it stands.
func list(v Value, path string, lines Lines) (text string) {
	for i, k := range v.Keys {
		item := v.Items[i]
		line, column := lines.Place(item.At)
		text += fmt.Sprintf("%s.%s %d %q %d:%d\n", path, k.Name, item.Kind, item.Text, line, column) + list(item, path+"."+k.Name, lines)
	}
	if v.Kind == List {
		for i, item := range v.Items {
			text += list(item, fmt.Sprintf("%s[%d]", path, i), lines)
		}
	}
	return text
}

func TestValuesKnowWhereTheyStand(t *testing.T) {
	text := []byte("a.b = 0x1_0\n[[r]]\nn = [1.50,\n 'x']\n[[r]]\ns = { t = true }\n[r.u]\nd = 1979-01-01\n")
	v, err := TOML(text)
	must.Do(t, err)
	const want = `.a 1 "" 1:1
.a.b 4 "16" 1:7
.r 2 "" 2:3
.r[0].n 2 "" 3:1
.r[1].s 1 "" 6:5
.r[1].s.t 6 "true" 6:11
.r[1].u 1 "" 7:2
.r[1].u.d 8 "1979-01-01" 8:5
`
	if got := list(v, "", NewLines(text)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestMistakesHaveAnOffset(t *testing.T) {
	for text, at := range map[string]int{"a = \n": 4, "a = 1\na = 2\n": 6, "[t]\n[t]\n": 5} {
		_, err := TOML([]byte(text))
		var mistake *Error
		if !errors.As(err, &mistake) || mistake.At != at {
			t.Errorf("%q: %v at %+v, want %d", text, err, mistake, at)
		}
	}
}
