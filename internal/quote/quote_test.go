package quote

import (
	"testing"

	"github.com/pelletier/go-toml/v2"
)

func FuzzTOML(f *testing.F) {
	for _, s := range []string{"", `a"b\c`, "\x00\n\x1f\x7f", "ü\u2028", "a\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got struct{ K string }
		if err := toml.Unmarshal([]byte("K = "+TOML(s)), &got); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if want := string([]rune(s)); got.K != want {
			t.Errorf("%q, want %q", got.K, want)
		}
	})
}
