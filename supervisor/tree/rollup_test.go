package tree

import "testing"

const someRollup = `55d0c0a00000-7ffd1b5fe000 ---p 00000000 00:00 0                          [rollup]
Rss:                2048 kB
Pss:                 512 kB
Pss_Dirty:           100 kB
Pss_Anon:             96 kB
Shared_Clean:       1900 kB
Swap:                 64 kB
SwapPss:              32 kB
Locked:                0 kB
`

func TestParseRollup(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want int64
		ok   bool
	}{
		"pss and its swap":   {someRollup, 544 << 10, true},
		"no swap line":       {"Pss: 8 kB\n", 8 << 10, true},
		"no newline":         {"Pss: 8 kB", 8 << 10, true},
		"nothing":            {"", 0, false},
		"only swap":          {"SwapPss: 8 kB\n", 0, false},
		"another unit":       {"Pss: 8 MB\n", 0, false},
		"no number":          {"Pss: x kB\n", 0, false},
		"negative":           {"Pss: -8 kB\n", 0, false},
		"Pss_Anon is no Pss": {"Pss_Anon: 8 kB\n", 0, false},
	} {
		if got, ok := parseRollup([]byte(c.text)); got != c.want || ok != c.ok {
			t.Errorf("%s: %d, %v", name, got, ok)
		}
	}
}

func FuzzParseRollup(f *testing.F) {
	f.Add([]byte(someRollup))
	f.Fuzz(func(t *testing.T, text []byte) {
		if n, ok := parseRollup(text); ok && n < 0 {
			t.Errorf("%q: %d", text, n)
		}
	})
}
