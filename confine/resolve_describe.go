package confine

import (
	"crypto/sha256"
	"encoding/hex"
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

// Digest tells policies apart: "sha256:" and the digest of what Describe tells.
// The order in which a list was said makes no difference, but for mounts, which
// are made in their order. The profile's name is no part of it.
func (p *Policy) Digest() string {
	var b strings.Builder
	b.WriteString("confine policy 1\n")
	for _, d := range p.Describe() {
		words := d.Values
		if d.Option != "mount" {
			slices.Sort(words)
		}
		b.WriteString(d.Option)
		for _, w := range words {
			b.WriteByte(' ')
			b.WriteString(strconv.Quote(w))
		}
		b.WriteByte('\n')
	}
	sum := sha256.Sum256([]byte(b.String()))
	return "sha256:" + hex.EncodeToString(sum[:])
}
