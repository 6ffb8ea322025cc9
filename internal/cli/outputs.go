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
	report     *sink
	events     *eventLog // nil: nobody asked
	streamErrs []error   // said at the end, when stderr is ours
}

func openOutputs(inv *confine.Invocation, trace string) (*outputs, error) {
	o := new(outputs)
	var err error
	if inv.Report != "" {
		if o.report, err = openReport(inv.Report); err != nil {
			return nil, err
		}
	}
	if o.events, err = eventsOf(inv, trace); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *outputs) close() {
	if o.report != nil {
		o.report.close()
	}
	if o.events != nil {
		o.events.sink.close()
	}
}

// undelivered keeps that what the command wrote did not reach one of the caller's streams.
func (o *outputs) undelivered(stream string, err error) {
	o.streamErrs = append(o.streamErrs, fmt.Errorf("%s: %w", stream, err))
}

// ended writes the report, and the last event.
func (o *outputs) ended(r *status.Report) (failed []error) {
	failed = o.streamErrs
	if err := o.events.end(r); err != nil {
		failed = append(failed, err)
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
