package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/confine-run/confine/internal/unseen"
)

// shellWord quotes a word so that a POSIX shell takes it as it is: between single quotes
// nothing means anything.
func shellWord(w string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:,@%+=", c)
	}
	if w != "" && w[0] != '=' && strings.IndexFunc(w, func(c rune) bool { return !plain(c) }) < 0 {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// shellLine is a command as it can be pasted into a shell. It is false where a line on a
// terminal can't hold it: with line breaks, control characters or others
// that nobody sees, or what is no text.
func shellLine(argv []string) (line string, ok bool) {
	shown := make([]string, len(argv))
	for i, w := range argv {
		if i == 0 && strings.Contains(w, "=") {
			shown[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'" // no assignment
		} else {
			shown[i] = shellWord(w)
		}
	}
	line = strings.Join(shown, " ")
	return line, utf8.ValidString(line) && strings.IndexFunc(line, func(c rune) bool { return !unicode.IsPrint(c) || unseen.Is(c) }) < 0
}
