package shell

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/confine-run/confine/internal/unseen"
)

// Word quotes a word for a POSIX shell: between single quotes nothing means anything. What
// doesn't print is written as $'…' wants it. A shell that doesn't know that form takes it for
// other text, but for one word too: no quote stands within.
func Word(w string) string {
	switch {
	case !printable(w):
		return escaped(w)
	case w != "" && w[0] != '=' && strings.IndexFunc(w, special) < 0:
		return w
	}
	return quoted(w)
}

// Line is a command as it can be pasted into a shell. It is false where a line on a
// terminal can't hold it: with line breaks, control characters or others that nobody sees, or what is no text.
func Line(argv []string) (line string, ok bool) {
	ok = true
	shown := make([]string, len(argv))
	for i, w := range argv {
		ok = ok && printable(w)
		if shown[i] = Word(w); i == 0 && shown[i] == w && strings.Contains(w, "=") {
			shown[i] = quoted(w) // no assignment
		}
	}
	return strings.Join(shown, " "), ok
}

func quoted(w string) string { return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'" }

func special(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:,@%+=", c))
}

func printable(w string) bool {
	return utf8.ValidString(w) && strings.IndexFunc(w, func(c rune) bool { return !unicode.IsPrint(c) || unseen.Is(c) }) < 0
}

// escaped writes bytes in octal, which ends after three digits whatever follows.
func escaped(w string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i, n := 0, 0; i < len(w); i += n {
		var c rune
		c, n = utf8.DecodeRuneInString(w[i:])
		if one := w[i : i+n]; printable(one) && !strings.ContainsAny(one, `'\!`) {
			b.WriteRune(c)
			continue
		}
		for j := i; j < i+n; j++ {
			fmt.Fprintf(&b, `\%03o`, w[j])
		}
	}
	return b.String() + "'"
}
