package learn

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/confine-run/confine/internal/unseen"
)

// notes are what the profile says in comments: what it doesn't grant, and why.
type notes struct {
	list    []string
	dropped int
	homes   wants // private places, with what was made in them
}

// mostNotes bounds how long the list gets.
const mostNotes = 200

func (n *notes) add(text string) {
	switch {
	case slices.Contains(n.list, text):
	case len(n.list) >= mostNotes:
		n.dropped++
	default:
		n.list = append(n.list, text)
	}
}

// refused is something that the command did, and that the profile doesn't grant.
func (n *notes) refused(what, comm, why string) {
	if comm != "" {
		what += " (" + word(comm) + ")"
	}
	n.add("NOT GRANTED: " + what + ": " + why)
}

// private is something that was made in a place that the run has for itself.
func (n *notes) private(dir, name string) {
	if n.homes == nil {
		n.homes = wants{}
	}
	n.homes.add(dir, "", name, "")
}

// all are the notes, in their order.
func (n *notes) all() []string {
	list := slices.Clone(n.list)
	for _, dir := range n.homes.paths() {
		if made := n.homes[dir].made(); made != "" {
			list = append(list, "Made in "+word(dir)+", which is private and empty inside, and gone afterwards: "+made)
		}
	}
	if n.dropped > 0 {
		list = append(list, plural(int64(n.dropped), "more thing")+" of that kind are left out here.")
	}
	return list
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
