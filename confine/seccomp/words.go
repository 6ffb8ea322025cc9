package seccomp

import (
	"strconv"
	"strings"
)

// name is a native call's, or "".
func (t *table) name(nr uint32) string {
	if nr < uint32(len(t.names)) {
		return t.names[nr]
	}
	return ""
}

// words are the call as a person would write it: its name, and those of its
// arguments that say what was wanted. Numbers that differ from run to run
// (processes, descriptors, addresses) are none of these, so that the same
// attempt has the same words.
func (t *table) words(audit, nr uint32, args [6]uint64, text func(addr uint64) string) string {
	number := strconv.FormatUint(uint64(nr&^x32Bit), 10)
	switch {
	case audit != t.audit:
		return foreignName(audit) + " call " + number
	case t.x32 && nr&x32Bit != 0:
		return "x32 call " + number
	}
	name := t.name(nr)
	if name == "" {
		return "call " + number
	}
	kinds := argumentsOf(name)
	if kinds == "" {
		return name
	}
	var b strings.Builder
	b.WriteString(name)
	b.WriteByte('(')
	hidden := false
	for i := range kinds {
		word := argument(kinds[i], args[i], text)
		if i > 0 {
			b.WriteString(", ")
		}
		if hidden = word == ""; hidden {
			word = "…"
		}
		b.WriteString(word)
	}
	if !hidden && len(kinds) < taken(name) {
		b.WriteString(", …")
	}
	b.WriteByte(')')
	return b.String()
}

func foreignName(audit uint32) string {
	switch audit {
	case 0x40000003:
		return "i386"
	case 0x40000028:
		return "arm"
	case 0xc000003e:
		return "amd64"
	case 0xc00000b7:
		return "arm64"
	}
	return "foreign"
}

// argument is one as a word, "" where there is nothing to say about it. Those that
// the kernel takes as an int are looked at as one, as the rules do.
func argument(kind byte, v uint64, text func(addr uint64) string) string {
	low := uint64(uint32(v))
	switch kind {
	case argText:
		if text == nil || v == 0 {
			return ""
		}
		s := text(v)
		if s == "" {
			return ""
		}
		return strconv.QuoteToASCII(s)
	case argOctal:
		return "0" + strconv.FormatUint(low, 8)
	case argType:
		word := constantOf(argType, low&0xf) // without SOCK_CLOEXEC and SOCK_NONBLOCK
		if word == "" {
			word = strconv.FormatUint(low&0xf, 10)
		}
		return word
	case argNone:
		return ""
	case argClone:
		return flagsOf(low &^ 0xff) // the lowest byte of clone's is a signal
	case argUnshare:
		return flagsOf(low)
	}
	if word := constantOf(kind, low); word != "" {
		return word
	}
	if kind == argIoctl || kind == argPersonality {
		return "0x" + strconv.FormatUint(low, 16)
	}
	return strconv.FormatInt(int64(int32(low)), 10)
}

func constantOf(kind byte, v uint64) string {
	for i := range argumentWords {
		if w := &argumentWords[i]; w.kind == kind && w.value == v {
			return w.name
		}
	}
	return ""
}

// flagsOf names the flags that make namespaces, and counts the others as one.
func flagsOf(v uint64) string {
	var words []string
	for i := range argumentWords {
		if w := &argumentWords[i]; w.kind == argUnshare && v&w.value != 0 {
			words = append(words, w.name)
			v &^= w.value
		}
	}
	if v != 0 {
		words = append(words, "…")
	}
	return strings.Join(words, "|")
}
