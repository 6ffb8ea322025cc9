package redact

import "strings"

// rewrite copies a word and calls mask behind each sep, with what stands before it since the last one and
// what comes after. mask writes what it puts in the place of a secret, and gives what is left.
func rewrite(word, sep string, mask func(b *strings.Builder, before, after string) (rest string)) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(word, sep)
		if !found {
			b.WriteString(word)
			return b.String()
		}
		b.WriteString(before + sep)
		word = mask(&b, before, after)
	}
}

// upTo is where the first of some bytes stands in s, or its end.
func upTo(s, any string) int {
	if i := strings.IndexAny(s, any); i >= 0 {
		return i
	}
	return len(s)
}

// userinfo masks the password of every URL in a word.
func userinfo(word string) string {
	return rewrite(word, "://", func(b *strings.Builder, _, after string) string {
		at := strings.LastIndexByte(after[:upTo(after, "/?# \t\n\"'")], '@')
		if at < 0 {
			return after
		}
		if user, _, ok := strings.Cut(after[:at], ":"); ok {
			b.WriteString(user + ":" + Mask)
		} else {
			b.WriteString(prefixes(user)) // a token as the user's name
		}
		return after[at:]
	})
}

// header masks the value of every HTTP header with a secret's name. What stands
// before it in the same word (as in -HX-Api-Key: and header=Cookie:) does no harm.
func header(word string) string {
	return rewrite(word, ":", func(b *strings.Builder, before, after string) string {
		start := len(before)
		for start > 0 && (letter(before[start-1]) || before[start-1] == '-') {
			start--
		}
		if !isSecretName(strings.TrimPrefix(before[start:], "-H")) || strings.HasPrefix(after, "//") {
			return after
		}
		value := strings.TrimLeft(after, " \t")
		lower := strings.ToLower(value[:min(len(value), 16)])
		for _, s := range schemes {
			if strings.HasPrefix(lower, s) {
				value = value[len(s):]
				break
			}
		}
		end := upTo(value, "\"'\r\n")
		if end == 0 {
			return after
		}
		b.WriteString(after[:len(after)-len(value)] + Mask)
		return value[end:]
	})
}

// pairs masks NAME=value among others of its kind: in the query of a URL, in
// a data source's name, in a list of options.
func pairs(word string) string {
	const between = "?&;,# \t\n\"'"
	return rewrite(word, "=", func(b *strings.Builder, before, after string) string {
		name := before[strings.LastIndexAny(before, between)+1:]
		end := upTo(after, between)
		if end == 0 || !isName(name) || !isSecretName(name) {
			return after
		}
		b.WriteString(Mask)
		return after[end:]
	})
}

// members masks "NAME": "value" in JSON.
func members(word string) string {
	return rewrite(word, `":`, func(b *strings.Builder, before, after string) string {
		name := before[strings.LastIndexByte(before, '"')+1:]
		value := strings.TrimLeft(after, " \t")
		b.WriteString(after[:len(after)-len(value)])
		if !isName(name) || !isSecretName(name) || !strings.HasPrefix(value, `"`) {
			return value
		}
		end := 1
		for end < len(value) && value[end] != '"' {
			if value[end] == '\\' {
				end++
			}
			end++
		}
		b.WriteString(`"` + Mask)
		return value[min(end, len(value)):]
	})
}

// privateKey masks the inside of PEM blocks.
func privateKey(word string) string {
	const line, tail = "PRIVATE KEY-----", "-----END"
	return rewrite(word, line, func(b *strings.Builder, _, after string) string {
		b.WriteString(Mask)
		i := strings.Index(after, tail)
		if i < 0 {
			return ""
		}
		if end, rest, ok := strings.Cut(after[i:], line); ok { // of the END
			b.WriteString(end + line)
			return rest
		}
		return after[i:]
	})
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
