package confine

import (
	"slices"
	"strconv"
	"strings"
)

// Described is the effective value of one option.
type Described struct {
	Option string
	Values []string // words that, said again, give it again
	Value  string   // the same for a reader: "none" where there is nothing
}

// Describe tells the whole policy, option by option, in the order of Options.
// Values of variables are in it: who prints it redacts them.
func (p *Policy) Describe() []Described {
	r := &Resolved{Policy: *p}
	var list []Described
	for i := range options {
		o := &options[i]
		if o.Run {
			continue
		}
		d := Described{Option: o.Name, Values: o.words(r), Value: wordNone}
		if len(d.Values) > 0 {
			d.Value = strings.Join(d.Values, ", ")
		}
		list = append(list, d)
	}
	return list
}

// Digest tells policies apart: "sha256:" and the digest over all options and
// their values, in a fixed form.
// The order in which a list was said makes no difference, but for mounts, which
// are made in their order. The profile's name is no part of it.
func (p *Policy) Digest() string {
	r := &Resolved{Policy: *p}
	text := make([]byte, 0, 4096)
	text = append(text, "confine policy 1\n"...)
	for i := range options {
		o := &options[i]
		if o.Run {
			continue
		}
		words := o.words(r)
		if o.later && slices.Equal(words, []string{"false"}) {
			continue
		}
		if o.Name != "mount" {
			slices.Sort(words)
		}
		text = append(text, o.Name...)
		for _, w := range words { // each with its length: no two lists of words look the same
			text = append(text, ' ')
			text = strconv.AppendInt(text, int64(len(w)), 10)
			text = append(text, ':')
			text = append(text, w...)
		}
		text = append(text, '\n')
	}
	return digestOf(text)
}
