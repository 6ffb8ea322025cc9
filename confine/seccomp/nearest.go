package seccomp

import (
	"strconv"
	"strings"
)

// didYouMean is a hint that names the nearest of the words there are; or all,
// when they are few and none is near.
func didYouMean(word string, words []string) string {
	best, least := "", len(word)/2+1
	for _, w := range words {
		if len(w)-len(word) >= least || len(word)-len(w) >= least {
			continue
		}
		if d := distance(word, w); d < least {
			best, least = w, d
		}
	}
	switch {
	case best == "" && len(words) <= 10:
		return "one of " + strings.Join(words, ", ")
	case best == "":
		return ""
	}
	return "did you mean " + strconv.Quote(best) + "?"
}

// distance counts the letters to add, drop or change (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func callNames() []string {
	names := append([]string(nil), amd64.names...)
	return append(names, arm64.names...)
}

func errnoNames() []string {
	var names []string
	for _, e := range errnos {
		names = append(names, e.name)
	}
	return names
}

func constantNames() []string {
	var names []string
	for _, c := range constants {
		names = append(names, c.name)
	}
	return names
}
