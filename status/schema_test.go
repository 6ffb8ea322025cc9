package status

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/confine-run/confine/internal/must"
)

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(Schema))
	must.Do(t, err)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	must.Do(t, c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	must.Do(t, err)
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, r *Report) error {
	t.Helper()
	b, err := json.Marshal(r)
	must.Do(t, err)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
	must.Do(t, err)
	return s.Validate(doc)
}

// ended is the least that a report says.
func ended(s Status, c Cause) Report {
	r := Report{Status: s, Cause: c, TraceID: TraceID(""), RC: s.RC(Normalized, 1, 9)}
	r.Normalize()
	return r
}

func TestReportsFitTheSchema(t *testing.T) {
	schema := compile(t)
	one := 1
	full := ended(SandboxDenied, CauseExit)
	full.ExitCode = &one
	full.Signal = "SIGRTMIN+1"
	full.PolicyDigest = "sha256:" + strings.Repeat("0a", 32)
	full.LimitsHit, full.FullMounts = []string{"disk", "mount_size", "output"}, []string{"/data"}
	full.OutOfMemory = &OutOfMemory{Process: "java", FileBytes: 3, Path: "/tmp", PathBytes: 2}
	full.Encoding = Pair[string]{"utf-8", "base64"}
	full.Usage.Sources = map[string]string{"cpu_ms": "wait4"}
	full.Violations = []Violation{{Kind: "file", What: "/etc/shadow", Count: 2, PID: 3, Comm: "cat", Rule: "system", Hint: "--allow-read /etc/shadow"}}
	full.Changes = &Changes{RunID: "1", Kept: true, Added: []string{"a"}}
	full.Network = &Traffic{Attempts: []Attempt{}, Others: 1}
	for _, protocol := range []string{"tcp", "udp", "dns", "unix"} {
		for _, verdict := range []string{AttemptAllowed, AttemptBlocked, AttemptFailed} {
			full.Network.Attempts = append(full.Network.Attempts, Attempt{What: "a.example:80", Protocol: protocol, Verdict: verdict, Count: 1, Port: 80})
		}
	}
	full.SetupError = &SetupError{Step: "root", Op: "pivot_root", Path: "/", Errno: 1, Error: "operation not permitted", Hint: "…"}
	for _, c := range constants[Capability](t, "Capability") {
		full.Enforced[c] = Enforcement{Requested: "1", Enabled: true, Mechanism: "none", FallbackReason: NotInBuild, PolicyKind: "file", Version: "default/3"}
	}
	if err := validate(t, schema, &full); err != nil {
		t.Errorf("a report with everything in it: %v", err)
	}

	failed := ended(Failed, CauseExit)
	failed.ExitCode = &one
	if err := validate(t, schema, &failed); err != nil {
		t.Errorf("FAILED: %v", err)
	}
	for _, s := range constants[Status](t, "Status") {
		for _, c := range constants[Cause](t, "Cause") {
			r := ended(s, c)
			r.ExitCode = &one
			if err := validate(t, schema, &r); err != nil {
				t.Errorf("%s by %s: %v", s, c, err)
			}
		}
	}
	for _, f := range constants[FallbackReason](t, "FallbackReason") {
		r := ended(OK, CauseExit)
		r.Enforced[Memory] = Enforcement{FallbackReason: f}
		if err := validate(t, schema, &r); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func attempted(a Attempt) *Traffic { return &Traffic{Attempts: []Attempt{a}} }

func TestSchemaRefuses(t *testing.T) {
	schema := compile(t)
	for name, spoil := range map[string]func(*Report){
		"a status outside the set":     func(r *Report) { r.Status = "FINE" },
		"a cause outside the set":      func(r *Report) { r.Cause = "" },
		"a reason outside the set":     func(r *Report) { r.Enforced[Memory] = Enforcement{FallbackReason: "tired"} },
		"OK with an exit code":         func(r *Report) { r.RC = 2 },
		"a failure with exit code 0":   func(r *Report) { r.Status = Timeout },
		"FAILED without the exit code": func(r *Report) { r.Status, r.RC = Failed, 1 },
		"another version":              func(r *Report) { r.Version = 2 },
		"null for a list":              func(r *Report) { r.Violations = nil },
		"a trace id of another length": func(r *Report) { r.TraceID = "ab" },
		"a negative duration":          func(r *Report) { r.DurationMS = -1 },
		"an unknown encoding":          func(r *Report) { r.Encoding.Stdout = "latin1" },
		"a digest of another kind":     func(r *Report) { r.PolicyDigest = "md5:00" },
		"a violation of another kind":  func(r *Report) { r.Violations = []Violation{{Kind: "manners", Count: 1}} },
		"a violation that never was":   func(r *Report) { r.Violations = []Violation{{Kind: "file"}} },
		"an attempt by pigeon":         func(r *Report) { r.Network = attempted(Attempt{Protocol: "pigeon", Verdict: AttemptBlocked, Count: 1}) },
		"an attempt without a verdict": func(r *Report) { r.Network = attempted(Attempt{Protocol: "tcp", Count: 1}) },
		"an attempt that never was":    func(r *Report) { r.Network = attempted(Attempt{Protocol: "tcp", Verdict: AttemptBlocked}) },
	} {
		r := ended(OK, CauseExit)
		if err := validate(t, schema, &r); err != nil {
			t.Fatalf("control: %v", err)
		}
		if spoil(&r); validate(t, schema, &r) == nil {
			t.Errorf("%s is let through", name)
		}
	}
}

// TestSchemaNamesEveryField holds the schema and the Go type together, both ways.
func TestSchemaNamesEveryField(t *testing.T) {
	var doc map[string]any
	must.Do(t, json.Unmarshal([]byte(Schema), &doc))
	defs := doc["$defs"].(map[string]any)
	sameFields(t, "report", reflect.TypeFor[Report](), doc, defs)
	for _, c := range []struct {
		name string
		at   map[string]any
		want []string
	}{
		{"status", doc["properties"].(map[string]any)["status"].(map[string]any), words(constants[Status](t, "Status"))},
		{"cause", doc["properties"].(map[string]any)["cause"].(map[string]any), words(constants[Cause](t, "Cause"))},
		{"fallback_reason", defs["enforcement"].(map[string]any)["properties"].(map[string]any)["fallback_reason"].(map[string]any), words(constants[FallbackReason](t, "FallbackReason"))},
	} {
		var got []string
		for _, v := range c.at["enum"].([]any) {
			got = append(got, v.(string))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the schema has %v, Go has %v", c.name, got, c.want)
		}
	}
}

func words[T ~string](in []T) (out []string) {
	for _, s := range in {
		out = append(out, string(s))
	}
	return out
}

func sameFields(t *testing.T, at string, typ reflect.Type, schema, defs map[string]any) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	switch typ.Kind() {
	case reflect.Pointer:
		sameFields(t, at, typ.Elem(), schema, defs)
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Struct {
			sameFields(t, at+"[]", typ.Elem(), schema["items"].(map[string]any), defs)
		}
	case reflect.Map:
		if typ.Elem().Kind() == reflect.Struct {
			sameFields(t, at+"{}", typ.Elem(), schema["additionalProperties"].(map[string]any), defs)
		}
	case reflect.Struct:
		props := schema["properties"].(map[string]any)
		var required, names []string
		for f := range typ.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			names = append(names, name)
			if options == "" {
				required = append(required, name)
			}
			sub, ok := props[name].(map[string]any)
			if !ok {
				t.Errorf("%s.%s is not in the schema", at, name)
				continue
			}
			sameFields(t, at+"."+name, f.Type, sub, defs)
		}
		for name := range maps.Keys(props) {
			if !slices.Contains(names, name) {
				t.Errorf("%s.%s is in the schema and not in Go", at, name)
			}
		}
		var got []string
		for _, v := range schema["required"].([]any) {
			got = append(got, v.(string))
		}
		slices.Sort(got)
		slices.Sort(required)
		if !slices.Equal(got, required) {
			t.Errorf("%s: the schema requires %v, Go always writes %v", at, got, required)
		}
	}
}
