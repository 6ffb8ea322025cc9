package config

import "github.com/confine-run/confine/internal/hint"

// Nearest is the candidate that word most likely meant, or "" when none is close.
func Nearest(word string, candidates []string) string { return hint.Nearest(word, candidates) }

// Meant is the end of a message about an unknown word.
func Meant(word string, candidates []string) string {
	if n := Nearest(word, candidates); n != "" {
		return ", did you mean \"" + n + "\"?"
	}
	return ""
}
