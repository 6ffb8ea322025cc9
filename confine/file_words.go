package confine

import (
	"fmt"
	"slices"
	"strings"
)

// keyed are the options that a key of a file can mean.
type keyed []*Option

func (k keyed) keys() (keys []string) {
	for _, o := range k {
		keys = append(keys, o.Key)
	}
	return keys
}

// flat is the option's name as a key.
func (o *Option) flat() string { return strings.ReplaceAll(o.Name, "-", "_") }

// allKeys are the keys that say this option, each with its table.
func (o *Option) allKeys() []string {
	if o.Key == "" {
		return nil
	}
	return append([]string{o.Key}, o.Also...)
}

// lookupKey finds the option of a key. "network.allow_domains" can also be said
// without its table, as "allow_domains" or, by the option's name, "allow_network".
func lookupKey(key []string) keyed {
	dotted := strings.Join(key, ".")
	var last, named keyed
	for i := range options {
		o := &options[i]
		for _, k := range o.allKeys() {
			if k == dotted {
				return keyed{o}
			}
			if strings.HasSuffix(k, "."+dotted) && len(key) == 1 && !slices.Contains(last, o) {
				last = append(last, o)
			}
		}
		if o.Key != "" && !o.FileOnly && o.flat() == dotted {
			named = keyed{o}
		}
	}
	if named != nil {
		return named
	}
	return last
}

// isTable says whether a key names a table and no option.
func isTable(key []string) bool {
	prefix := strings.Join(key, ".") + "."
	if prefix == "env.set." {
		return true
	}
	for i := range options {
		if strings.HasPrefix(options[i].Key, prefix) {
			return true
		}
	}
	return false
}

// knownKeys are what an unknown key may have meant.
func knownKeys(profile bool) []string {
	known := []string{keyFilesystem, "network", "filesystem", "env"}
	if profile {
		known = append(known, keyExtends)
	} else {
		known = append(known, "profiles")
	}
	for i := range options {
		o := &options[i]
		if o.Key == "" || (profile && o.Run) {
			continue
		}
		known = append(known, o.allKeys()...)
		if !o.FileOnly {
			known = append(known, o.flat())
		}
		for _, k := range o.allKeys() {
			if dot := strings.LastIndexByte(k, '.'); dot >= 0 {
				known = append(known, k[dot+1:])
			}
		}
	}
	return known
}

// words are the words of a value, if it has the shape that the option takes.
func (in *interpreter) words(o *Option, e entry, key string) ([]string, error) {
	one := []string{e.text}
	takes := ""
	switch o.Kind {
	case KindList:
		return in.listWords(o, e, key)
	case KindBool:
		if e.shape == shapeBool {
			return one, nil
		}
		takes = "true or false"
	case KindDuration, KindSize, KindCount, KindPercent:
		if e.shape == shapeString || e.shape == shapeNumber {
			return one, nil
		}
		takes = forms(o)
	default:
		if e.shape == shapeString || (e.shape == shapeNumber && o.Name == "user") {
			return one, nil
		}
		takes = "a string"
		if len(o.Words) > 0 {
			takes = oneOf(o.Words)
		}
	}
	return nil, in.fail(e, "%s takes %s", key, takes)
}

func forms(o *Option) string {
	switch o.Kind {
	case KindDuration:
		return durationForms
	case KindSize:
		return sizeForms
	case KindPercent:
		return percentForms
	}
	return countForms
}

// listWords reads a list. "false" is the empty list, which drops what weaker
// places said; "true" is everything, where an option has a word for that.
func (in *interpreter) listWords(o *Option, e entry, key string) ([]string, error) {
	network := o.Name == "allow-network"
	switch {
	case e.shape == shapeBool && e.text == "false":
		return nil, nil
	case e.shape == shapeBool && network:
		return []string{wordAll}, nil
	case e.shape != shapeList && network:
		return nil, in.fail(e, "%s takes true, false or a list of strings", key)
	case e.shape != shapeList:
		return nil, in.fail(e, "%s takes a list of strings", key)
	}
	var words []string
	for _, item := range e.items {
		if item.shape != shapeString && (item.shape != shapeNumber || o.Name != "allow-port") {
			return nil, in.fail(item, "%s takes a list of strings", key)
		}
		words = append(words, item.text)
	}
	return words, nil
}

// contradictions refuses what a file says twice, and puts the rest into the
// order in which it counts: general keys, then emptied lists, then what is added.
func (in *interpreter) contradictions() error {
	if err := settle(in.out.settings); err != nil {
		return err
	}
	for _, p := range in.out.pieces {
		if err := settle(p.settings); err != nil {
			return err
		}
	}
	return nil
}

func settle(list []said) error {
	for i, s := range list {
		for _, earlier := range list[:i] {
			if s.option != earlier.option || s.general || earlier.general {
				continue
			}
			if !s.option.IsList() || s.no != earlier.no && len(s.words)+len(earlier.words) > 0 {
				return &UsageError{Msg: fmt.Sprintf("%s: %s was already said otherwise, at %s", s.where, s.option.Name, earlier.where)}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b said) int { return a.rank() - b.rank() })
	return nil
}

func (s *said) rank() int {
	switch {
	case s.general:
		return 0
	case len(s.words) == 0:
		return 1
	}
	return 2
}
