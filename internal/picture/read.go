package picture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/confine-run/confine/status"
)

// Bounds on a record: more than confine writes.
const (
	mostLine  = 32 << 20 // bytes
	mostLines = 1 << 20
	mostBytes = 128 << 20 // of all lines
	mostWords = 1 << 10   // of a command line
	mostTime  = int64(366 * 24 * time.Hour / time.Millisecond)
	mostCount = int64(1) << 56
)

// Run is what a record says.
type Run struct {
	Record    status.Record
	Phases    []status.Phase
	Samples   []Sample // by time
	Processes []*Process
	Unseen    []Failure // of processes that no sample has seen
	Denied    []Denied
	Reached   []Reached
	Limits    []Limit
	Report    *status.Report // nil: the record ends before the run
	EndMS     int64
	Started   bool
	Lost      int64 // lines that are not in it, because of its bound or a slow reader
	Untold    int64 // processes that were seen at one time, and that there was no room for
	Cut       string
}

// Sample is what was used at a moment.
type Sample struct {
	AtMS int64
	status.Sample
}

// Process is one that was seen.
type Process struct {
	status.Process
	AtMS   int64 // when it was seen first
	LastMS int64 // when it was seen last
	GoneMS int64 // when it was first missed, or the run's end; it ended in between
	Gone   bool  // before the record's end
	Failed *int  // what it gave exit_group
	// FailedMS is when, and so the moment of its end.
	FailedMS int64
}

// Failure is the end of a process that no sample has seen.
type Failure struct {
	AtMS int64
	Comm string
	Code int
}

// Denied is what was refused, when it was for the first time.
type Denied struct {
	AtMS int64
	status.Violation
}

// Reached is a host that was reached, or failed, when it was for the first time.
type Reached struct {
	AtMS int64
	status.Attempt
}

// Limit is one that was reached.
type Limit struct {
	AtMS int64
	Name status.Capability
}

// errNoRecord is about the first line.
var errNoRecord = errors.New(`no record: the first line is not that of --record`)

// Read makes a run of a record. A line that is none of a record's is an error that names it; a record that ends too early, as that
// of a confine that was killed does, is a run whose Cut says so.
func Read(from io.Reader) (*Run, error) {
	r := &reader{run: &Run{}, by: map[process]*Process{}, last: map[int]*Process{}}
	in := bufio.NewReaderSize(from, 64<<10)
	left := mostBytes
	for n := 1; ; n++ {
		line, err := readLine(in)
		whole := err == nil
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(line) > 0 || whole {
			if left -= len(line) + 1; n > mostLines || left < 0 {
				return nil, fmt.Errorf("line %d: too much for a record", n)
			}
			err := r.take(line, n)
			if err != nil && !whole && n > 1 {
				r.run.Cut = "its last line is cut off"
				break
			}
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		if !whole {
			if n == 1 && len(line) == 0 {
				return nil, errNoRecord
			}
			break
		}
	}
	r.finish()
	return r.run, nil
}

var errLong = errors.New("too long for a line of a record")

func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > mostLine {
			return nil, errLong
		}
		line = append(line, part...)
		if err != bufio.ErrBufferFull {
			return bytes.TrimSuffix(line, []byte("\n")), err
		}
	}
}

// process names one for good.
type process struct {
	pid     int
	started int64
}

// reader is a record that is being read.
type reader struct {
	run  *Run
	by   map[process]*Process
	last map[int]*Process // by number, whoever has it now
	end  int64
}

// take takes a line. What a later release may write is passed over.
func (r *reader) take(line []byte, n int) error {
	var e status.Event
	if err := json.Unmarshal(line, &e); err != nil {
		if n == 1 {
			return errNoRecord
		}
		return err
	}
	if r.run.Report != nil {
		return errors.New("after the end of the run")
	}
	if (n == 1) != (e.Event == status.EventRecord) {
		if n == 1 {
			return errNoRecord
		}
		return errors.New("a second record begins")
	}
	at := e.ElapsedMS
	if !within(at, mostTime) || !within(e.Dropped, mostCount) {
		return errors.New("a time or a number that can't be")
	}
	r.run.Lost = min(r.run.Lost+e.Dropped, mostCount)
	if e.Event != status.EventEnded {
		r.end = max(r.end, at)
	}
	switch {
	case e.Event == status.EventStarted:
		r.run.Started = true
	case e.Event == status.EventRecord && e.Record != nil:
		return r.begin(e.Record)
	case e.Event == status.EventPhase && e.Phase != nil:
		if !within(e.Phase.US, mostTime*1000) || len(r.run.Phases) > 16 {
			return errors.New("a phase that can't be")
		}
		if n := len(r.run.Phases); n > 0 && r.run.Phases[n-1].Name == e.Phase.Name { // begun anew on a host that gives less
			r.run.Phases[n-1].US = min(r.run.Phases[n-1].US+e.Phase.US, mostTime*1000)
		} else {
			r.run.Phases = append(r.run.Phases, *e.Phase)
		}
	case e.Event == status.EventSample && e.Sample != nil:
		return r.sample(at, e.Sample)
	case e.Event == status.EventProcess && e.Process != nil:
		return r.process(at, e.Process)
	case e.Event == status.EventDenied && e.Denied != nil:
		r.run.Denied = append(r.run.Denied, Denied{at, *e.Denied})
	case e.Event == status.EventReached && e.Reached != nil:
		r.run.Reached = append(r.run.Reached, Reached{at, *e.Reached})
	case e.Event == status.EventLimitHit && e.Limit != "":
		r.run.Limits = append(r.run.Limits, Limit{at, e.Limit})
	case e.Event == status.EventEnded && e.Report != nil:
		return r.report(e.Report)
	case slices.Contains([]status.EventKind{status.EventRecord, status.EventPhase, status.EventSample, status.EventProcess,
		status.EventDenied, status.EventReached, status.EventLimitHit, status.EventEnded}, e.Event):
		return fmt.Errorf("%q without what it is about", e.Event)
	case e.Event == "":
		return errors.New("no event")
	}
	return nil
}

func within(n, most int64) bool { return n >= 0 && n <= most }

func (r *reader) begin(of *status.Record) error {
	if of.Version != status.RecordVersion {
		return fmt.Errorf("a record of version %d; this is for version %d", of.Version, status.RecordVersion)
	}
	l := &of.Limits
	for _, n := range []int64{l.TimeMS, l.CPUMS, int64(l.CPUPercent), l.MemoryBytes, l.Tasks, l.DiskBytes, l.OutputBytes, int64(of.CPUs)} {
		if !within(n, mostCount) {
			return errors.New("a limit that can't be")
		}
	}
	r.run.Record = *of
	r.run.Record.CPUs = min(max(of.CPUs, 1), 1<<16)
	return nil
}

func (r *reader) sample(at int64, s *status.Sample) error {
	for _, n := range []*int64{&s.EveryMS, s.CPUMS, s.UserMS, s.SystemMS, s.ThrottledMS, s.MemoryBytes, s.MemoryPeakBytes, s.Tasks, s.DiskBytes,
		s.StdoutBytes, s.StderrBytes, &s.Untold} {
		if n != nil && !within(*n, mostCount) {
			return errors.New("a number that can't be")
		}
	}
	s.EveryMS = min(max(s.EveryMS, 1), mostTime)
	r.run.Samples = append(r.run.Samples, Sample{at, *s})
	r.run.Untold = max(r.run.Untold, s.Untold)
	return nil
}

func (r *reader) process(at int64, p *status.Process) error {
	if p.PID <= 0 || p.Parent < 0 || !within(p.StartedMS, mostTime) || p.SeenMS != nil && !within(*p.SeenMS, mostTime) {
		return errors.New("a process that can't be")
	}
	if len(p.Argv) > mostWords {
		p.Argv, p.Cut = slices.Clone(p.Argv[:mostWords]), true
	}
	if p.ExitCode != nil {
		if was := r.last[p.PID]; was != nil && !was.Gone {
			was.Failed, was.FailedMS = p.ExitCode, at
		} else {
			r.run.Unseen = append(r.run.Unseen, Failure{at, p.Comm, *p.ExitCode})
		}
		return nil
	}
	key := process{p.PID, p.StartedMS}
	was := r.by[key]
	switch {
	case p.SeenMS != nil && was == nil:
		return errors.New("the end of a process that was not there")
	case p.SeenMS != nil:
		was.LastMS, was.GoneMS, was.Gone = max(*p.SeenMS, was.StartedMS), max(at, *p.SeenMS, was.StartedMS), true
	case was == nil:
		was = &Process{Process: *p, AtMS: at, LastMS: max(at, p.StartedMS)}
		r.by[key], r.last[p.PID] = was, was
		r.run.Processes = append(r.run.Processes, was)
	default:
		was.Comm, was.Argv, was.Cut = p.Comm, p.Argv, p.Cut
		was.LastMS = max(at, was.StartedMS)
	}
	return nil
}

func (r *reader) report(rep *status.Report) error {
	u := &rep.Usage
	for _, n := range []int64{rep.DurationMS, u.CPUMS, u.MemoryPeakBytes, u.TasksPeak, u.TasksStarted} {
		if !within(n, mostCount) {
			return errors.New("a report with a number that can't be")
		}
	}
	r.run.Report = rep
	return nil
}

// finish knows when everything ended.
func (r *reader) finish() {
	run := r.run
	slices.SortStableFunc(run.Samples, func(a, b Sample) int { return int(a.AtMS - b.AtMS) })
	run.EndMS = r.end
	if n := len(run.Samples); n > 0 && run.Report != nil {
		run.EndMS = run.Samples[n-1].AtMS // it is taken at the end; what is known later is of a moment before it
	} else if run.Report != nil {
		run.EndMS = min(max(run.Report.DurationMS, r.end), mostTime)
	}
	run.EndMS = max(run.EndMS, 1)
	if run.Report == nil && run.Cut == "" {
		run.Cut = "it ends before the run does: confine was killed, or goes on"
	}
	for _, p := range run.Processes {
		if !p.Gone {
			p.LastMS, p.GoneMS = run.EndMS, run.EndMS
		}
		if p.Failed != nil {
			p.LastMS, p.GoneMS = max(p.FailedMS, p.StartedMS), max(p.FailedMS, p.StartedMS)
		}
		p.StartedMS, p.LastMS, p.GoneMS = min(p.StartedMS, run.EndMS), min(p.LastMS, run.EndMS), min(p.GoneMS, run.EndMS)
	}
}
