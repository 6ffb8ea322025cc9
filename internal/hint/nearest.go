package hint

import (
	"strconv"
	"strings"
)

// DidYouMean names the word that was most likely meant; or all, when they are few and none is near.
func DidYouMean(word string, words []string) string {
	switch best := Nearest(word, words); {
	case best != "":
		return "did you mean " + strconv.Quote(best) + "?"
	case len(words) <= 10:
		return "one of " + strings.Join(words, ", ")
	}
	return ""
}

// Nearest is the candidate that word most likely meant: the one with the fewest
// letters to change, or else the one that begins the same. It is "" when none is
// close.
func Nearest(word string, candidates []string) string {
	if c := Mistyped(word, candidates); c != "" {
		return c
	}
	best, most := "", max(3, (len(word)+1)/2)
	for _, c := range candidates {
		n := 0
		for n < min(len(word), len(c)) && lower(word[n]) == lower(c[n]) {
			n++
		}
		if n >= most {
			best, most = c, n+1
		}
	}
	return best
}

// Mistyped is the candidate that is word but for a third of its letters, or "".
func Mistyped(word string, candidates []string) string {
	const longest = 64 // a word from a file can be of any length
	if len(word) > longest {
		return ""
	}
	best, least := "", 1+max(1, len(word)/3)
	for _, c := range candidates {
		if d := Distance(word, c); d < least {
			best, least = c, d
		}
	}
	return best
}

// Distance counts the letters to insert, drop, change or swap with their
// neighbour, to get from a to b.
func Distance(a, b string) int {
	older, old := make([]int, len(b)+1), make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if lower(a[i-1]) == lower(b[j-1]) {
				cost = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old, row = old, row, older
	}
	return old[len(b)]
}

func lower(c byte) byte {
	// "time_limit" and "time-limit" are the same word with another accent.
	switch {
	case c == '-':
		return '_'
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}
