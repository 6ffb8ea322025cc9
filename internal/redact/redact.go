package redact

import "strings"

// Redact gives a command line with its secrets masked. It is a copy.
func Redact(argv []string) []string {
	out := make([]string, len(argv))
	next := false // the word before names a secret
	for i, word := range argv {
		switch {
		case next && !strings.HasPrefix(word, "-"):
			out[i], next = Mask, false
			continue
		default:
			out[i] = Word(word)
		}
		name, _, assigned := strings.Cut(word, "=")
		next = i > 0 && !assigned && strings.HasPrefix(word, "-") && isSecretName(name)
	}
	return out
}

// Env gives an environment, K=V, with its secrets masked. It is a copy.
func Env(environ []string) []string {
	out := make([]string, len(environ))
	for i, e := range environ {
		out[i] = Word(e)
	}
	return out
}

// Word masks what is secret in one word.
func Word(word string) string {
	if name, value, ok := strings.Cut(word, "="); ok && value != "" && isName(name) && isSecretName(name) {
		return name + "=" + Mask
	}
	return prefixes(header(userinfo(word)))
}

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

func isSecretName(name string) bool {
	plain := strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
	for _, h := range harmlessNames {
		if plain == h {
			return false
		}
	}
	for _, s := range secretNames {
		if strings.Contains(plain, s) {
			return true
		}
	}
	return false
}

// userinfo masks the password of every URL in a word.
func userinfo(word string) string {
	done := 0
	for {
		i := strings.Index(word[done:], "://")
		if i < 0 {
			return word
		}
		start := done + i + len("://")
		end := start + len(word[start:])
		if j := strings.IndexAny(word[start:], "/?# \t\n\"'"); j >= 0 {
			end = start + j
		}
		done = start
		at := strings.LastIndexByte(word[start:end], '@')
		if at < 0 {
			continue
		}
		if colon := strings.IndexByte(word[start:start+at], ':'); colon >= 0 {
			word = word[:start+colon+1] + Mask + word[start+at:]
		}
	}
}

// header masks what follows an Authorization scheme.
func header(word string) string {
	lower := strings.ToLower(word)
	i := strings.Index(lower, "authorization:")
	if i < 0 || len(lower) != len(word) {
		return word
	}
	rest := i + len("authorization:")
	for rest < len(word) && word[rest] == ' ' {
		rest++
	}
	for _, s := range schemes {
		if strings.HasPrefix(lower[rest:], s) {
			rest += len(s)
			break
		}
	}
	end := len(word)
	if j := strings.IndexAny(word[rest:], "\"'\r\n"); j >= 0 {
		end = rest + j
	}
	if rest == end {
		return word
	}
	return word[:rest] + Mask + word[end:]
}

// prefixes masks what begins as only a secret does.
func prefixes(word string) string {
	for i := 0; i < len(word); i++ {
		if i > 0 && letter(word[i-1]) {
			continue
		}
		for _, p := range secretPrefixes {
			if !strings.HasPrefix(word[i:], p.prefix) {
				continue
			}
			end := i
			for end < len(word) && (letter(word[end]) || strings.IndexByte("-_.", word[end]) >= 0) {
				end++
			}
			if end-i >= p.least {
				word = word[:i] + p.prefix + Mask + word[end:]
				i += len(p.prefix) + len(Mask) - 1
				break
			}
		}
	}
	return word
}
