package picture

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/confine-run/confine/supervisor/terminal"
)

// mostMarks bounds the marks that are put on one letter, above and below each other.
const mostMarks = 2

// cut makes a text of somebody's that is shown: printable, on one line, and no more than so many columns wide.
func cut(s string, columns int) string {
	const perColumn = 16 // bytes that are looked at: nothing is read to the end only to be cut
	if most := perColumn*columns + perColumn; len(s) > most {
		s = s[:most] + "…"
	}
	s = terminal.Visible(s)
	var b strings.Builder
	width, marks := 0, 0
	for i, r := range s {
		if unicode.Is(unicode.M, r) {
			if marks++; marks <= mostMarks {
				b.WriteRune(r)
			}
			continue
		}
		marks = 0
		w := columnsOf(r)
		if width+w > columns-1 && widthOf(s[i:]) > columns-width {
			return b.String() + "…"
		}
		width += w
		b.WriteRune(r)
	}
	return b.String()
}

// columnsOf is how wide a character is.
func columnsOf(r rune) int {
	if r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 || r >= 0xf900 && r <= 0xfaff ||
		r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f300 && r <= 0x1faff || r >= 0x20000) {
		return 2
	}
	return 1
}

func widthOf(s string) (n int) {
	for _, r := range s {
		if !unicode.Is(unicode.M, r) {
			n += columnsOf(r)
		}
	}
	return n
}

// pad fills up to a width.
func pad(s string, columns int) string {
	return s + strings.Repeat(" ", max(columns-widthOf(s), 0))
}

// span is a time in milliseconds, in the unit that fits.
func span(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case ms < 1000:
		return strconv.FormatInt(ms, 10) + " ms"
	case ms < 100_000:
		return trim(d.Seconds()) + " s"
	case d < 2*time.Hour && ms%60_000 == 0:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// trim is a number with two digits or three, and no zeroes that say nothing.
func trim(f float64) string {
	digits := 2
	if f >= 100 {
		digits = 0
	} else if f >= 10 {
		digits = 1
	}
	s := strconv.FormatFloat(f, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// size is a number of bytes.
func size(n float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB", "TiB"} {
		if n < 1024 || unit == "TiB" {
			return trim(n) + " " + unit
		}
		n /= 1024
	}
	panic("unreachable")
}

// micro is a number of microseconds.
func micro(us int64) string {
	if us < 1000 {
		return strconv.FormatInt(us, 10) + " µs"
	}
	return trim(float64(us)/1000) + " ms"
}

// times is "×3", or nothing for one.
func times(n int64) string {
	if n <= 1 {
		return ""
	}
	return "×" + strconv.FormatInt(n, 10)
}

// plural is "1 process", "2 processes".
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}

// firstLine is what a person reads first.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	if !utf8.ValidString(line) {
		line = strings.ToValidUTF8(line, "\uFFFD")
	}
	return line
}
