package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/confine-run/confine/backend"
	"github.com/confine-run/confine/internal/config"
)

// policyDoc is a policy as a request has it: options by their names, with "_" for "-".
type policyDoc map[string]json.RawMessage

// source is where what a request says comes from, for answers.
const source = "request"

// settings are what the document says, as flags would.
func (d policyDoc) settings() ([]config.Setting, error) {
	var all []config.Setting
	for _, key := range slices.Sorted(maps.Keys(d)) {
		o := config.LookupOption(strings.ReplaceAll(key, "_", "-"))
		if o == nil || strings.Contains(key, "-") || o.Run && o.Name != "profile" || o.FileOnly {
			return nil, fail(http.StatusUnprocessableEntity, codePolicy, strconv.Quote(key)+" is no option of a policy").hint("docs/OPTIONS.md lists them; write _ for -")
		}
		words, err := wordsOf(d[key], o.IsList())
		if err != nil {
			return nil, fail(http.StatusUnprocessableEntity, codePolicy, key+": "+err.Error())
		}
		all = append(all, config.Setting{Option: o.Name, Values: words, Source: source})
	}
	return all, nil
}

// wordsOf is a value as words of a flag.
func wordsOf(raw json.RawMessage, list bool) ([]string, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	word := func(v any) (string, error) {
		switch v := v.(type) {
		case string:
			return v, nil
		case json.Number:
			return v.String(), nil
		case bool:
			return strconv.FormatBool(v), nil
		}
		return "", errors.New("it takes text, a number, true or false")
	}
	items, ok := v.([]any)
	if ok != list {
		if list {
			return nil, errors.New("it takes a list")
		}
		ok = false
	}
	if !ok {
		w, err := word(v)
		return []string{w}, err
	}
	if len(items) == 0 {
		return []string{"none"}, nil
	}
	var words []string
	for _, item := range items {
		w, err := word(item)
		if err != nil {
			return nil, err
		}
		words = append(words, w)
	}
	return words, nil
}

// spec is what a request wants: a policy that the server's files and its ceiling allow, and the directory that it is about.
func (s *Server) spec(doc policyDoc, dir string) (*backend.Spec, error) {
	if dir != "" && !filepath.IsAbs(dir) {
		return nil, fail(http.StatusUnprocessableEntity, codePolicy, "dir is not absolute")
	}
	src := s.Sources
	src.Environ, src.Dir = nil, dir
	var err error
	if src.Flags, err = doc.settings(); err != nil {
		return nil, err
	}
	if _, ok := doc["profile"]; !ok && s.Profile != "" {
		src.Flags = append(src.Flags, config.Setting{Option: "profile", Values: []string{s.Profile}, Source: "--profile"})
	}
	if dir == "" {
		src.Dir = "/"
	}
	r, err := config.Resolve(src)
	if err != nil {
		return nil, err
	}
	policy := &r.Policy
	if policy.Filesystem.Keep && r.IsSet("keep") && doc["keep"] != nil {
		return nil, fail(http.StatusUnprocessableEntity, codePolicy, "nothing that a sandbox leaves is kept on the server's disk").hint("leave out keep, and read its files while it is there")
	}
	policy.Filesystem.Keep = false
	if dir == "" {
		if err := policy.WithoutDir(); err != nil {
			return nil, fail(http.StatusUnprocessableEntity, codePolicy, err.Msg)
		}
	}
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	if err := s.within(policy, dir); err != nil {
		return nil, err
	}
	r.Policy = *policy.Hiding(s.Hidden) // one policy, whoever changes it later
	return &backend.Spec{Policy: policy, Resolved: r, Dir: src.Dir, Environ: s.Environ, ConfigFiles: slices.Concat(r.Protected, s.CeilingFiles),
		Ceiling: s.Ceiling.Hiding(s.Hidden), CeilingDir: cmp.Or(s.Sources.Dir, "/")}, nil
}

// lift takes away what a profile says of how long a run may take: a sandbox has a lifetime, and its processes what is asked of each. What
// the ceiling says of it stays.
func (s *Server) lift(spec *backend.Spec) {
	spec.Resolved.Lift("a sandbox", "time-limit", "cpu-time")
	if s.Ceiling != nil {
		spec.Policy.TimeLimit = cmp.Or(spec.Policy.TimeLimit, s.Ceiling.TimeLimit)
		spec.Policy.CPUTime = cmp.Or(spec.Policy.CPUTime, s.Ceiling.CPUTime)
	}
}

// within refuses what is wider than the server's ceiling by its words. What paths lead to, dir too, the backend compares.
func (s *Server) within(p *config.Policy, dir string) error {
	if s.Ceiling == nil {
		return nil
	}
	if option := p.Wider(s.Ceiling); option != "" {
		return fail(http.StatusForbidden, codeCeiling, "the policy's "+option+" is wider than the server allows").hint(lessHint)
	}
	if own := s.Sources.Dir; dir != "" && (own == "" || filepath.Clean(dir) != own && !strings.HasPrefix(filepath.Clean(dir), strings.TrimSuffix(own, "/")+"/")) {
		return fail(http.StatusForbidden, codeCeiling, "dir is not in the directory that the server was started in")
	}
	return nil
}

const lessHint = "ask for less of it"

// octets are bytes in a document: text where they are UTF-8, else {"b64": …}.
type octets []byte

func (o octets) MarshalJSON() ([]byte, error) {
	if utf8.Valid(o) {
		return json.Marshal(string(o))
	}
	return json.Marshal(map[string][]byte{"b64": o})
}

func (o *octets) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*o = octets(s)
		return nil
	}
	var coded struct {
		B64 *[]byte `json:"b64"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&coded); err != nil || coded.B64 == nil {
		return fail(http.StatusBadRequest, codeBadRequest, `bytes are text, or {"b64": "…"}`)
	}
	*o = *coded.B64
	return nil
}

// duration is a time: a number of seconds, or words as options have them: "1.5m", "none".
type duration time.Duration

func (d *duration) UnmarshalJSON(text []byte) error {
	words, err := wordsOf(text, false)
	if err != nil {
		return err
	}
	*d = 0
	if words[0] == "none" || words[0] == "0" {
		return nil
	}
	parsed, err := config.ParseDuration(words[0])
	if err != nil {
		return fail(http.StatusUnprocessableEntity, codePolicy, "a time: "+err.Error()).hint(`it takes "90s", "1.5m", a number of seconds, or "none"`)
	}
	*d = duration(parsed)
	return nil
}

func (d duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(config.FormatDuration(time.Duration(d)))
}
