// Package outputs is where --report, --events and --record go, and other files that are written when a
// run has ended: no target, and no tree that an earlier one wrote to, leads them elsewhere, and
// what could not be written is told.
package outputs

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/confine-run/confine/internal/config"
	"github.com/confine-run/confine/status"
	"github.com/confine-run/confine/supervisor"
)

// Outputs are those of one run.
type Outputs struct {
	report *Sink
	events *eventLog // nil: nobody asked
	record *eventLog // nil: nobody asked
	// Lost is what the command wrote and one of the caller's streams didn't take.
	Lost []error
}

// Open opens them before anything starts. of is what a record is about.
func Open(inv *config.Invocation, trace string, of func() status.Record, real RealDir) (*Outputs, error) {
	o := new(Outputs)
	var err error
	if inv.Report != "" {
		if o.report, err = OpenWhole("--report", inv.Report, real); err != nil {
			return nil, err
		}
	}
	if inv.Events != "" {
		s, err := openEvents("--events", inv.Events, real)
		if err != nil {
			o.Close()
			return nil, err
		}
		o.events = newEvents(s, trace)
	}
	if inv.Record != "" {
		s, err := openEvents("--record", inv.Record, real)
		if err != nil {
			o.Close()
			return nil, err
		}
		o.record = newRecord(s, trace, of())
	}
	return o, nil
}

// Listen has a run tell what is to be told.
func (o *Outputs) Listen(io *supervisor.Options) {
	io.Undelivered = func(stream string, err error) { o.Lost = append(o.Lost, fmt.Errorf("%s: %w", stream, err)) }
	if o.events != nil {
		o.events.listen(io)
		io.Usage = o.events.usage
	}
	if o.record != nil {
		o.record.record(io)
	}
}

// Close ends what is open.
func (o *Outputs) Close() {
	if o.report != nil {
		o.report.Close()
	}
	for _, e := range [...]*eventLog{o.events, o.record} {
		if e != nil {
			e.sink.Close()
		}
	}
}

// End writes the report, and the last event.
func (o *Outputs) End(r *status.Report) (failed []error) {
	failed = o.Lost
	for _, e := range [...]*eventLog{o.events, o.record} {
		if e == nil {
			continue
		}
		if err := e.end(r); err != nil {
			failed = append(failed, err)
		}
	}
	if o.report != nil {
		if err := o.report.Put(Encode(r)); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// Encode gives one line of JSON, with < and > as they are. The types are ours and
// hold nothing that JSON can't say.
func Encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return b.Bytes()
}
