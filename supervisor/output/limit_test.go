package output

import (
	"strings"
	"testing"
)

func TestMeter(t *testing.T) {
	for _, c := range []struct {
		name     string
		limit    int64
		terminal bool
		writes   []string
		want     string
		over     bool
	}{
		{"no limit", 0, false, []string{"abc", "def\n"}, "abcdef\n", false},
		{"under", 10, false, []string{"abc"}, "abc", false},
		{"exactly", 6, false, []string{"abc", "def"}, "abcdef", false},
		{"exactly, then nothing", 3, false, []string{"abc", ""}, "abc", false},
		{"one more", 6, false, []string{"abc", "def", "g"}, "abcdef\n[TRUNCATED]\n", true},
		{"in the middle of a write", 4, false, []string{"abc", "def"}, "abcd\n[TRUNCATED]\n", true},
		{"after a newline", 4, false, []string{"abc\n", "def"}, "abc\n[TRUNCATED]\n", true},
		{"newline is the last that passes", 4, false, []string{"abc\ndef"}, "abc\n[TRUNCATED]\n", true},
		{"once only", 1, false, []string{"abc", "def", "ghi"}, "a\n[TRUNCATED]\n", true},
		{"raw terminal", 1, true, []string{"abc"}, "a" + ResetTerminal + "\r\n[TRUNCATED]\r\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := meter{limit: c.limit}
			var got strings.Builder
			var total int64
			for _, w := range c.writes {
				was := m.over
				got.Write(m.admit([]byte(w)))
				total += int64(len(w))
				if m.over && !was {
					got.WriteString(m.mark(c.terminal))
				}
			}
			if got.String() != c.want || m.over != c.over || m.total != total {
				t.Errorf("passed %q, over %v, total %d; want %q, %v, %d", got.String(), m.over, m.total, c.want, c.over, total)
			}
		})
	}
}

func FuzzMeter(f *testing.F) {
	f.Add([]byte("abc\ndef"), uint16(4), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, limit uint16, step uint8) {
		m := meter{limit: int64(limit)}
		var got []byte
		for rest := b; len(rest) > 0; {
			n := min(len(rest), int(step)+1)
			got = append(got, m.admit(rest[:n])...)
			rest = rest[n:]
		}
		want := b
		if limit > 0 && len(b) > int(limit) {
			want = b[:limit]
		}
		if string(got) != string(want) || m.over != (len(want) < len(b)) || m.total != int64(len(b)) {
			t.Errorf("passed %q of %q under %d, over %v, total %d", got, b, limit, m.over, m.total)
		}
	})
}
