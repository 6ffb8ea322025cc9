package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/confine-run/confine/internal/located"
)

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

// jsonReader reads JSON.
type jsonReader struct {
	*document
	dec *json.Decoder
}

func (d *document) readJSON() value {
	r := jsonReader{d, json.NewDecoder(bytes.NewReader(d.text))}
	r.dec.UseNumber()
	v := r.value(0)
	if at := r.start(); at < len(d.text) {
		d.fail(at, "there is something after the policy", "")
	}
	return v
}

// start is where the next token starts. The decoder tells where the last one ended.
func (d *jsonReader) start() int {
	at := int(d.dec.InputOffset())
	for at < len(d.text) && strings.IndexByte(" \t\r\n,:", d.text[at]) >= 0 {
		at++
	}
	return at
}

func (d *jsonReader) token() json.Token {
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

func (d *jsonReader) value(depth int) value {
	v := value{At: d.start()}
	if depth > jsonDepth {
		d.fail(v.At, "it is nested too deeply for a policy", "")
	}
	switch token := d.token().(type) {
	case nil:
		v.Kind = located.Null
	case bool:
		v.Kind = located.Bool
	case json.Number:
		v.Kind, v.Text = located.Integer, token.String()
	case string:
		v.Kind, v.Text = located.String, token
	case json.Delim:
		v.Kind = located.List
		if token == '{' {
			v.Kind = located.Table
		}
		for d.dec.More() {
			if v.Kind == located.Table {
				v.Keys = append(v.Keys, d.key(v.Keys))
			}
			v.Items = append(v.Items, d.value(depth+1))
		}
		d.token() // the bracket that closes it
	}
	return v
}

// key reads a key of an object that has others already.
func (d *jsonReader) key(others []located.Key) located.Key {
	at := d.start()
	name, _ := d.token().(string)
	if slices.ContainsFunc(others, func(k located.Key) bool { return k.Name == name }) {
		d.fail(at, fmt.Sprintf("key %q stands there twice", name), "")
	}
	if len(others) == jsonKeys {
		d.fail(at, "there are too many keys for a policy", "")
	}
	return located.Key{Name: name, At: at}
}
