package status

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/confine-run/confine/internal/must"
)

// compileEvents is the schema of events, beside the one that it refers to.
func compileEvents(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	const base = "https://github.com/confine-run/confine/status/"
	for name, text := range map[string]string{"schema.json": Schema, "events.schema.json": EventSchema} {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		must.Do(t, err)
		must.Do(t, c.AddResource(base+name, doc))
	}
	s, err := c.Compile(base + "events.schema.json")
	must.Do(t, err)
	return s
}

func TestEventsFitTheirSchema(t *testing.T) {
	schema := compileEvents(t)
	r := ended(OK, CauseExit)
	fits := func(e Event) error {
		b, err := json.Marshal(e)
		must.Do(t, err)
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
		must.Do(t, err)
		return schema.Validate(doc)
	}
	all := map[EventKind]Event{
		EventStarted:  {},
		EventDenied:   {Denied: &Violation{Kind: "syscall", What: "ptrace", Count: 1}, Dropped: 3},
		EventLimitHit: {Limit: Memory},
		EventUsage:    {Usage: &Load{}},
		EventEnded:    {Report: &r},
		EventRecord:   {Record: &Record{Version: RecordVersion, Cmd: []string{"make"}, CPUs: 2, Limits: RecordedLimits{TimeMS: 1}}},
		EventPhase:    {Phase: &Phase{Name: PhaseBuild, US: 700}},
		EventReached:  {Reached: &Attempt{What: "example.com:443", Protocol: "tcp", Verdict: AttemptAllowed, Count: 1}},
		EventSample:   {Sample: &Sample{EveryMS: 20, CPUMS: new(int64)}},
		EventProcess:  {Process: &Process{PID: 3, Argv: []string{"cc"}, ExitCode: new(int)}},
	}
	for _, kind := range constants[EventKind](t, "EventKind") {
		e, ok := all[kind]
		if !ok {
			t.Errorf("no %s", kind)
		}
		e.Event, e.Time, e.TraceID = kind, EventTime(time.UnixMilli(1)), r.TraceID
		if err := fits(e); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		for name, spoil := range map[string]func(*Event){
			"no time":              func(e *Event) { e.Time = "now" },
			"another event":        func(e *Event) { e.Event = "paused" },
			"a negative time":      func(e *Event) { e.ElapsedMS = -1 },
			"a trace of no length": func(e *Event) { e.TraceID = "" },
			"too few lost":         func(e *Event) { e.Dropped = -1 },
			"what belongs to another": func(e *Event) {
				if e.Denied != nil {
					e.Limit = Memory
				} else {
					e.Denied = all[EventDenied].Denied
				}
			},
			"not what it is about": func(e *Event) {
				if *e = (Event{Event: e.Event, Time: e.Time, TraceID: e.TraceID}); kind == EventStarted {
					e.Usage = &Load{}
				}
			},
			"a report that is none": func(e *Event) { e.Report = &Report{} },
		} {
			bad := e
			if spoil(&bad); fits(bad) == nil {
				t.Errorf("%s with %s is let through", kind, name)
			}
		}
	}
}

func TestEventSchemaNamesEveryField(t *testing.T) {
	var doc map[string]any
	must.Do(t, json.Unmarshal([]byte(EventSchema), &doc))
	props := doc["properties"].(map[string]any)
	for f := range reflect.TypeFor[Event]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if props[name] == nil {
			t.Errorf("%s is not in the schema", name)
		}
		delete(props, name)
	}
	for name := range props {
		t.Errorf("%s is in the schema and not in Go", name)
	}
	if got := EventTime(time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.FixedZone("", 3600))); got != "2026-01-02T02:04:05.006Z" {
		t.Error(got)
	}
}
