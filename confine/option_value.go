package confine

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Views of a part of the policy that one option fills in a way of its own.
type (
	allowed  Network // Allow, and All for the word "all"
	passed   Env     // Pass
	assigned Env     // Set, as K=V
)

const (
	wordAll  = "all"
	wordNone = "none"
)

// canonical checks one word and gives the form in which it is kept.
func (o *Option) canonical(base place, word string) (string, error) {
	if strings.ContainsRune(word, 0) {
		return "", mistake("contains a NUL byte", "")
	}
	if o.check != nil {
		return o.check(base, word)
	}
	switch o.Kind {
	case KindWord:
		return checkWord(word, o.Words)
	case KindBool:
		b, err := parseBool(word)
		if err != nil {
			return "", mistake(err.Error(), "it takes "+boolForms)
		}
		return strconv.FormatBool(b), nil
	}
	if o.isLimit() {
		return o.canonicalLimit(word)
	}
	return word, nil
}

func (o *Option) canonicalLimit(word string) (string, error) {
	if strings.EqualFold(word, wordNone) {
		return wordNone, nil
	}
	var canon, forms string
	var err error
	switch o.Kind {
	case KindDuration:
		var d time.Duration
		d, err = ParseDuration(word)
		canon, forms = FormatDuration(d), durationForms
	case KindSize:
		var n int64
		n, err = ParseSize(word)
		canon, forms = FormatSize(n), sizeForms
	case KindPercent:
		var n int64
		n, err = parseCount(strings.TrimSuffix(word, "%"), math.MaxInt32)
		canon, forms = strconv.FormatInt(n, 10)+"%", percentForms
	default:
		var n int64
		n, err = parseCount(word, o.most())
		canon, forms = strconv.FormatInt(n, 10), countForms
	}
	if err == errZero && o.zero {
		return wordNone, nil
	}
	if err != nil {
		return "", mistake(err.Error(), "it takes "+forms)
	}
	return canon, nil
}

// most is the largest count that the field can hold.
func (o *Option) most() int64 {
	var r Resolved
	if _, ok := o.field(&r).(*int); ok {
		return math.MaxInt32
	}
	return math.MaxInt64
}

// set puts canonical words where they belong: a scalar is replaced, a list grows.
func (o *Option) set(r *Resolved, words []string) {
	if o.Kind == KindList {
		if p, ok := o.field(r).(*[]string); ok {
			*p = slices.Grow(*p, len(words))
		}
		for _, w := range words {
			o.add(r, w)
		}
		return
	}
	word := words[len(words)-1]
	switch p := o.field(r).(type) {
	case *string:
		*p = word
	case *bool:
		*p = word == "true"
	case *time.Duration:
		*p = 0
		if word != wordNone {
			*p, _ = ParseDuration(word)
		}
	case *int64:
		*p = o.number(word)
	case *int:
		*p = int(o.number(word))
	case **User:
		*p = parseUser(word)
	}
}

func (o *Option) number(word string) (n int64) {
	switch {
	case word == wordNone:
	case o.Kind == KindSize:
		n, _ = ParseSize(word)
	default:
		n, _ = strconv.ParseInt(strings.TrimSuffix(word, "%"), 10, 64)
	}
	return n
}

func (o *Option) add(r *Resolved, w string) {
	switch p := o.field(r).(type) {
	case *[]string:
		*p = with(*p, w)
	case *[]int:
		n, _ := strconv.Atoi(w)
		*p = with(*p, n)
	case *[]Mount:
		m, _ := parseMount(place{}, w)
		*p = with(*p, m)
	case *allowed:
		if w == wordAll {
			p.All = true
		} else {
			p.Allow = with(p.Allow, w)
		}
	case *passed:
		p.Pass = with(p.Pass, w)
		delete(p.Set, w) // the later word holds
	case *assigned:
		k, v, _ := strings.Cut(w, "=")
		p.Pass = slices.DeleteFunc(p.Pass, func(s string) bool { return s == k })
		if p.Set == nil {
			p.Set = make(map[string]string)
		}
		p.Set[k] = v
	}
}

func with[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// clear empties a list.
func (o *Option) clear(r *Resolved) {
	switch p := o.field(r).(type) {
	case *[]string:
		*p = nil
	case *[]int:
		*p = nil
	case *[]Mount:
		*p = nil
	case *allowed:
		p.All, p.Allow = false, nil
	case *passed:
		p.Pass = nil
	case *assigned:
		p.Set = nil
	}
}

// words is the value as words that, said again, give it again. A list that is
// empty, and a text that is not there, have none.
func (o *Option) words(r *Resolved) []string {
	switch p := o.field(r).(type) {
	case *string:
		if *p == "" {
			return nil
		}
		return []string{*p}
	case *bool:
		return []string{strconv.FormatBool(*p)}
	case *time.Duration:
		return []string{FormatDuration(*p)}
	case *int64:
		return []string{o.formatNumber(*p)}
	case *int:
		return []string{o.formatNumber(int64(*p))}
	case **User:
		if *p == nil {
			return nil
		}
		return []string{(*p).String()}
	}
	return o.listWords(r)
}

func (o *Option) formatNumber(n int64) string {
	switch {
	case n == 0:
		return wordNone
	case o.Kind == KindSize:
		return FormatSize(n)
	case o.Kind == KindPercent:
		return strconv.FormatInt(n, 10) + "%"
	}
	return strconv.FormatInt(n, 10)
}

func (o *Option) listWords(r *Resolved) (words []string) {
	switch p := o.field(r).(type) {
	case *[]string:
		words = slices.Clone(*p)
	case *[]int:
		for _, n := range *p {
			words = append(words, strconv.Itoa(n))
		}
	case *[]Mount:
		for _, m := range *p {
			words = append(words, m.String())
		}
	case *allowed:
		if p.All {
			words = append(words, wordAll)
		}
		words = append(words, p.Allow...)
	case *passed:
		words = slices.Clone(p.Pass)
	case *assigned:
		for k, v := range p.Set {
			words = append(words, k+"="+v)
		}
		slices.Sort(words)
	}
	return words
}
