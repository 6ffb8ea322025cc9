package tree

import "testing"

const someRollup = `55d0c0a00000-7ffd1b5fe000 ---p 00000000 00:00 0                          [rollup]
Rss:                2048 kB
Pss:                 512 kB
Pss_Dirty:           100 kB
Pss_Anon:             96 kB
Pss_Shmem:           352 kB
Shared_Clean:       1900 kB
Swap:                 64 kB
SwapPss:              32 kB
Locked:                0 kB
`

func TestParseRollup(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want rollup
		ok   bool
	}{
		"pss and its swap":         {someRollup, rollup{544 << 10, 352 << 10}, true},
		"no swap line":             {"Pss: 8 kB\nPss_Shmem: 3 kB\n", rollup{8 << 10, 3 << 10}, true},
		"no parts: all may be it":  {"Pss: 8 kB\nSwapPss: 2 kB\n", rollup{10 << 10, 8 << 10}, true},
		"no newline":               {"Pss_Shmem: 0 kB\nPss: 8 kB", rollup{8 << 10, 0}, true},
		"a part is never the more": {"Pss: 8 kB\nPss_Shmem: 9 kB\n", rollup{8 << 10, 8 << 10}, true},
		"nothing":                  {"", rollup{}, false},
		"only swap":                {"SwapPss: 8 kB\n", rollup{}, false},
		"another unit":             {"Pss: 8 MB\n", rollup{}, false},
		"another unit of the part": {"Pss: 8 kB\nPss_Shmem: 3 MB\n", rollup{}, false},
		"no number":                {"Pss: x kB\n", rollup{}, false},
		"negative":                 {"Pss: -8 kB\n", rollup{}, false},
		"Pss_Anon is no Pss":       {"Pss_Anon: 8 kB\n", rollup{}, false},
		"a line without its colon": {"Pss\nPss: 8 kB\nPss_Shmem: 3 kB\n", rollup{8 << 10, 3 << 10}, true},
	} {
		if got, ok := parseRollup([]byte(c.text)); got != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
}

func FuzzParseRollup(f *testing.F) {
	f.Add([]byte(someRollup))
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, ok := parseRollup(text); ok && (r.shmem < 0 || r.pss < r.shmem) {
			t.Errorf("%q: %+v", text, r)
		}
	})
}
