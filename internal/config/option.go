package config

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is what the words of an option are.
type Kind uint8

const (
	KindText     Kind = iota + 1 // one word, checked by the option itself
	KindWord                     // one of Option.Words, or, where Option.Paths is set, a path
	KindBool                     // true or false
	KindCount                    // a whole number, or "none"
	KindPercent                  // "50" or "50%", or "none"
	KindSize                     // "512M", or "none"
	KindDuration                 // "1.5m", or "none"
	KindList                     // repeatable; what several places say adds up
)

// Option is one thing that can be said about a run, wherever it is said: as a
// flag, in the environment, in a file or by a profile. One table of them drives
// the command line, its help, the man page, completion and explain.
type Option struct {
	Name  string   // flag without dashes: "time-limit"
	Short string   // one letter, "t"; "" if none
	Key   string   // in a file, below [sandbox]: "network.allow_domains"; "" if it can't be said in a file
	Also  []string // other keys that say the same
	Kind  Kind
	Arg   string   // stands for the value in help: "SIZE"
	Words []string // the values, where they are a closed set
	Help  string   // one line
	Group string   // heading in help

	// Paths: the values are paths. Relative ones are relative to the current
	// directory or the file's folder, "~" is the home directory, and in the
	// environment a list is separated as PATH is. Other lists are separated by commas.
	Paths bool
	// Run: says how the command is run and reported, and is no part of the
	// policy. It lands in Invocation.
	Run bool
	// FileOnly: there is neither a flag nor an environment twin.
	FileOnly bool

	field  func(*Resolved) any                           // points to where the value lives
	check  func(base place, word string) (string, error) // one word to its canonical form
	commas bool                                          // one word on the command line can hold several, separated by commas
	later  bool                                          // off is as if there were no such option: digests from before hold
	zero   bool                                          // 0 is a value and not a mistake
}

// Headings of help, in the order in which they are shown.
const (
	GroupProfile     = "Profile"
	GroupLimits      = "Limits"
	GroupNetwork     = "Network"
	GroupFilesystem  = "Filesystem"
	GroupEnvironment = "Environment"
	GroupIsolation   = "System calls and isolation"
	GroupEnforcement = "Enforcement"
	GroupOutput      = "Report and terminal"
)

// Options is the table of all options, in the order of help. It is not to be changed.
func Options() []Option { return options[:] }

// LookupOption finds an option by its name, or nil.
func LookupOption(name string) *Option {
	for i := range options {
		if options[i].Name == name {
			return &options[i]
		}
	}
	return nil
}

const envPrefix = "CONFINE_"

// EnvName is the environment twin: "CONFINE_TIME_LIMIT". It is empty for an
// option that can only be said in a file.
func (o *Option) EnvName() string {
	if o.FileOnly {
		return ""
	}
	return envPrefix + strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
}

// IsList says whether the option can be repeated.
func (o *Option) IsList() bool { return o.Kind == KindList }

// IsBool says whether the flag stands without a value.
func (o *Option) IsBool() bool { return o.Kind == KindBool }

// isLimit says whether "none" is a value.
func (o *Option) isLimit() bool { return int(o.Kind) < len(forms) && forms[o.Kind] != "" }

// Views of a part of the policy that one option fills in a way of its own.
type (
	allowed  Network // Allow, and All for the word "all"
	passed   Env     // Pass
	assigned Env     // Set, as K=V
)

// WordAll stands for all that a list can have.
const (
	WordAll  = "all"
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
	var canon string
	var err error
	switch o.Kind {
	case KindDuration:
		var d time.Duration
		d, err = ParseDuration(word)
		canon = FormatDuration(d)
	case KindSize:
		var n int64
		n, err = ParseSize(word)
		canon = FormatSize(n)
	case KindPercent:
		var n int64
		n, err = parseCount(strings.TrimSuffix(word, "%"), math.MaxInt32)
		canon = strconv.FormatInt(n, 10) + "%"
	default:
		var n int64
		n, err = parseCount(word, o.most())
		canon = strconv.FormatInt(n, 10)
	}
	if err == errZero && o.zero {
		return wordNone, nil
	}
	if err != nil {
		return "", mistake(err.Error(), "it takes "+forms[o.Kind])
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
		o.setList(r, withAll(o.listWords(r), words))
		if o.Name == "env" || o.Name == "env-set" { // the later word holds
			e := &r.Policy.Env
			for _, w := range words {
				name, _, assigned := strings.Cut(w, "=")
				if assigned {
					e.Pass = slices.DeleteFunc(e.Pass, func(s string) bool { return s == name })
				} else {
					delete(e.Set, name)
				}
			}
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

func with[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// withAll is with for many: what profiles protect are hundreds.
func withAll(list, more []string) []string {
	if len(list)+len(more) <= 16 {
		for _, v := range more {
			list = with(list, v)
		}
		return list
	}
	has := make(map[string]bool, len(list)+len(more))
	for _, v := range list {
		has[v] = true
	}
	list = slices.Grow(list, len(more))
	for _, v := range more {
		if !has[v] {
			has[v] = true
			list = append(list, v)
		}
	}
	return list
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
			words = append(words, WordAll)
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

// setList makes a list of canonical words.
func (o *Option) setList(r *Resolved, words []string) {
	switch p := o.field(r).(type) {
	case *[]string:
		*p = words
	case *[]int:
		*p = nil
		for _, w := range words {
			n, _ := strconv.Atoi(w)
			*p = append(*p, n)
		}
	case *[]Mount:
		*p = nil
		for _, w := range words {
			m, _ := parseMount(place{}, w)
			*p = append(*p, m)
		}
	case *allowed:
		p.All = slices.Contains(words, WordAll)
		p.Allow = slices.DeleteFunc(words, func(w string) bool { return w == WordAll })
	case *passed:
		p.Pass = words
	case *assigned:
		p.Set = nil
		for _, w := range words {
			if p.Set == nil {
				p.Set = make(map[string]string)
			}
			k, v, _ := strings.Cut(w, "=")
			p.Set[k] = v
		}
	}
}
