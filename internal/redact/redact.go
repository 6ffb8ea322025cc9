package redact

import "strings"

// Redact gives a command line with its secrets masked. It is a copy.
func Redact(argv []string) []string {
	out := make([]string, len(argv))
	var r reader
	for i, word := range argv {
		out[i] = r.word(word, i == 0)
	}
	return out
}

// Word masks what is secret in one word.
func Word(word string) string {
	if name, value, ok := strings.Cut(word, "="); ok && value != "" && isName(name) && isSecretName(name) {
		return prefixes(name) + "=" + Mask
	}
	return prefixes(privateKey(members(pairs(header(userinfo(word))))))
}

// reader goes through a command line and remembers what the next word may be.
type reader struct {
	next     bool   // the word before names a secret
	nextUser bool   // and it is user:secret
	program  string // the last one with options of its own
}

// word masks one word of a command line; first: it is the command itself.
func (r *reader) word(word string, first bool) string {
	if r.next && !strings.HasPrefix(word, "-") {
		user := r.nextUser
		r.next, r.nextUser = false, false
		return maskValue(word, user)
	}
	r.next, r.nextUser = false, false
	if takesOptions(base(word)) {
		r.program = base(word)
	}
	if masked, ok := r.short(word); ok {
		return masked
	}
	if strings.ContainsAny(word, " \t\n") && !first {
		return script(Word(word)) // as of sh -c
	}
	name, _, assigned := strings.Cut(word, "=")
	r.next = !first && !assigned && strings.HasPrefix(word, "-") && isName(name) && isSecretName(name)
	return Word(word)
}

// short masks the value of an option of one letter that the program takes.
func (r *reader) short(word string) (masked string, ok bool) {
	if r.program == "" || len(word) < 2 || word[0] != '-' {
		return "", false
	}
	for _, o := range shortOptions {
		if o.program != r.program {
			continue
		}
		long := strings.HasPrefix(o.option, "--")
		switch value, has := strings.CutPrefix(word, o.option); {
		case !has:
		case value == "":
			r.next, r.nextUser = o.apart, o.user
			return word, true
		case long && value[0] == '=':
			return o.option + "=" + maskValue(value[1:], o.user), true
		case !long:
			return o.option + maskValue(value, o.user), true
		}
	}
	return "", false
}

func takesOptions(name string) bool {
	for _, o := range shortOptions {
		if o.program == name {
			return true
		}
	}
	return false
}

// maskValue masks all of a value, or what follows the user's name.
func maskValue(value string, user bool) string {
	if !user {
		return Mask
	}
	if name, secret, ok := strings.Cut(value, ":"); ok && secret != "" {
		return prefixes(name) + ":" + Mask
	}
	return prefixes(value)
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// script masks the words of a text that holds a command line, and leaves what is between them.
func script(text string) string {
	const between = " \t\r\n\"';|&()"
	var b strings.Builder
	var r reader
	for text != "" {
		i := strings.IndexAny(text, between)
		if i < 0 {
			i = len(text)
		}
		if i > 0 {
			word := text[:i]
			if word == Mask { // by what was masked in the text as a whole
				r = reader{program: r.program}
			} else {
				word = r.word(word, false)
			}
			b.WriteString(word)
		}
		if i < len(text) {
			b.WriteByte(text[i])
			i++
		}
		text = text[i:]
	}
	return b.String()
}
