package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/confine-run/confine/internal/hint"
)

// value is a JSON value that knows where it stands, so that a mistake can be named
// with its place.
type value struct {
	at    int  // offset
	kind  byte // '{', '[', '"', '0', 't' or 'n' (null); 0: missing
	text  string
	items []value // of an array; of an object, one for each key
	keys  []jsonKey
}

type jsonKey struct {
	name string
	at   int
}

// More than any policy needs.
const (
	jsonDepth = 16
	jsonKeys  = 32
)

// isJSON: no policy in TOML starts with a brace.
func isJSON(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && text[0] == '{'
}

// document reads JSON.
type document struct {
	reader
	dec *json.Decoder
}

// fail names a mistake with its place.
func (d *document) fail(at int, msg, hint string) {
	line, column := d.place(at)
	d.reader.fail(line, column, msg, hint)
}

// place gives line and column of an offset.
func (d *document) place(at int) (line, column int) {
	before := d.text[:max(0, min(at, len(d.text)))]
	line = bytes.Count(before, []byte("\n")) + 1
	return line, len(before) - bytes.LastIndexByte(before, '\n')
}

func (d *document) read() value {
	d.dec = json.NewDecoder(bytes.NewReader(d.text))
	d.dec.UseNumber()
	v := d.value(0)
	if at := d.start(); at < len(d.text) {
		d.fail(at, "there is something after the policy", "")
	}
	return v
}

// start is where the next token starts. The decoder tells where the last one ended.
func (d *document) start() int {
	at := int(d.dec.InputOffset())
	for at < len(d.text) && strings.IndexByte(" \t\r\n,:", d.text[at]) >= 0 {
		at++
	}
	return at
}

func (d *document) token() json.Token {
	token, err := d.dec.Token()
	at := int(d.dec.InputOffset())
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return token
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		d.fail(len(d.text), "the file ends in the middle", "")
	case errors.As(err, &syntax):
		at = int(syntax.Offset) - 1
		for at >= 0 && at < len(d.text)-1 && strings.IndexByte(" \t\r\n", d.text[at]) >= 0 {
			at++
		}
	}
	d.fail(at, strings.TrimPrefix(err.Error(), "json: "), "")
	return nil
}

func (d *document) value(depth int) value {
	v := value{at: d.start()}
	if depth > jsonDepth {
		d.fail(v.at, "it is nested too deeply for a policy", "")
	}
	switch token := d.token().(type) {
	case nil:
		v.kind = 'n'
	case bool:
		v.kind, v.text = 't', strconv.FormatBool(token)
	case json.Number:
		v.kind, v.text = '0', token.String()
	case string:
		v.kind, v.text = '"', token
	case json.Delim:
		v.kind = byte(token)
		for d.dec.More() {
			if v.kind == '{' {
				v.keys = append(v.keys, d.key(v.keys))
			}
			v.items = append(v.items, d.value(depth+1))
		}
		d.token() // the bracket that closes it
	}
	return v
}

// key reads a key of an object that has others already.
func (d *document) key(others []jsonKey) jsonKey {
	at := d.start()
	name, _ := d.token().(string)
	if slices.ContainsFunc(others, func(k jsonKey) bool { return k.name == name }) {
		d.fail(at, fmt.Sprintf("key %q stands there twice", name), "")
	}
	if len(others) == jsonKeys {
		d.fail(at, "there are too many keys for a policy", "")
	}
	return jsonKey{name, at}
}

// fields gives the values under the keys that are known, in their order; a key that
// is missing, or null, has a value of kind 0. Comments are nobody's.
func (d *document) fields(v value, known ...string) []value {
	if v.kind != '{' {
		d.fail(v.at, "an object should stand here", "")
	}
	out := make([]value, len(known))
	for i, k := range v.keys {
		n := slices.Index(known, k.name)
		switch {
		case n >= 0 && v.items[i].kind != 'n':
			out[n] = v.items[i]
		case n < 0 && k.name != "comment" && k.name != "comments":
			d.fail(k.at, fmt.Sprintf("unknown key %q", k.name), hint.DidYouMean(k.name, known))
		}
	}
	return out
}

// list gives the elements of an array, none of a missing one.
func (d *document) list(v value) []value {
	if v.kind != 0 && v.kind != '[' {
		d.fail(v.at, "a list should stand here", "")
	}
	return v.items
}

// words gives an array of strings.
func (d *document) words(v value) []value {
	all := d.list(v)
	for _, item := range all {
		if item.kind != '"' {
			d.fail(item.at, "a string should stand here", "")
		}
	}
	return all
}

// word gives a string, "" when it is missing.
func (d *document) word(v value) string {
	if v.kind != 0 && v.kind != '"' {
		d.fail(v.at, "a string should stand here", "")
	}
	return v.text
}

// oneOf gives the number of a word among those that are known; what says what it is.
func (d *document) oneOf(v value, what string, known []string) int {
	word := d.word(v)
	i := slices.Index(known, word)
	if i < 0 {
		d.fail(v.at, fmt.Sprintf("unknown %s %q", what, word), hint.DidYouMean(word, known))
	}
	return i
}

// number gives a whole number up to most, 0 when it is missing.
func (d *document) number(v value, most uint64) uint64 {
	if v.kind == 0 {
		return 0
	}
	n, err := strconv.ParseUint(v.text, 10, 64)
	if v.kind != '0' || err != nil || n > most {
		d.fail(v.at, fmt.Sprintf("a whole number from 0 to %d should stand here", most), "")
	}
	return n
}
