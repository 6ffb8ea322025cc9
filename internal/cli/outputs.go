package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/confine-run/confine/confine"
	"github.com/confine-run/confine/status"
)

// outputs are where --report and --events go.
type outputs struct {
	report, events *sink
	eventsErr      error // the first one; it is said at the end, when stderr is ours
	streamErrs     []error
}

func openOutputs(inv *confine.Invocation) (*outputs, error) {
	o := new(outputs)
	var err error
	if inv.Report != "" {
		if o.report, err = openReport(inv.Report); err != nil {
			return nil, err
		}
	}
	if inv.Events != "" {
		if o.events, err = openEvents(inv.Events); err != nil {
			o.close()
			return nil, err
		}
	}
	return o, nil
}

func (o *outputs) close() {
	for _, s := range []*sink{o.report, o.events} {
		if s != nil {
			s.close()
		}
	}
}

// event is one line of --events.
type event struct {
	Event   string         `json:"event"` // "started" or "ended"
	TraceID string         `json:"trace_id"`
	Report  *status.Report `json:"report,omitempty"` // of "ended"
}

func (o *outputs) started(trace string) { o.emit(event{Event: "started", TraceID: trace}) }

func (o *outputs) emit(e event) {
	if o.events != nil && o.eventsErr == nil {
		o.eventsErr = o.events.write(encode(e))
	}
}

// undelivered keeps that what the command wrote did not reach one of the caller's streams.
func (o *outputs) undelivered(stream string, err error) {
	o.streamErrs = append(o.streamErrs, fmt.Errorf("%s: %w", stream, err))
}

// ended writes the report, and the last event.
func (o *outputs) ended(r *status.Report) (failed []error) {
	failed = o.streamErrs
	o.emit(event{Event: "ended", TraceID: r.TraceID, Report: r})
	if o.events != nil && o.eventsErr == nil {
		o.eventsErr = o.events.finish()
	}
	if o.eventsErr != nil {
		failed = append(failed, o.eventsErr)
	}
	if o.report != nil {
		if err := o.report.put(encode(r)); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// encode gives one line of JSON, with < and > as they are. The types are ours and
// hold nothing that JSON can't say.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return b.Bytes()
}
