package policyfile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/confine-run/confine/internal/hint"
	"github.com/confine-run/confine/internal/located"
	"github.com/confine-run/confine/internal/seccomp"
)

type value = located.Value

// document is the text of a policy file. What reads it stops at the first mistake.
type document struct {
	name  string
	text  []byte
	lines located.Lines
	json  bool // else TOML
}

// fail ends the reading: Parse gives the mistake back. An offset below 0 is no place.
func (d *document) fail(at int, msg, hint string) {
	mistake := &seccomp.PolicyError{File: d.name, Msg: msg, Hint: hint}
	if at >= 0 {
		mistake.Line, mistake.Column = d.lines.Place(at)
	}
	panic(mistake)
}

// failWith is fail with an error's words.
func (d *document) failWith(at int, err error) {
	msg, remedy := hint.Split(err)
	d.fail(at, msg, remedy)
}

// caught is deferred by whoever reads: what fail threw is an error, and nothing else is.
func (d *document) caught(err *error) {
	switch thrown := recover().(type) {
	case nil:
	case *seccomp.PolicyError:
		*err = thrown
	default:
		panic(thrown)
	}
}

func (d *document) readTOML() value {
	v, err := located.TOML(d.text)
	if mistake, ok := errors.AsType[*located.Error](err); ok {
		d.fail(mistake.At, mistake.Msg, "")
	}
	return v
}

// fields gives the values under the keys that are known, in their order; a key that
// is missing, or null, has a value of kind 0. Comments in JSON are nobody's.
func (d *document) fields(v value, known ...string) []value {
	what := "a table"
	if d.json {
		what = "an object"
	}
	d.want(v, located.Table, what)
	out := make([]value, len(known))
	for i, k := range v.Keys {
		n := slices.Index(known, k.Name)
		switch {
		case n >= 0 && v.Items[i].Kind != located.Null:
			out[n] = v.Items[i]
		case n < 0 && !(d.json && (k.Name == "comment" || k.Name == "comments")):
			d.fail(k.At, fmt.Sprintf("unknown key %q", k.Name), hint.DidYouMean(k.Name, known))
		}
	}
	return out
}

// want refuses a value of another kind. One that is missing is of any kind.
func (d *document) want(v value, kind located.Kind, what string) {
	if v.Kind != 0 && v.Kind != kind {
		d.fail(v.At, what+" should stand here", "")
	}
}

// list gives the elements of an array, none of a missing one.
func (d *document) list(v value) []value {
	d.want(v, located.List, "a list")
	return v.Items
}

// words gives an array of strings.
func (d *document) words(v value) []value {
	all := d.list(v)
	for _, item := range all {
		d.word(item)
	}
	return all
}

// word gives a string, "" when it is missing.
func (d *document) word(v value) string {
	d.want(v, located.String, "a string")
	return v.Text
}

// oneOf gives the number of a word among those that are known; what says what it is.
func (d *document) oneOf(v value, what string, known []string) int {
	word := d.word(v)
	i := slices.Index(known, word)
	if i < 0 {
		d.fail(v.At, fmt.Sprintf("unknown %s %q", what, word), hint.DidYouMean(word, known))
	}
	return i
}

// number gives a whole number up to most, 0 when it is missing.
func (d *document) number(v value, most uint64) uint64 {
	if v.Kind == 0 {
		return 0
	}
	n, err := strconv.ParseUint(v.Text, 10, 64)
	if v.Kind != located.Integer || err != nil || n > most {
		d.fail(v.At, fmt.Sprintf("a whole number from 0 to %d should stand here", most), "")
	}
	return n
}
