package learn

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/confine-run/confine/internal/unseen"
)

// want is something that the profile has to grant, and who needs it.
type want struct {
	verbs []string // "read", "listed"
	comms []string
	names []string // that were made, or used, in a directory
	count int      // of different paths
}

// wants are by canonical path.
type wants map[string]*want

func (w wants) add(at, verb, name, comm string) {
	x := w[at]
	if x == nil {
		x = &want{}
		w[at] = x
	}
	x.count++
	x.verbs = once(x.verbs, verb)
	x.comms = once(x.comms, comm)
	if name != "" {
		x.names = once(x.names, name)
	}
}

// fold takes what is at from into the directory to.
func (w wants) fold(from, to string) {
	x, y := w[from], w[to]
	delete(w, from)
	if y == nil {
		w[to] = x
		return
	}
	y.count += x.count
	for _, v := range x.verbs {
		y.verbs = once(y.verbs, v)
	}
	for _, c := range x.comms {
		y.comms = once(y.comms, c)
	}
}

func (w wants) paths() (all []string) {
	for p := range w {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

// covers says whether a path is, or lies below, one that is wanted.
func (w wants) covers(p string) bool {
	for ; ; p = path.Dir(p) {
		if w[p] != nil {
			return true
		}
		if p == "/" {
			return false
		}
	}
}

// verbWritten is what is done to what has to be writable; merge goes by it.
const verbWritten = "written"

// why is "read by cat, sh".
func (x *want) why() string {
	text := strings.Join(x.verbs, ", ")
	if by := list(x.comms, 4); by != "" {
		text += " by " + by
	}
	if x.count > 1 {
		text += " (" + strconv.Itoa(x.count) + " paths)"
	}
	return text
}

// made is "makes a.txt, b.txt and temporary names".
func (x *want) made() string {
	var plain []string
	temp := false
	for _, n := range x.names {
		if IsTemp(n) {
			temp = true
		} else {
			plain = append(plain, word(n))
		}
	}
	text := list(plain, 3)
	switch {
	case temp && text != "":
		text += " and temporary names"
	case temp:
		text = "temporary names"
	}
	return text
}

// list is the first few words of a list.
func list(words []string, few int) string {
	var known []string
	for _, w := range words {
		if w != "" {
			known = append(known, word(w))
		}
	}
	if len(known) > few {
		return strings.Join(known[:few], ", ") + " and " + strconv.Itoa(len(known)-few) + " more"
	}
	return strings.Join(known, ", ")
}

// word makes a program's own text fit for a comment: one line, and nothing that
// a terminal obeys, or nobody sees.
func word(s string) string {
	const long = 300
	clean := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || unseen.Is(r) || r == unicode.ReplacementChar }) < 0
	if len(s) > long {
		s = s[:long] + "…"
	}
	if clean {
		return strings.ToValidUTF8(s, "?")
	}
	return strconv.QuoteToASCII(s)
}

func once(words []string, w string) []string {
	if slices.Contains(words, w) || len(words) > 100 {
		return words
	}
	return append(words, w)
}
