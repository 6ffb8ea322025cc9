package picture

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/confine-run/confine/status"
)

func TestARecordIsRead(t *testing.T) {
	l := small()
	l.end(120, func(r *status.Report) { r.Usage.TasksStarted = 40 })
	run := l.read(t)
	if run.Cut != "" || run.EndMS != 120 || len(run.Samples) != 4 || len(run.Processes) != 3 || len(run.Unseen) != 1 || len(run.Denied) != 2 || len(run.Reached) != 1 {
		t.Errorf("%+v", run)
	}
	b := run.Processes[2]
	if b.PID != 4 || b.Failed == nil || *b.Failed != 2 || b.LastMS != 90 || b.GoneMS != 90 || !b.Gone {
		t.Errorf("%+v", b)
	}
	if notes := strings.Join(run.notes(), " "); !strings.Contains(notes, "at least 40 tasks") || !strings.Contains(notes, "1 such ended with a failure") {
		t.Error(notes)
	}
}

// A confine that was killed leaves what it had written: every prefix is read, or the line is named in which it is no record.
func TestEveryPrefixOfARecordIsDrawn(t *testing.T) {
	l := small()
	l.end(120, nil)
	whole := l.Bytes()
	first := bytes.IndexByte(whole, '\n')
	for n := range whole {
		run, err := Read(bytes.NewReader(whole[:n]))
		if n <= first-1 {
			if err == nil {
				t.Fatalf("%d bytes are a record", n)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if run.Cut == "" && n < len(whole)-1 {
			t.Fatalf("%d bytes: nothing says that this is a part", n)
		}
		if n%97 == 0 {
			if _, html, _, text := drawn(t, run); !strings.Contains(html, "only a part") || !strings.Contains(text, "only a part") {
				t.Fatalf("%d bytes: the picture doesn't say that it is a part", n)
			}
		}
	}
}

func TestWhatIsNoRecordIsAnErrorWithItsLine(t *testing.T) {
	good := small().String()
	for name, c := range map[string]struct{ record, want string }{
		"nothing":                  {"", "no record"},
		"an empty line":            {"\n", "line 1"},
		"text":                     {"hello\n", "line 1"},
		"a report":                 {`{"version":1,"status":"OK"}` + "\n", "line 1: no record"},
		"another file":             {"[sandbox]\n", "line 1: no record"},
		"events":                   {`{"event":"started","elapsed_ms":0}` + "\n", "line 1: no record"},
		"a later version":          {`{"event":"record","record":{"version":2}}` + "\n", "line 1: a record of version 2"},
		"broken in the middle":     {good + "{\n" + `{"event":"started"}` + "\n", "line 21"},
		"two records":              {good + good, "line 21: a second record"},
		"a negative time":          {good + `{"event":"usage","elapsed_ms":-1}` + "\n", "line 21"},
		"a time beyond all":        {good + `{"event":"usage","elapsed_ms":99999999999999}` + "\n", "line 21"},
		"a number beyond all":      {good + `{"event":"sample","sample":{"every_ms":1,"memory_bytes":999999999999999999}}` + "\n", "line 21"},
		"a negative number":        {good + `{"event":"sample","sample":{"every_ms":1,"tasks":-1}}` + "\n", "line 21"},
		"a process without number": {good + `{"event":"process","process":{"pid":0,"started_ms":0}}` + "\n", "line 21"},
		"an end of nobody":         {good + `{"event":"process","process":{"pid":70,"started_ms":0,"seen_ms":1}}` + "\n", "line 21"},
		"a sample without one":     {good + `{"event":"sample"}` + "\n", "line 21"},
		"an overlong line":         {good + `{"event":"` + strings.Repeat("x", mostLine) + `"}` + "\n", "line 21"},
	} {
		if n := strings.Count(good, "\n"); n != 20 {
			t.Fatal(n)
		}
		if _, err := Read(strings.NewReader(c.record)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Read(strings.NewReader(good + `{"event":"something new","elapsed_ms":1}` + "\n")); err != nil {
		t.Error("of a later release:", err)
	}
}

func TestALineAfterTheEndIsRefused(t *testing.T) {
	l := small()
	l.end(120, nil)
	l.sample(130, 1, 1)
	if _, err := Read(bytes.NewReader(l.Bytes())); err == nil || !strings.Contains(err.Error(), "line 22: after the end") {
		t.Error(err)
	}
}

// What is kept of a record is bounded, however many words of three bytes each there are in it.
func TestAHostileRecordIsKeptInPart(t *testing.T) {
	l := new(lines)
	l.begin("x")
	l.process(1, 2, 1, make([]string, 1<<20)...)
	if p := l.read(t).Processes[0]; len(p.Argv) != mostWords || cap(p.Argv) > 2*mostWords || !p.Cut {
		t.Errorf("%d words of %d, %v", len(p.Argv), cap(p.Argv), p.Cut)
	}
	line := `{"event":"something new","of":"` + strings.Repeat("x", mostLine/2) + `"}` + "\n"
	if _, err := Read(io.MultiReader(strings.NewReader(l.String()), strings.NewReader(strings.Repeat(line, 2*mostBytes/mostLine)))); err == nil || !strings.Contains(err.Error(), "too much for a record") {
		t.Error(err)
	}
}

// What is read of anything can be drawn, as XML, and holds nothing that a browser or a terminal obeys.
func FuzzRead(f *testing.F) {
	l := small()
	f.Add(l.Bytes())
	l.end(120, func(r *status.Report) {
		r.Network = &status.Traffic{Attempts: []status.Attempt{{What: "a:1", Verdict: "blocked", Count: 3}}}
	})
	f.Add(l.Bytes())
	f.Add(hostile(names[:15]...).Bytes())
	f.Fuzz(func(t *testing.T, record []byte) {
		run, err := Read(bytes.NewReader(record))
		if err != nil {
			return
		}
		svg, html, trace, text := drawn(t, run)
		harmless(t, svg, html, trace, text)
	})
}

// What a record says can't make the reading of it take the square of its length, nor a sum begin anew at zero.
func TestAHostileRecordIsDrawnInTimeAndAddedUp(t *testing.T) {
	const many = 150_000
	l := new(lines)
	l.begin("x")
	for i := range many {
		l.process(int64(i), 2+i, many*2+i, "x") // whose parents nobody has seen
	}
	for range 256 {
		l.add(many, status.Event{Event: status.EventDenied, Dropped: mostCount, Denied: &status.Violation{Kind: "syscall", What: "bpf(…)", Count: mostCount}})
	}
	run := l.read(t)
	if run.Lost != mostCount {
		t.Errorf("%d lines are lost", run.Lost)
	}
	if f := run.facts()[5]; !f.Bad || f.Value == "none refused" {
		t.Errorf("%+v", f)
	}
	rows := make(chan int, 1)
	go func() { rows <- len(run.rows()) }()
	select {
	case n := <-rows:
		if n != 1 {
			t.Errorf("%d rows", n)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("each process is looked for among all")
	}
}
