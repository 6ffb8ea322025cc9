package picture

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
)

// traced is an event of Chrome's trace format, which Perfetto opens. Times are in microseconds.
type traced struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"` // X: begins and has a length; C: a counter; i: a moment; M: a name
	TS    int64          `json:"ts"`
	Dur   *int64         `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// Numbers that the run itself has in a trace, beside its processes, and the tracks in it.
const (
	traceRun   = 1 // PID 1 is confine's, inside: no process of the run has it
	trackStart = 1
	trackHosts = 2
	trackCalls = 3
)

// Trace writes it in Chrome's trace format: a track for each process, counters for the figures, and what was reached and refused.
func (run *Run) Trace(to io.Writer) error {
	w := bufio.NewWriter(to)
	_, _ = w.WriteString(`{"displayTimeUnit":"ms","traceEvents":[` + "\n")
	enc := json.NewEncoder(w) // it ends each with a line's end
	first := true
	var before int64 // the command ran: no time of a trace is below 0
	for _, p := range run.Phases {
		before += p.US
	}
	emit := func(t traced) {
		if t.Phase != "M" {
			t.TS += before
		}
		if !first {
			_ = w.WriteByte(',')
		}
		first = false
		_ = enc.Encode(t)
	}
	name := func(pid, tid int, kind, text string) {
		emit(traced{Name: kind, Phase: "M", PID: pid, TID: tid, Args: map[string]any{"name": text}})
	}
	name(traceRun, 0, "process_name", "confine: "+cut(strings.Join(run.Record.Cmd, " "), 120))
	name(traceRun, trackStart, "thread_name", "start and limits")
	name(traceRun, trackHosts, "thread_name", "network")
	name(traceRun, trackCalls, "thread_name", "refused calls and files")
	run.traceStart(emit)
	for i := range run.Samples {
		traceSample(&run.Samples[i], emit)
	}
	for _, p := range run.Processes {
		name(p.PID, p.PID, "process_name", cut(p.Comm, 60))
		dur := max(p.GoneMS-p.StartedMS, 0) * 1000
		args := map[string]any{"command": cut(p.command(), 400), "parent": p.Parent, "seen_last_ms": p.LastMS}
		if p.Failed != nil {
			args["exit_code"] = *p.Failed
		}
		emit(traced{Name: cut(p.Comm, 60), Cat: "process", Phase: "X", TS: p.StartedMS * 1000, Dur: &dur, PID: p.PID, TID: p.PID, Args: args})
	}
	for _, a := range run.hosts() {
		dur := max(a.LastMS-a.FirstMS, 1) * 1000
		emit(traced{Name: cut(a.What, 120) + " " + cut(a.Verdict, 20), Cat: "network", Phase: "X", TS: a.FirstMS * 1000, Dur: &dur, PID: traceRun, TID: trackHosts,
			Args: map[string]any{"times": a.Count, "hint": cut(a.Hint, 300), "rule": cut(a.Rule, 200)}})
	}
	for _, v := range run.refusals() {
		emit(traced{Name: cut(v.What, 120), Cat: "denied", Phase: "i", Scope: "p", TS: v.FirstMS * 1000, PID: traceRun, TID: trackCalls,
			Args: map[string]any{"times": v.Count, "hint": cut(v.Hint, 300), "by": cut(v.Comm, 40)}})
	}
	_, _ = w.WriteString("]}\n")
	return w.Flush()
}

func (run *Run) traceStart(emit func(traced)) {
	var all int64
	for _, p := range run.Phases {
		all += p.US
	}
	at := -all // before the command's time
	for _, p := range run.Phases {
		dur := p.US
		emit(traced{Name: phaseText(p.Name), Cat: "start", Phase: "X", TS: at, Dur: &dur, PID: traceRun, TID: trackStart})
		at += dur
	}
	for _, l := range run.Limits {
		emit(traced{Name: "limit reached: " + cut(string(l.Name), 40), Cat: "limit", Phase: "i", Scope: "g", TS: l.AtMS * 1000, PID: traceRun, TID: trackStart})
	}
	word, why, _ := run.verdict()
	emit(traced{Name: word, Cat: "end", Phase: "i", Scope: "g", TS: run.EndMS * 1000, PID: traceRun, TID: trackStart, Args: map[string]any{"why": cut(firstLine(why), 300)}})
}

func traceSample(s *Sample, emit func(traced)) {
	for _, c := range []struct {
		name string
		v    *int64
	}{{"memory, bytes", s.MemoryBytes}, {"memory peak, bytes", s.MemoryPeakBytes}, {"tasks", s.Tasks}, {"CPU time, ms", s.CPUMS}, {"files in private places, bytes", s.DiskBytes},
		{"stdout, bytes", s.StdoutBytes}, {"stderr, bytes", s.StderrBytes}} {
		if c.v != nil {
			emit(traced{Name: c.name, Phase: "C", TS: s.AtMS * 1000, PID: traceRun, Args: map[string]any{"value": *c.v}})
		}
	}
}
