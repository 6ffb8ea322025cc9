package tree

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// statLine is a stat as the kernel writes it.
func statLine(s stat, comm string) string {
	known := map[int]int64{
		fieldPPID: int64(s.ppid), fieldFaults: s.faults, fieldUtime: s.utime, fieldStime: s.stime, fieldCutime: s.cutime,
		fieldCstime: s.cstime, fieldThreads: s.threads, fieldStart: s.start, fieldRSS: s.rss,
	}
	line := fmt.Sprintf("%d (%s) %c", s.pid, comm, s.state)
	for n := 1; n <= 49; n++ {
		v, ok := known[n]
		if !ok {
			v = -1
		}
		line += fmt.Sprint(" ", v)
	}
	return line + "\n"
}

var someStat = stat{
	pid: 1234, ppid: 7, state: 'S', utime: 11, stime: 22, cutime: 33, cstime: 44,
	threads: 5, start: 987654, rss: 4321,
}

func TestParseStatTakesTheKernelsNumbersWhateverTheName(t *testing.T) {
	for _, comm := range []string{"sh", "", "a b", ") R 1 1", "(x)", "))))", "a\nb) Z 9 9 9", "-1", "\xff\x01"} {
		var got stat
		if !parseStat([]byte(statLine(someStat, comm)), &got) {
			t.Errorf("%q: not read", comm)
			continue
		}
		want := someStat
		copy(want.comm[:15], comm)
		if got != want {
			t.Errorf("%q: %+v, want %+v", comm, got, want)
		}
	}
}

func TestParseStatRefusesWhatIsCutShortOrNoNumber(t *testing.T) {
	whole := statLine(someStat, "sh")
	cut := strings.Index(whole, " 4321 ") // the last field that is needed
	for _, text := range []string{
		"", "1234", "1234 (sh", "(sh) R 1", "x (sh) R 1", whole[:cut],
		strings.Replace(whole, " 11 ", " 1x ", 1),
		strings.Replace(whole, " 11 ", " 99999999999999999999 ", 1),
		strings.Replace(whole, "1234 ", "-1 ", 1),
		strings.Replace(whole, " S ", " SS ", 1),
	} {
		if parseStat([]byte(text), new(stat)) {
			t.Errorf("%q was read", text)
		}
	}
}

func TestALeaderThatExitedBeforeItsThreadsIsNotDead(t *testing.T) {
	for _, c := range []struct {
		state    byte
		threads  int64
		dead     bool
		headless bool
	}{
		{'R', 1, false, false}, {'Z', 1, true, false}, {'Z', 0, true, false},
		{'Z', 2, false, true}, {'X', 1, true, false}, {'T', 3, false, false},
	} {
		s := stat{state: c.state, threads: c.threads}
		if s.dead() != c.dead || s.headless() != c.headless {
			t.Errorf("%c with %d threads: dead %v, headless %v", c.state, c.threads, s.dead(), s.headless())
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add(statLine(someStat, "sh"))
	f.Add("1 () R")
	f.Fuzz(func(t *testing.T, text string) {
		var s stat
		if !parseStat([]byte(text), &s) {
			return
		}
		if s.pid <= 0 || s.ppid < 0 || s.own() < 0 || s.reaped() < 0 || s.rss < 0 || s.threads < 0 || s.comm[15] != 0 {
			t.Errorf("%q: %+v", text, s)
		}
	})
}

func FuzzParseStatName(f *testing.F) {
	f.Add("a) R 1 (b", int64(3), int64(7))
	f.Fuzz(func(t *testing.T, comm string, ticks, rss int64) {
		want := someStat
		want.utime, want.rss = ticks&(maxInt-1), rss&(maxInt-1)
		var got stat
		if !parseStat([]byte(statLine(want, comm)), &got) {
			t.Fatalf("name %q: not read", comm)
		}
		if want.comm = got.comm; got != want {
			t.Errorf("name %q: %+v, want %+v", comm, got, want)
		}
	})
}

func TestAppendChildren(t *testing.T) {
	for text, want := range map[string][]int32{
		"": nil, "12 ": {12}, "12 13 900 ": {12, 13, 900}, "12 13": {12, 13}, " ": nil,
	} {
		if got := appendChildren(nil, []byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzAppendChildren(f *testing.F) {
	f.Add("12 13 ")
	f.Add("self 0 -3 1x 99999999999999999999")
	f.Fuzz(func(t *testing.T, text string) {
		for _, pid := range appendChildren(nil, []byte(text)) {
			if pid <= 0 {
				t.Errorf("%q: %d", text, pid)
			}
		}
	})
}

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
