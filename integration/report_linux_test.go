package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/confine-run/confine/status"
)

// schemas are those of reports and of events; the second refers to the first by its name.
var schemas = sync.OnceValues(func() (of struct{ reports, events *jsonschema.Schema }, err error) {
	const base = "https://github.com/confine-run/confine/status/"
	c := jsonschema.NewCompiler()
	for name, text := range map[string]string{"schema.json": status.Schema, "events.schema.json": status.EventSchema} {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err := errors.Join(err, c.AddResource(base+name, doc)); err != nil {
			return of, err
		}
	}
	of.reports, err = c.Compile(base + "schema.json")
	if err == nil {
		of.events, err = c.Compile(base + "events.schema.json")
	}
	return of, err
})

// validEvents holds each line against the schema. The last event is the end.
func validEvents(path string, s *jsonschema.Schema) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	last := ""
	for line := range strings.Lines(string(text)) {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err == nil {
			err = s.Validate(doc)
		}
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", path, err, line)
		}
		last, _ = doc.(map[string]any)["event"].(string)
	}
	if last != string(status.EventEnded) {
		return fmt.Errorf("%s ends with the event %q", path, last)
	}
	return nil
}

// validReports holds every report below dir against the schema: each file
// NAME.json that is one; and the lines of each file NAME.events.
func validReports(dir string) (bad error) {
	schemas, err := schemas()
	if err != nil {
		return err
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(path) == ".events" {
			bad = errors.Join(bad, validEvents(path, schemas.events))
		}
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) != ".json" {
			return nil // what a script made unreadable holds no report
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(`"policy_digest"`)) || !bytes.Contains(text, []byte(`"limits_hit"`)) {
			return nil
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err == nil {
			err = schemas.reports.Validate(doc)
		}
		if err != nil {
			bad = errors.Join(bad, fmt.Errorf("%s: %w\n%s", path, err, text))
		}
		return nil
	})
	return errors.Join(err, bad)
}

func cmdJQ(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: jq FILE PATH VALUE")
	}
	var doc any
	d := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	d.UseNumber()
	ts.Check(d.Decode(&doc))
	value, err := at(doc, args[1])
	ts.Check(err)
	got, isString := value.(string)
	if !isString {
		b, err := json.Marshal(value)
		ts.Check(err)
		got = string(b)
	}
	matches := got == args[2]
	if pattern, ok := strings.CutPrefix(args[2], "~"); ok {
		matches, err = regexp.MatchString(pattern, got)
		ts.Check(err)
	}
	if matches == neg {
		ts.Fatalf("%s is %s in %s", args[1], quoted(got), ts.ReadFile(args[0]))
	}
}

// at finds a.b[0].c; what isn't there is null.
func at(doc any, path string) (any, error) {
	for _, step := range strings.Split(path, ".") {
		name, index, isList := strings.Cut(strings.TrimSuffix(step, "]"), "[")
		if name != "" {
			m, ok := doc.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s: %q of what is no object", path, name)
			}
			doc = m[name]
		}
		if !isList {
			continue
		}
		n, err := strconv.Atoi(index)
		list, ok := doc.([]any)
		if err != nil || !ok || n >= len(list) {
			return nil, fmt.Errorf("%s: no element %s", path, index)
		}
		doc = list[n]
	}
	return doc, nil
}
