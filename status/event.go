package status

import (
	_ "embed" // events.schema.json
	"time"
)

// EventKind is what happened.
type EventKind string

// The closed set of events.
const (
	EventStarted  EventKind = "started"   // the command runs
	EventDenied   EventKind = "denied"    // something was refused, for the first time
	EventLimitHit EventKind = "limit_hit" // a limit was reached, for the first time
	EventUsage    EventKind = "usage"     // once a second
	EventEnded    EventKind = "ended"     // always the last one, also when nothing was started

	// Of --record alone.
	EventRecord  EventKind = "record"  // always the first one: what is recorded
	EventPhase   EventKind = "phase"   // a part of the start is done
	EventReached EventKind = "reached" // a host was reached, or failed, for the first time
	EventSample  EventKind = "sample"  // what is used at a moment
	EventProcess EventKind = "process" // a process was seen for the first time, has another name, failed, or is gone
)

// Event is one line of --events, or of --record.
type Event struct {
	Event     EventKind `json:"event"`
	Time      string    `json:"time"`       // EventTime
	ElapsedMS int64     `json:"elapsed_ms"` // since EventStarted; 0 before
	TraceID   string    `json:"trace_id"`
	// Dropped is how many events were lost since the line before, because the reader was
	// too slow.
	Dropped int64 `json:"dropped,omitempty"`

	Denied *Violation `json:"denied,omitempty"` // of EventDenied
	Limit  Capability `json:"limit,omitempty"`  // of EventLimitHit
	Usage  *Load      `json:"usage,omitempty"`  // of EventUsage
	Report *Report    `json:"report,omitempty"` // of EventEnded

	Record  *Record  `json:"record,omitempty"`  // of EventRecord
	Phase   *Phase   `json:"phase,omitempty"`   // of EventPhase
	Reached *Attempt `json:"reached,omitempty"` // of EventReached
	Sample  *Sample  `json:"sample,omitempty"`  // of EventSample
	Process *Process `json:"process,omitempty"` // of EventProcess
}

// Load is what a run uses at one moment.
type Load struct {
	CPUMS       int64 `json:"cpu_ms"` // of the whole tree, since its start
	MemoryBytes int64 `json:"memory_bytes"`
	Tasks       int64 `json:"tasks"`
}

// EventTime is RFC 3339 in UTC, with milliseconds.
func EventTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// EventSchema is the JSON Schema (2020-12) of Event. It refers to Schema by its $id, and
// allows fields that it does not name, because later releases add some.
//
//go:embed events.schema.json
var EventSchema string

// Violation is how a refused attempt to reach something is told among others.
func (a *Attempt) Violation() Violation {
	rule := a.Rule
	if rule == "" {
		rule = a.Why
	}
	what := a.What
	if a.Protocol == "udp" {
		what += "/udp"
	}
	return Violation{Kind: "network", What: what, Count: a.Count, FirstMS: a.FirstMS, LastMS: a.LastMS, PID: a.PID, Comm: a.Comm, Rule: rule, Hint: a.Hint}
}
