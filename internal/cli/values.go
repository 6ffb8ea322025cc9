package cli

import (
	"slices"
	"strings"

	"github.com/confine-run/confine/confine"
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
				all = append(all, Value{Option: o.Name, Values: shown(o, set.Values), Origin: set.Source})
			}
			continue
		}
		last := said[len(said)-1]
		v := Value{Option: o.Name, Values: shown(o, last.Values), Origin: last.Source}
		for _, set := range slices.Backward(said[:len(said)-1]) {
			v.Overridden = append(v.Overridden, Origin{Values: shown(o, set.Values), Origin: set.Source})
		}
		all = append(all, v)
	}
	return all
}

// shown are words without the values of variables, which may be secrets.
func shown(o *confine.Option, words []string) []string {
	if o.Group != confine.GroupEnvironment {
		return words
	}
	safe := make([]string, len(words))
	for i, w := range words {
		name, _, set := strings.Cut(w, "=")
		if safe[i] = name; set {
			safe[i] += "=…"
		}
	}
	return safe
}
