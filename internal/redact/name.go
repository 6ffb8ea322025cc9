package redact

import (
	"slices"
	"strings"
)

// isName: what could stand before = in an option or an assignment.
func isName(s string) bool {
	for _, c := range []byte(s) {
		if !letter(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return s != ""
}

func letter(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
}

// longestName is more than any name has: what is longer is data.
const longestName = 100

func isSecretName(name string) bool {
	if len(name) > longestName {
		return false
	}
	plain := strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
	for _, h := range harmlessNames {
		if plain == h {
			return false
		}
	}
	for _, h := range harmlessEnds {
		if strings.HasSuffix(plain, h) {
			return false
		}
	}
	if contains(plain, harmlessParts[:]) && !contains(plain, exceptParts[:]) {
		return false
	}
	return contains(plain, secretNames[:])
}

func contains(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}
