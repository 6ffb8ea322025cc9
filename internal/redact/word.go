package redact

import "strings"

// userinfo masks the password of every URL in a word.
func userinfo(word string) string {
	var b strings.Builder
	for {
		i := strings.Index(word, "://")
		if i < 0 {
			break
		}
		i += len("://")
		b.WriteString(word[:i])
		word = word[i:]
		host := word
		if j := strings.IndexAny(word, "/?# \t\n\"'"); j >= 0 {
			host = word[:j]
		}
		at := strings.LastIndexByte(host, '@')
		if at < 0 {
			continue
		}
		if colon := strings.IndexByte(host[:at], ':'); colon >= 0 {
			b.WriteString(host[:colon+1] + Mask)
		} else {
			b.WriteString(prefixes(host[:at])) // a token as the user's name
		}
		word = word[at:]
	}
	b.WriteString(word)
	return b.String()
}

// header masks the value of every HTTP header with a secret's name. What stands
// before it in the same word (as in -HX-Api-Key: and header=Cookie:) does no harm.
func header(word string) string {
	var b strings.Builder
	for {
		colon := strings.IndexByte(word, ':')
		if colon < 0 {
			break
		}
		start := colon
		for start > 0 && (letter(word[start-1]) || word[start-1] == '-') {
			start--
		}
		name, rest := strings.TrimPrefix(word[start:colon], "-H"), word[colon+1:]
		b.WriteString(word[:colon+1])
		word = rest
		if !isSecretName(name) || strings.HasPrefix(rest, "//") {
			continue
		}
		value := strings.TrimLeft(rest, " \t")
		lower := strings.ToLower(value[:min(len(value), 16)])
		for _, s := range schemes {
			if strings.HasPrefix(lower, s) {
				value = value[len(s):]
				break
			}
		}
		end := strings.IndexAny(value, "\"'\r\n")
		if end < 0 {
			end = len(value)
		}
		if end == 0 {
			continue
		}
		b.WriteString(rest[:len(rest)-len(value)] + Mask)
		word = value[end:]
	}
	b.WriteString(word)
	return b.String()
}

// pairs masks NAME=value among others of its kind: in the query of a URL, in
// a data source's name, in a list of options.
func pairs(word string) string {
	const between = "?&;,# \t\n\"'"
	var b strings.Builder
	for {
		eq := strings.IndexByte(word, '=')
		if eq < 0 {
			break
		}
		start := strings.LastIndexAny(word[:eq], between) + 1
		b.WriteString(word[:eq+1])
		name := word[start:eq]
		word = word[eq+1:]
		if !isName(name) || !isSecretName(name) {
			continue
		}
		end := strings.IndexAny(word, between)
		if end < 0 {
			end = len(word)
		}
		if end > 0 {
			b.WriteString(Mask)
			word = word[end:]
		}
	}
	b.WriteString(word)
	return b.String()
}

// members masks "NAME": "value" in JSON.
func members(word string) string {
	const sep = `":`
	var b strings.Builder
	for {
		i := strings.Index(word, sep)
		if i < 0 {
			break
		}
		name := word[strings.LastIndexByte(word[:i], '"')+1 : i]
		i += len(sep)
		for i < len(word) && (word[i] == ' ' || word[i] == '\t') {
			i++
		}
		b.WriteString(word[:i])
		word = word[i:]
		if !isName(name) || !isSecretName(name) || !strings.HasPrefix(word, `"`) {
			continue
		}
		end := 1
		for end < len(word) && word[end] != '"' {
			if word[end] == '\\' {
				end++
			}
			end++
		}
		b.WriteString(`"` + Mask)
		word = word[min(end, len(word)):]
	}
	b.WriteString(word)
	return b.String()
}

// privateKey masks the inside of PEM blocks.
func privateKey(word string) string {
	const line, tail = "PRIVATE KEY-----", "-----END"
	var b strings.Builder
	for {
		i := strings.Index(word, line)
		if i < 0 {
			break
		}
		i += len(line)
		b.WriteString(word[:i] + Mask)
		if word = word[i:]; !strings.Contains(word, tail) {
			return b.String()
		}
		word = word[strings.Index(word, tail):]
		if i = strings.Index(word, line); i >= 0 { // of the END
			b.WriteString(word[:i+len(line)])
			word = word[i+len(line):]
		}
	}
	b.WriteString(word)
	return b.String()
}

// prefixes masks what begins as only a secret does.
func prefixes(word string) string {
	var b strings.Builder
	done := 0
	for i := 0; i < len(word); i++ {
		if i > 0 && letter(word[i-1]) {
			continue
		}
		prefix, end := secretAt(word, i)
		if end > i {
			b.WriteString(word[done:i] + prefix + Mask)
			done = end
			i = end - 1
		}
	}
	b.WriteString(word[done:])
	return b.String()
}

// secretAt says where the secret that begins at i ends, and with which prefix.
func secretAt(word string, i int) (prefix string, end int) {
	for _, p := range secretPrefixes {
		if !strings.HasPrefix(word[i:], p.prefix) {
			continue
		}
		end := i
		for end < len(word) && (letter(word[end]) || strings.IndexByte("-_.", word[end]) >= 0) {
			end++
		}
		if end-i >= p.least {
			return p.prefix, end
		}
	}
	return "", i
}
