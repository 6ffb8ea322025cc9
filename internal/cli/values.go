package cli

import (
	"slices"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/internal/redact"
)

// values are what holds, in the order of the options, with who said so. What a
// list says in several places adds up, and each has an entry of its own.
func values(r *confine.Resolved) []Value {
	all := []Value{}
	options := confine.Options()
	for i := range options {
		o := &options[i]
		said := r.Origins[o.Name]
		if len(said) == 0 {
			continue
		}
		if o.IsList() {
			for _, set := range said {
				all = append(all, Value{Option: o.Name, Values: shown(set.Values), Origin: set.Source})
			}
			continue
		}
		last := said[len(said)-1]
		v := Value{Option: o.Name, Values: shown(last.Values), Origin: last.Source}
		for _, set := range slices.Backward(said[:len(said)-1]) {
			v.Overridden = append(v.Overridden, Origin{Values: shown(set.Values), Origin: set.Source})
		}
		all = append(all, v)
	}
	return all
}

// shown are words with the secrets in them masked.
func shown(words []string) []string {
	safe := make([]string, len(words))
	for i, w := range words {
		safe[i] = redact.Word(w)
	}
	return safe
}
