package picture

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/confine-run/confine/internal/must"
	"github.com/confine-run/confine/status"
)

// lines are a record that is being written.
type lines struct{ bytes.Buffer }

func (l *lines) add(at int64, e status.Event) {
	e.ElapsedMS, e.Time, e.TraceID = at, "2026-01-02T03:04:05.006Z", "t"
	b, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	l.Write(append(b, '\n'))
}

func number(n int64) *int64 { return &n }

func (l *lines) begin(cmd ...string) {
	l.add(0, status.Event{Event: status.EventRecord, Record: &status.Record{Version: 1, Cmd: cmd, Profile: "default", CPUs: 2,
		Limits: status.RecordedLimits{TimeMS: 30_000, CPUMS: 20_000, MemoryBytes: 512 << 20, Tasks: 32}}})
	for i, name := range []status.PhaseName{status.PhasePlan, status.PhaseBuild, status.PhaseStart} {
		l.add(0, status.Event{Event: status.EventPhase, Phase: &status.Phase{Name: name, US: int64(1000 * (i + 1))}})
	}
	l.add(0, status.Event{Event: status.EventStarted})
}

func (l *lines) sample(at, cpu, memory int64) {
	l.add(at, status.Event{Event: status.EventSample, Sample: &status.Sample{EveryMS: 20, CPUMS: number(cpu), SystemMS: number(cpu / 4), MemoryBytes: number(memory),
		Tasks: number(3), StdoutBytes: number(at), StderrBytes: number(0)}})
}

func (l *lines) process(at int64, pid, parent int, argv ...string) {
	comm := ""
	if len(argv) > 0 {
		comm = argv[0][:min(len(argv[0]), 15)]
	}
	l.add(at, status.Event{Event: status.EventProcess, Process: &status.Process{PID: pid, Parent: parent, StartedMS: at, Comm: comm, Argv: argv}})
}

func (l *lines) gone(at int64, pid int, started int64) {
	l.add(at, status.Event{Event: status.EventProcess, Process: &status.Process{PID: pid, StartedMS: started, SeenMS: number(at - 10)}})
}

func (l *lines) end(at int64, change func(*status.Report)) {
	r := &status.Report{Version: 1, Status: status.OK, Reason: "exited 0", Cause: status.CauseExit, DurationMS: at,
		Usage: status.Usage{CPUMS: at / 2, MemoryPeakBytes: 48 << 20, TasksPeak: 3, Sources: map[string]string{"memory_peak_bytes": "cgroup"}}}
	if change != nil {
		change(r)
	}
	l.add(at, status.Event{Event: status.EventEnded, Report: r})
}

func (l *lines) read(t testing.TB) *Run {
	t.Helper()
	run, err := Read(bytes.NewReader(l.Bytes()))
	must.Do(t, err)
	return run
}

// small is a run with a bit of everything.
func small() *lines {
	l := new(lines)
	l.begin("make", "test")
	l.process(0, 2, 1, "make", "test")
	l.sample(0, 0, 1<<20)
	l.process(40, 3, 2, "cc", "-c", "a.c")
	l.process(50, 4, 2, "cc", "-c", "b.c")
	l.sample(50, 40, 20<<20)
	l.add(60, status.Event{Event: status.EventReached, Reached: &status.Attempt{What: "ok.example:443", Protocol: "tcp", Verdict: status.AttemptAllowed, Count: 1}})
	l.add(70, status.Event{Event: status.EventDenied, Denied: &status.Violation{Kind: "network", What: "no.example:443", Count: 1, Hint: "--allow-network no.example"}})
	l.add(75, status.Event{Event: status.EventDenied, Denied: &status.Violation{Kind: "syscall", What: "bpf(…)", Count: 2, Rule: "default/1"}})
	code := 2
	l.add(90, status.Event{Event: status.EventProcess, Process: &status.Process{PID: 4, Comm: "cc", ExitCode: &code}})
	l.add(91, status.Event{Event: status.EventProcess, Process: &status.Process{PID: 99, Comm: "false", ExitCode: &code}})
	l.gone(100, 3, 40)
	l.gone(100, 4, 50)
	l.sample(100, 90, 30<<20)
	l.gone(120, 2, 0)
	l.sample(120, 100, 30<<20)
	return l
}

func drawn(t testing.TB, run *Run) (svg, html, trace, text string) {
	t.Helper()
	var all [4]strings.Builder
	for i, err := range []error{run.SVG(&all[0]), run.HTML(&all[1]), run.Trace(&all[2]), run.Text(&all[3], Pen{Width: 100})} {
		if err != nil {
			t.Fatal(i, err)
		}
	}
	return all[0].String(), all[1].String(), all[2].String(), all[3].String()
}
