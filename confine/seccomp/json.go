package seccomp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// value is a JSON value that knows where it stands, so that a mistake can be named
// with its place.
type value struct {
	at    int  // offset
	kind  byte // '{', '[', '"', '0', 't' or 'n' (null)
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

// document reads JSON, and keeps the first mistake.
type document struct {
	name string
	text []byte
	dec  *json.Decoder
}

func (d *document) read() (value, error) {
	d.dec = json.NewDecoder(bytes.NewReader(d.text))
	d.dec.UseNumber()
	v, err := d.value(0)
	if err != nil {
		return v, err
	}
	if at := d.start(); at < len(d.text) {
		return v, d.mistake(at, "there is something after the policy", "")
	}
	return v, nil
}

// start is where the next token starts. The decoder tells where the last one ended.
func (d *document) start() int {
	at := int(d.dec.InputOffset())
	for at < len(d.text) && strings.IndexByte(" \t\r\n,:", d.text[at]) >= 0 {
		at++
	}
	return at
}

func (d *document) value(depth int) (value, error) {
	v := value{at: d.start()}
	if depth > jsonDepth {
		return v, d.mistake(v.at, "it is nested too deeply for a policy", "")
	}
	token, err := d.dec.Token()
	if err != nil {
		return v, d.syntax(err)
	}
	switch token := token.(type) {
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
		return d.inside(v, depth)
	}
	return v, nil
}

// inside reads up to the bracket that closes v.
func (d *document) inside(v value, depth int) (value, error) {
	for d.dec.More() {
		if v.kind == '{' {
			at := d.start()
			token, err := d.dec.Token()
			if err != nil {
				return v, d.syntax(err)
			}
			name, _ := token.(string)
			if slices.ContainsFunc(v.keys, func(k jsonKey) bool { return k.name == name }) {
				return v, d.mistake(at, fmt.Sprintf("key %q stands there twice", name), "")
			}
			if len(v.keys) == jsonKeys {
				return v, d.mistake(at, "there are too many keys for a policy", "")
			}
			v.keys = append(v.keys, jsonKey{name, at})
		}
		item, err := d.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.items = append(v.items, item)
	}
	if _, err := d.dec.Token(); err != nil {
		return v, d.syntax(err)
	}
	return v, nil
}

func (d *document) syntax(err error) error {
	at := int(d.dec.InputOffset())
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		at = int(syntax.Offset) - 1
		for at >= 0 && at < len(d.text)-1 && strings.IndexByte(" \t\r\n", d.text[at]) >= 0 {
			at++
		}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return d.mistake(len(d.text), "the file ends in the middle", "")
	}
	return d.mistake(at, strings.TrimPrefix(err.Error(), "json: "), "")
}

func (d *document) mistake(at int, msg, hint string) error {
	line, column := d.place(at)
	return &PolicyError{d.name, line, column, msg, hint}
}

// place gives line and column of an offset.
func (d *document) place(at int) (line, column int) {
	before := d.text[:max(0, min(at, len(d.text)))]
	line = bytes.Count(before, []byte("\n")) + 1
	return line, len(before) - bytes.LastIndexByte(before, '\n')
}

// fields gives the values under the keys that are known, in their order; a key that
// is missing, or null, has a value of kind 0. Comments are nobody's.
func (d *document) fields(v value, known ...string) ([]value, error) {
	if v.kind != '{' {
		return nil, d.mistake(v.at, "an object should stand here", "")
	}
	out := make([]value, len(known))
	for i, k := range v.keys {
		n := slices.Index(known, k.name)
		switch {
		case n >= 0 && v.items[i].kind != 'n':
			out[n] = v.items[i]
		case n < 0 && k.name != "comment" && k.name != "comments":
			return nil, d.mistake(k.at, fmt.Sprintf("unknown key %q", k.name), didYouMean(k.name, known))
		}
	}
	return out, nil
}

// list gives the elements of an array, none of a missing one.
func (d *document) list(v value) ([]value, error) {
	if v.kind != 0 && v.kind != '[' {
		return nil, d.mistake(v.at, "a list should stand here", "")
	}
	return v.items, nil
}

// words gives an array of strings.
func (d *document) words(v value) ([]value, error) {
	all, err := d.list(v)
	for _, item := range all {
		if item.kind != '"' {
			return nil, d.mistake(item.at, "a string should stand here", "")
		}
	}
	return all, err
}

// word gives a string, "" when it is missing.
func (d *document) word(v value) (string, error) {
	if v.kind != 0 && v.kind != '"' {
		return "", d.mistake(v.at, "a string should stand here", "")
	}
	return v.text, nil
}

// number gives a whole number up to most, 0 when it is missing.
func (d *document) number(v value, most uint64) (uint64, error) {
	if v.kind == 0 {
		return 0, nil
	}
	n, err := strconv.ParseUint(v.text, 10, 64)
	if v.kind != '0' || err != nil || n > most {
		return 0, d.mistake(v.at, fmt.Sprintf("a whole number from 0 to %d should stand here", most), "")
	}
	return n, nil
}
