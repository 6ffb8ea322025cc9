package seccomp

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hint"
)

// Words are a native call as a person would write it, as in reports of denials.
func (t *Table) Words(name string, args [6]uint64) string {
	if nr, ok := t.Number(name); ok {
		return t.words(t.audit, uint32(nr), args, nil)
	}
	return name
}

// words are the call as a person would write it: its name, and those of its
// arguments that say what was wanted. Numbers that differ from run to run
// (processes, descriptors, addresses) are none of these, so that the same
// attempt has the same words.
func (t *Table) words(audit, nr uint32, args [6]uint64, text func(addr uint64) string) string {
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
	kinds, total := argumentsOf(name)
	if kinds == "" {
		return name
	}
	var words []string
	for i := range kinds {
		word := argument(kinds[i], args[i], text)
		word = cmp.Or(word, "…")
		words = append(words, word)
	}
	if len(words) < total && words[len(words)-1] != "…" {
		words = append(words, "…")
	}
	return name + "(" + strings.Join(words, ", ") + ")"
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

// argumentsOf gives the kinds of a call's arguments, one letter each, and how many it takes.
func argumentsOf(name string) (kinds string, total int) {
	for i := range arguments {
		if a := &arguments[i]; a.call == name {
			return a.kinds, a.total
		}
	}
	return "", 0
}

// kindOf is that of one argument.
func kindOf(call string, index uint8) byte {
	if kinds, _ := argumentsOf(call); int(index) < len(kinds) {
		return kinds[index]
	}
	return argNone
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
	case argNone:
		return ""
	case argClone:
		return flagsOf(low &^ 0xff) // the lowest byte of clone's is a signal
	case argUnshare:
		return flagsOf(low)
	case argType:
		low &= 0xf // without SOCK_CLOEXEC and SOCK_NONBLOCK
	}
	if word := constantOf(kind, low); word != "" {
		return word
	}
	if kind == argIoctl || kind == argPersonality {
		return "0x" + strconv.FormatUint(low, 16)
	}
	return strconv.FormatInt(int64(int32(low)), 10)
}

// constantOf is the name of a value, or "".
func constantOf(kind byte, v uint64) string {
	for i := range constants {
		if c := &constants[i]; c.kind == kind && c.value == v {
			return c.name
		}
	}
	return ""
}

// flagsOf names the flags that make namespaces, and counts the others as one.
func flagsOf(v uint64) string {
	words, rest := flags(argUnshare, v)
	if rest != 0 {
		words = append(words, "…")
	}
	return strings.Join(words, "|")
}

// flags names the bits of a value that have names of a kind, and gives those that have none.
func flags(kind byte, v uint64) (words []string, rest uint64) {
	if kind == argClone {
		kind = argUnshare
	}
	for i := range constants {
		if c := &constants[i]; c.kind == kind && c.value&(c.value-1) == 0 && v&c.value != 0 {
			words = append(words, c.name)
			v &^= c.value
		}
	}
	return words, v
}

// Value reads a number or a constant, or several of these with "|" between them.
func Value(word string) (all uint64, err error) {
	for one := range strings.SplitSeq(word, "|") {
		n, err := strconv.ParseUint(one, 0, 64)
		if err != nil {
			i := slices.IndexFunc(constants[:], func(c constant) bool { return c.name == one })
			if i < 0 {
				var names []string
				for _, c := range constants {
					names = append(names, c.name)
				}
				return 0, hint.New(fmt.Sprintf("unknown value %q", one), hint.DidYouMean(one, names))
			}
			n = constants[i].value
		}
		all |= n
	}
	return all, nil
}

// ErrnoName is "?" for a number that Linux doesn't have.
func ErrnoName(n uint16) string {
	for _, e := range errnos {
		if e.n == n {
			return e.name
		}
	}
	return "?"
}

// ErrnoNumber reads the name of an errno. The error says what was meant.
func ErrnoNumber(name string) (uint16, error) {
	var names []string
	for _, e := range errnos {
		if e.name == name {
			return e.n, nil
		}
		names = append(names, e.name)
	}
	return 0, hint.New(fmt.Sprintf("unknown errno %q", name), hint.DidYouMean(name, names))
}

// Words are the condition as a person would write it, for a call:
//
//	arg 0 is AF_UNIX or AF_INET
//	arg 2 & 06000 is not 0
//
// Where all 64 bits are compared, that is said.
func (c Cond) Words(call string) string {
	var b strings.Builder
	b.WriteString("arg " + strconv.Itoa(int(c.Index)))
	if c.Width == 64 {
		b.WriteString(" (64 bits)")
	}
	kind := kindOf(call, c.Index)
	if c.Mask != 0 {
		b.WriteString(" & " + valueWord(kind, c.Mask, true))
	}
	b.WriteString(" " + [...]string{Eq: "is", Ne: "is not", Lt: "<", Le: "<=", Gt: ">", Ge: ">=", In: "is", NotIn: "is not"}[c.Op] + " ")
	for i, v := range c.Values {
		switch {
		case i > 0 && i == len(c.Values)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(valueWord(kind, v, c.Mask != 0))
	}
	return b.String()
}

// valueWord is a value by the name that it has for that kind of argument; or a number.
func valueWord(kind byte, v uint64, masked bool) string {
	word := ""
	switch {
	case kind == argOctal && v != 0:
		return "0" + strconv.FormatUint(v, 8)
	case kind == argClone, kind == argUnshare:
		if words, rest := flags(kind, v); rest == 0 && masked {
			word = strings.Join(words, "|")
		}
	default:
		word = constantOf(kind, v)
	}
	if word == "" {
		word = plain(v)
	}
	return word
}

// plain is a small number as it is, others in hexadecimal.
func plain(v uint64) string {
	if v < 10 {
		return strconv.FormatUint(v, 10)
	}
	return "0x" + strconv.FormatUint(v, 16)
}
